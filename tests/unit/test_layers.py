"""The import order of docs/design: which package may import which, and what the pure ones may not touch."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "echelon"

MAY_IMPORT: dict[str, set[str]] = {
    "base": set(),
    "initializers": set(),
    "api": {"base"},
    "engine": {"base"},
    "decide": {"api", "base"},
    "store": {"base"},
    "server": {"store", "api", "base"},
    "client": {"api", "base"},
    "scheduler": {"engine", "client", "api", "base"},
    "controllers": {"decide", "client", "api", "base"},
    "agents": {"client", "api", "base"},
    "deploy": {"api", "base"},
    "cli": {"client", "api", "base", "deploy", "runtime"},
    "runtime": {
        "base", "api", "engine", "decide", "store", "server", "client", "scheduler", "controllers", "agents", "deploy",
    },
    "testing": {
        "base", "api", "engine", "decide", "store", "server", "client", "scheduler", "controllers", "agents", "runtime",
    },
}  # fmt: skip

#: The rooms of a package, lowest first: a room imports rooms before it, never one after it.  Modules that stand
#: directly in the package are rooms of their own; those that are not named here come last and are imported by no room.
ROOMS: dict[str, list[str]] = {
    "api": [
        "custom_kind", "scheme", "served_kinds", "errors", "verbs", "objects", "group_kinds", "views", "schema",
        "custom", "protobuf", "ownership", "patching", "cluster", "rules", "admission", "access",
    ],
    "engine": [
        "records", "cluster", "space", "packing", "models", "search", "placement", "preemption", "explain", "check",
    ],
    "scheduler": ["devices", "volumes", "intake", "queueing", "reporting", "asking", "acting"],
    "server": ["objects", "identity", "verbs", "setup", "http"],
    "server/http": ["requests", "replies", "handlers", "streams"],
}  # fmt: skip
#: Arrows that the order of the rooms would allow and the design does not.
FORBIDDEN: dict[str, set[str]] = {
    "engine/check": {"space", "packing", "models", "search", "placement", "preemption", "explain"},
    "server/http": {"verbs", "setup"},
}
#: The most Python files side by side in a folder; rules are a table of kinds, one file each.
MOST_FILES = 15
TABLES = {"api/rules"}

PURE = {"base", "api", "engine", "decide", "deploy"}
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


def _room_edges(package: str) -> list[tuple[str, str, Path]]:
    """Every import inside a package as (room, imported room, file)."""
    folder, prefix = ROOT / package, ("echelon", *package.split("/"))
    edges = []
    for path in sorted(folder.rglob("*.py")):
        room = path.relative_to(folder).with_suffix("").parts[0]
        inside = (name[len(prefix)] for name in _imports(path) if name[: len(prefix)] == prefix and name != prefix)
        edges += [(room, imported, path) for imported in inside if imported != room]
    return edges


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_in_one_direction(package: str) -> None:
    order = ROOMS[package]
    edges = _room_edges(package)
    assert edges
    for room, imported, path in edges:
        if room == "__init__":
            continue
        assert imported in order or room not in order, f"{path}: {room} imports {imported}, which is above all rooms"
        if room in order:
            assert order.index(imported) < order.index(room), f"{path}: {room} imports {imported}"
        assert imported not in FORBIDDEN.get(f"{package}/{room}", ()), f"{path}: {room} imports {imported}"


def test_every_folder_of_a_package_with_rooms_is_a_room() -> None:
    for package, order in ROOMS.items():
        folders = {path.name for path in (ROOT / package).iterdir() if (path / "__init__.py").exists()}
        assert folders <= set(order)


def test_other_packages_use_the_facade_of_the_engine() -> None:
    """The scheduler and the builders for tests import `echelon.engine`, never a room behind it."""
    for path in _modules():
        if _room(path) != "engine":
            deep = [name for name in _imports(path) if name[:2] == ("echelon", "engine") and len(name) > 3]
            assert not deep, f"{path} imports {deep}"


def test_no_folder_is_crowded() -> None:
    for folder in {path.parent for path in _modules()}:
        if str(folder.relative_to(ROOT)) not in TABLES:
            assert len(list(folder.glob("*.py"))) <= MOST_FILES, f"{folder} has more than {MOST_FILES} files"


def test_the_solver_is_asked_for_placements_and_for_victims_only() -> None:
    users = [path.name for path in _modules() if any(name[0] == "ortools" for name in _imports(path))]
    assert users == ["cpsat.py"]


def test_no_empty_rooms() -> None:
    for room in (p for p in ROOT.iterdir() if p.is_dir() and p.name != "__pycache__"):
        assert any(p.name != "__init__.py" for p in room.rglob("*.py")), f"{room.name} holds nothing"
