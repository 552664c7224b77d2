"""The control plane that `echelon up` runs on this machine: where its data is, and whether it runs."""

from __future__ import annotations

import os
from pathlib import Path


def default_data_directory() -> Path:
    """The default of --data, by the XDG convention."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "echelon"


def running_kubeconfig() -> Path | None:
    """The kubeconfig of the plane in the default data directory; None unless the process that holds it is alive."""
    data = default_data_directory()
    try:
        os.kill(int((data / "lock").read_text()), 0)
    except PermissionError:  # alive, of another user
        pass
    except (OSError, ValueError, OverflowError):
        return None
    path = data / "kubeconfig"
    return path if path.is_file() else None
