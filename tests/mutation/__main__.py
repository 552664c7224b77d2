"""`make mutants`: how many wrong expressions of a package its tests notice.

make mutants PACKAGE=decide                       all mutants of decide against its unit tests
make mutants PACKAGE=scheduler MUTANTS=300        300 drawn at random
"""

from __future__ import annotations

import os
import sys

import pytest

_INTEGRATION = "tests/integration/test_"
#: The tests that are fast enough to be run for every mutant of a package.
TESTS = {
    "decide": [
        "tests/unit/decide",
        *(f"{_INTEGRATION}{name}.py" for name in (
            "replicas", "deployments", "daemon_sets", "stateful_sets", "garbage", "node_lifecycle", "budgets",
            "pipeline_deletion", "job_runs", "job_pods", "jobset_life", "jobset_groups", "trainjob_life")),
    ],
    "scheduler": [
        "tests/unit/scheduler",
        *(f"{_INTEGRATION}scheduler_{name}.py" for name in (
            "flat_groups", "hierarchies", "topology", "preemption", "preferences", "reservation", "binding", "waking",
            "volumes", "between_pods", "replaced_objects", "write_order", "standby", "bad_input")),
    ],
}  # fmt: skip

package = os.environ.get("PACKAGE", "decide")
arguments = ["-q", "-p", "tests.mutation.plugin", "-p", "no:cacheprovider", "-o", "timeout=0", "-s",
             f"--mutate=echelon/{package}", f"--mutants={os.environ.get('MUTANTS', 0)}",
             f"--mutation-seed={os.environ.get('SEED', 1)}"]  # fmt: skip
sys.exit(pytest.main([*arguments, *(sys.argv[1:] or TESTS[package.split("/")[0]])]))
