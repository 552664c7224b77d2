"""`make deploy`: writes the Helm chart and the kustomize tree."""

from __future__ import annotations

import shutil
from pathlib import Path

from echelon.deploy.packages import files

if __name__ == "__main__":
    deploy = Path(__file__).parents[3] / "deploy"
    for folder in ("helm", "kustomize"):
        shutil.rmtree(deploy / folder)
    for path, text in files().items():
        target = deploy / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
