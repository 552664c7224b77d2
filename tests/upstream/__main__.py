"""Kubernetes' own end-to-end suite on a plane of ours: `make e2e-upstream`.

The specs of `specs.toml` run no container: they are about the API and its controllers. The binary is upstream's, with
its default clients; several processes of it run against one plane, as upstream runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import controlplane
from tests.e2e.process import UpProcess

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Outcome:
    spec: str
    #: passed, failed, skipped, timedout, …; missing if the suite has no such spec.
    state: str
    seconds: float = 0.0
    message: str = ""


def main() -> int:
    options = _options()
    areas = {
        area: [spec for spec in specs if re.search(options.focus, spec)]
        for area, specs in tomllib.loads((HERE / "specs.toml").read_text()).items()
        if not options.area or area in options.area
    }
    suite = subprocess.run(
        [ROOT / "tools" / "e2e" / "build"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="echelon-upstream-") as directory, ExitStack() as stack:
        kubeconfig = options.kubeconfig
        if kubeconfig is None:
            plane = UpProcess(Path(directory) / "data")
            plane.start()
            stack.callback(plane.stop)
            kubeconfig = plane.kubeconfig
        found = run(suite, areas, kubeconfig, Path(directory), options)
    return report(areas, found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make e2e-upstream", description=__doc__)
    parser.add_argument("--area", action="append", default=[], help="only this area of specs.toml; may be repeated")
    parser.add_argument("--focus", default="", help="only specs whose name matches this regular expression")
    parser.add_argument("--processes", type=int, default=6, help="how many processes of the suite run at once")
    parser.add_argument("--batch", type=int, default=8, help="how many specs one process of the suite runs")
    parser.add_argument("--seconds", type=int, default=1200, help="how long one batch may take")
    parser.add_argument("--kubeconfig", type=Path, help="a plane that runs already, instead of one of its own")
    parser.add_argument("--logs", type=Path, help="where to keep what the suite prints")
    parsed: argparse.Namespace = parser.parse_args()
    return parsed


def run(
    suite: str, areas: Mapping[str, Sequence[str]], kubeconfig: Path, directory: Path, options: argparse.Namespace
) -> dict[str, Outcome]:
    """What became of every spec; those that must be alone run after the others."""
    kubectl = shutil.which("kubectl", path=f"{controlplane.home()}:{os.environ['PATH']}")
    logs = options.logs or directory
    logs.mkdir(parents=True, exist_ok=True)
    specs = [spec for chosen in areas.values() for spec in chosen]
    alone = [spec for spec in specs if "[Serial]" in spec]
    together = [spec for spec in specs if spec not in set(alone)]
    found: dict[str, Outcome] = {}

    def batch(number: int, chosen: Sequence[str]) -> None:
        told = logs / f"{number:03}.json"
        command = [
            suite, f"--kubeconfig={kubeconfig}", "--provider=skeleton", "--dump-logs-on-failure=false",
            "--disable-log-dump", f"--kubectl-path={kubectl}",
            f"--ginkgo.focus=(^| )({'|'.join(map(re.escape, chosen))})$", f"--ginkgo.json-report={told}",
            f"--ginkgo.timeout={options.seconds}s", "--ginkgo.no-color", "--ginkgo.v",
        ]  # fmt: skip
        with told.with_suffix(".log").open("w") as log:
            subprocess.run(command, stdout=log, stderr=log, cwd=directory, check=False, stdin=subprocess.DEVNULL)
        for outcome in outcomes(chosen, told):
            found[outcome.spec] = outcome
            print(f"{outcome.state:9}{outcome.seconds:6.1f} s  {number:03} {outcome.spec}", flush=True)

    size = options.batch
    batches = [together[at : at + size] for at in range(0, len(together), size)]
    with ThreadPoolExecutor(options.processes) as pool:
        list(pool.map(batch, range(len(batches)), batches))
    if alone:
        batch(len(batches), alone)
    return found


def outcomes(chosen: Sequence[str], told: Path) -> list[Outcome]:
    """What the suite's report says of the specs it was asked for."""
    if not told.exists():
        return [Outcome(spec, "ended", message="the suite ended without a report") for spec in chosen]
    entries = [entry for suite in json.loads(told.read_text()) for entry in suite["SpecReports"] or ()]
    named = {
        " ".join([*(entry.get("ContainerHierarchyTexts") or ()), entry["LeafNodeText"]]): entry
        for entry in entries
        if entry["LeafNodeType"] == "It"
    }
    around = [
        f"{entry['LeafNodeType']}: {entry['Failure']['Message']}"
        for entry in entries
        if entry["LeafNodeType"] != "It" and entry["State"] not in ("passed", "skipped")
    ]
    return [_outcome(spec, named.get(spec), "; ".join(around)) for spec in chosen]


def _outcome(spec: str, entry: Mapping[str, Any] | None, around: str) -> Outcome:
    if entry is None:
        return Outcome(spec, "missing", message="the suite has no such spec")
    message = entry.get("Failure", {}).get("Message", "") or around
    return Outcome(spec, entry["State"], entry["RunTime"] / 1e9, message)


def report(areas: Mapping[str, Sequence[str]], found: Mapping[str, Outcome]) -> int:
    """Passed of all by area, and what did not pass."""
    print()
    for area, specs in areas.items():
        for spec in specs:
            if found[spec].state != "passed":
                told = " ".join(found[spec].message.split())
                print(f"{found[spec].state}: {area}: {spec}\n    {told[:400]}")
    print(f"\n{'area':40} passed  of")
    for area, specs in areas.items():
        print(f"{area:40} {_passed(found[spec] for spec in specs):6} {len(specs):3}")
    passed, total = _passed(found.values()), len(found)
    print(f"{'all':40} {passed:6} {total:3}")
    return 0 if passed == total else 1


def _passed(outcomes: Iterable[Outcome]) -> int:
    return sum(outcome.state == "passed" for outcome in outcomes)


if __name__ == "__main__":
    sys.exit(main())
