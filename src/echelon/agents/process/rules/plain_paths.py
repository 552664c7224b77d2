"""Mount paths without mounts: in tier plain a path is replaced where the manifest names it, else refused.

A program that has a path built in would not find it, so a mount whose path nobody is told is refused, not left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ....api.scheme import Object

#: Mounted for programs that look for it by themselves; without it they find no API, which they are told by its absence.
_BY_CONVENTION = "/var/run/secrets/kubernetes.io/serviceaccount"


def replaced(text: str, paths: Mapping[str, str]) -> str:
    """Longest paths first, so that a mount inside another one is found."""
    if not paths:
        return text
    longest_first = sorted(paths, key=len, reverse=True)
    return _pattern(*longest_first).sub(lambda match: paths[match.group(0)], text)


def unnamed(paths: Iterable[str], container: Object) -> list[str]:
    """Mount paths that neither the command nor the environment of the container names."""
    told = [*(container.get("command") or ()), *(container.get("args") or ()), container.get("workingDir") or ""]
    told += [str(variable.get("value") or "") for variable in container.get("env") or ()]
    return [
        path for path in paths if path != _BY_CONVENTION and not any(_pattern(path).search(str(text)) for text in told)
    ]


def _pattern(*paths: str) -> re.Pattern[str]:
    return re.compile(r"(?<![\w./-])(?:" + "|".join(map(re.escape, paths)) + r")(?![\w.-])")
