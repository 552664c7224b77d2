"""`--help` and completion answer at once: until a command runs, click is the only library that is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from echelon.api.objects.vocabulary import OWN_SCHEDULER
from echelon.base import program_options
from echelon.cli import main
from echelon.deploy.options import OWN_CONTROLLERS

#: Parts of the standard library that take longer to import than all of click.
SLOW = {"asyncio", "ssl", "tempfile"}
PROBE = """
import sys
before = set(sys.modules)
from echelon.cli import main
try:
    main(sys.argv[1:])
finally:
    print("\\n".join(sorted(set(sys.modules) - before)), file=sys.stderr)
"""


def imported(*arguments: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage:" in done.stdout
    return done.stderr.split()


@pytest.mark.parametrize("command", ["", *main.commands])
def test_help_imports_no_more_than_click_and_the_command_files(command: str) -> None:
    modules = imported(*filter(None, (command, "--help")))
    tops = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert tops == {"click", "echelon"}
    ours = {name for name in modules if name.startswith("echelon.")}
    assert not {name for name in ours if not name.startswith(("echelon.cli", "echelon.base"))}
    assert not SLOW & set(modules)
    assert len(modules) < 120


def test_options_have_the_names_that_pods_and_installations_know() -> None:
    assert program_options.SCHEDULER_NAME == OWN_SCHEDULER
    assert program_options.CONTROLLER_NAMES == OWN_CONTROLLERS
