"""The import order of docs/design: who may import whom, and what the pure rooms may not touch."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "echelon"

MAY_IMPORT: dict[str, set[str]] = {
    "base": set(),
    "api": {"base"},
    "engine": {"base"},
    "decide": {"api", "base"},
    "store": {"base"},
    "server": {"store", "api", "base"},
    "client": {"api", "base"},
    "scheduler": {"engine", "client", "api", "base"},
    "controllers": {"decide", "client", "api", "base"},
    "agents": {"client", "api", "base"},
    "cli": {"client", "api", "base", "runtime"},
    "runtime": {
        "base", "api", "engine", "decide", "store", "server", "client", "scheduler", "controllers", "agents",
    },
    "testing": {
        "base", "api", "engine", "decide", "store", "server", "client", "scheduler", "controllers", "agents", "runtime",
    },
}  # fmt: skip

PURE = {"base", "api", "engine", "decide"}
IMPURE_MODULES = {
    "asyncio", "time", "random", "os", "socket", "sqlite3", "logging", "subprocess", "threading", "pathlib", "secrets",
    "uuid", "tempfile", "shutil", "http", "urllib", "ssl", "signal", "selectors", "multiprocessing",
}  # fmt: skip


def _modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT)


def _room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0]


def _imports(path: Path) -> list[tuple[str, ...]]:
    """Every import as a tuple of name parts, relative ones resolved from the package root."""
    package = path.relative_to(ROOT.parent).parts[:-1]
    found: list[tuple[str, ...]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = base + tuple(node.module.split(".") if node.module else ())
            found += [(*stem, alias.name) for alias in node.names]
    return found


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_layers(path: Path) -> None:
    room = _room(path)
    assert room in MAY_IMPORT, f"{room} is not a room of the design"
    for name in _imports(path):
        if name[0] == "echelon" and len(name) > 1 and not name[1].startswith("__"):
            assert name[1] == room or name[1] in MAY_IMPORT[room], f"{path} imports {'.'.join(name)}"
        elif room in PURE:
            assert name[0] not in IMPURE_MODULES, f"{path} is pure and imports {name[0]}"


def test_the_solver_is_asked_for_placements_and_for_victims_only() -> None:
    users = [path.name for path in _modules() if any(name[0] == "ortools" for name in _imports(path))]
    assert users == ["solver.py"]


def test_no_empty_rooms() -> None:
    for room in (p for p in ROOT.iterdir() if p.is_dir() and p.name != "__pycache__"):
        assert any(p.name != "__init__.py" for p in room.rglob("*.py")), f"{room.name} holds nothing"
