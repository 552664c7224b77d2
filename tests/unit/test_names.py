"""One name, one thing: a module or a public class has its name to itself.

A name may stand in several packages where it names the same subject; each such name is listed with its reason.
Sub-packages and `__init__` are not looked at: a room may be called as in another package.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "echelon"

#: Modules that share a name because they are about the same subject.
SAME_SUBJECT: dict[str, str] = {
    "__main__": "what `python -m` runs",
    "disruption_budgets": "decide computes their status, the controller writes it, the scheduler reads them",
    "endpoint_slices": "decide says which endpoints a Service has, the controller writes them",
    "exclusive_placement": "admission sends pods to their leader, decide says who is not there, the controller ends it",
    "garbage": "decide says what has lost its owners, the controller deletes it",
    "lifecycle": "decide says how a node is, the controller writes it",
    "taint_eviction": "decide says when a taint ends a pod, the controller deletes it",
    "lost_pods": "decide says which pods have lost their node, the controller deletes them",
    "namespaces": "admission refuses, decide says what goes, the controller deletes",
    "protection": "admission adds the finalizer of a group, decide says when it goes, the controller removes it",
    "job": "the kind Job: its rules and its controller",
    "jobset": "the kind JobSet: its rules and its controller",
    "resource_claims": "decide says which claims are made and given back, the controller writes it",
    "replicas": "ReplicaSets and ReplicationControllers: decide says which pods there should be, for the controller",
    "daemons": "DaemonSets: decide says which nodes need a pod, for the controller",
    "stateful": "StatefulSets: decide says which pods come next, for the controller",
    "trainjob": "the kind TrainJob: its admission and its controller",
    "torchtune": "`tune run`: admission checks it, decide builds its command",
}
#: Folders that tell the same story for different kinds, with the same files.
SAME_FILES = ("decide/cronjob", "decide/job", "decide/jobset", "decide/trainjob")


def _module_places() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        if path.name != "__init__.py":
            found[path.stem].append(str(path.parent.relative_to(ROOT)))
    return found


def _class_places() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    return found


def _is_same_files(folders: list[str]) -> bool:
    return all(folder in SAME_FILES for folder in folders)


MODULES, CLASSES = _module_places(), _class_places()


@pytest.mark.parametrize("name", [name for name, folders in MODULES.items() if len(folders) > 1])
def test_modules_that_share_a_name_are_about_the_same_subject(name: str) -> None:
    folders = MODULES[name]
    if _is_same_files(folders):
        return
    assert name in SAME_SUBJECT, f"{name}.py stands in {', '.join(folders)}: rename, or say why they are the same"
    packages = [folder.split("/")[0] for folder in folders if folder not in SAME_FILES]
    assert len(packages) == len(set(packages)), f"{name}.py stands twice in one package: {', '.join(folders)}"


@pytest.mark.parametrize("name", [name for name, files in CLASSES.items() if len(files) > 1])
def test_public_classes_have_their_name_to_themselves(name: str) -> None:
    files = CLASSES[name]
    folders = [str(Path(file).parent) for file in files]
    alone = _is_same_files(folders) and len(set(folders)) == len(folders)
    assert alone, f"class {name} stands in {', '.join(files)}"


def test_no_name_is_excused_that_stands_once() -> None:
    shared = {name for name, places in (*MODULES.items(), *CLASSES.items()) if len(places) > 1}
    assert set(SAME_SUBJECT) <= shared
