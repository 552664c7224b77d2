"""Config files: what they may say, what is said of mistakes, and that the reference page lists it all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from echelon.base.program_options import (
    API_VERSION,
    CONTROLLERS_PROGRAM,
    PROGRAMS,
    SCHEDULER_PROGRAM,
    Option,
    ProgramOptions,
)
from echelon.cli import main
from echelon.deploy.configuration import BadConfiguration, changed, merged, read
from echelon.deploy.objects.installation import objects
from echelon.deploy.objects.programs import configured_levels
from echelon.deploy.options import InstallOptions

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"
HEAD = f"apiVersion: {API_VERSION}\nkind: SchedulerConfiguration\n"


def refusal(text: str, program: ProgramOptions = SCHEDULER_PROGRAM, *, installed: bool = False) -> str:
    with pytest.raises(BadConfiguration) as caught:
        read(text, "f.yaml", program, installed=installed)
    return str(caught.value)


def test_a_file_says_only_what_differs() -> None:
    assert read(HEAD, "f.yaml", SCHEDULER_PROGRAM) == {}
    said = read(
        HEAD + "name: [a, b]\nreserveAfter: 90\nmetricsPort: 1234\nleaderElect: false\nlogLevel: debug\n"
        "kubeconfig: /k\n",
        "f.yaml",
        SCHEDULER_PROGRAM,
    )
    assert said == {
        "name": ("a", "b"), "reserveAfter": 90.0, "metricsPort": 1234, "leaderElect": False, "logLevel": "debug",
        "kubeconfig": "/k",
    }  # fmt: skip
    text = HEAD.replace("Scheduler", "Controllers") + "only: [jobset]\n"
    assert read(text, "f.yaml", CONTROLLERS_PROGRAM) == {"only": ("jobset",)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"f.yaml: empty file: must begin with apiVersion: {API_VERSION}"),
        ("kind: SchedulerConfiguration\n", "f.yaml:1: missing key 'apiVersion'"),
        ("apiVersion: v1\nkind: SchedulerConfiguration\n", f"f.yaml:1: apiVersion: 'v1' must be {API_VERSION}"),
        (
            f"apiVersion: {API_VERSION}\nkind: ControllersConfiguration\n",
            "f.yaml:2: kind: 'ControllersConfiguration' must be SchedulerConfiguration",
        ),
        (HEAD + "reserveafter: 5\n", "f.yaml:3: unknown key 'reserveafter', did you mean 'reserveAfter'?"),
        (HEAD + "only: [job]\n", "f.yaml:3: unknown key 'only'; known keys: apiVersion, kind, kubeconfig"),
        (HEAD + "\nlogLevel: info\nlogLevel: info\n", "f.yaml:5: duplicate key 'logLevel'"),
        (HEAD + "reserveAfter: soon\n", "f.yaml:3: reserveAfter: 'soon' must be a number of seconds greater than 0"),
        (HEAD + "reserveAfter: .inf\n", "f.yaml:3: reserveAfter: '.inf' must be a number of seconds greater than 0"),
        (HEAD + "metricsPort: 70000\n", "f.yaml:3: metricsPort: '70000' must be an integer from 0 to 65535"),
        (HEAD + "leaderElect: maybe\n", "f.yaml:3: leaderElect: 'maybe' must be true or false"),
        (HEAD + "logLevel: loud\n", "f.yaml:3: logLevel: 'loud' must be one of debug, info, warning, error"),
        (HEAD + "name: x\n", "f.yaml:3: name: must be a list"),
        (HEAD + "name: []\n", "f.yaml:3: name: must have at least one entry"),
        (HEAD + "name:\n  - a\n  - ''\n", "f.yaml:5: name[1]: must not be empty"),
        (HEAD + "context:\n", "f.yaml:3: context: must be a string or a number"),
        (HEAD + "name: [\n", "f.yaml:4: not YAML: "),
        (HEAD + "topologyLevels: [a b]\n", "f.yaml:3: topologyLevels: a b: "),
    ],
)
def test_a_mistake_is_told_with_line_and_key(text: str, message: str) -> None:
    assert refusal(text).startswith(message)


def test_an_unknown_controller_is_told_with_the_nearest() -> None:
    text = HEAD.replace("Scheduler", "Controllers") + "only: [jobsett]\n"
    told = refusal(text, CONTROLLERS_PROGRAM)
    assert told == "f.yaml:3: only[0]: unknown name 'jobsett', did you mean 'jobset'?"


def test_what_an_installation_decides_is_not_in_its_file() -> None:
    told = refusal(HEAD + "logLevel: info\nname: [x]\n", installed=True)
    assert told == "f.yaml:4: name: not in the file of an installation: --scheduler-name decides it"
    assert read(HEAD + "logLevel: info\n", "f.yaml", SCHEDULER_PROGRAM, installed=True)


def test_levels_in_a_file_end_with_the_host_as_those_of_the_flag_do() -> None:
    said = read(HEAD + "topologyLevels: [example.com/rack]\n", "f.yaml", SCHEDULER_PROGRAM)
    assert said == {"topologyLevels": ("example.com/rack", "kubernetes.io/hostname")}


def test_flags_win_over_the_file_and_the_file_over_defaults() -> None:
    values = merged(SCHEDULER_PROGRAM, {"reserveAfter": 5.0, "metricsPort": 1}, {"metricsPort": 2})
    assert (values["reserveAfter"], values["metricsPort"], values["metricsHost"]) == (5.0, 2, "127.0.0.1")


def test_changes_are_told_apart_by_whether_they_need_a_restart() -> None:
    old = SCHEDULER_PROGRAM.defaults
    new = {**old, "logLevel": "debug", "metricsPort": 5, "reserveAfter": 1.0}
    assert changed(SCHEDULER_PROGRAM, old, new) == (["reserveAfter", "logLevel"], ["metricsPort"])


def row(option: Option) -> str:
    """The line of the reference for one option."""
    default = option.default_text or (
        ", ".join(option.default) if isinstance(option.default, tuple) else f"{option.default}"
    )
    shown = default if option.default_text else f"`{default.lower() if option.form == 'switch' else default}`"
    form = {
        "texts": "list", "names": "list", "switch": "`true` or `false`", "port": "0 to 65535",
        "choice": ", ".join(f"`{one}`" for one in option.choices),
    }.get(option.form, option.form)  # fmt: skip
    change = "applied at once" if option.live else "restart"
    by = option.set_by or "the file"
    return f"| `{option.key}` | `{option.flag}` | {form} | {shown} | {change} | {by} | {option.help} |"


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_reference_has_a_line_for_every_option_and_no_other(program: ProgramOptions) -> None:
    section = re.search(rf"^## {program.kind}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert section, f"{PAGE} has no section {program.kind}"
    found = [line for line in section[1].splitlines() if line.startswith("| `")]
    assert found == [row(option) for option in program.options]


def test_an_installation_carries_the_files_that_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + "reserveAfter: 5 # soon\n")
    outcome = CliRunner().invoke(main, ["install", "--render", "--config", str(path)])
    assert outcome.exit_code == 0, outcome.output
    made = [one for one in yaml.safe_load_all(outcome.output) if one["kind"] == "ConfigMap"]
    texts = {one["metadata"]["name"]: one["data"].get("config.yaml") for one in made}
    assert texts["echelon-scheduler"] == path.read_text()
    assert read(texts["echelon-controllers"], "default", CONTROLLERS_PROGRAM, installed=True) == {
        "logFormat": "json",
        "debugEndpoints": True,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Pod\napiVersion: v1\n", "s.yaml:1: kind: 'Pod' must be one of SchedulerConfiguration, Controllers"),
        (HEAD + "metricsPort: 1\n", "s.yaml:3: metricsPort: not in the file of an installation"),
        ("", "s.yaml: empty file"),
    ],
)
def test_a_bad_file_is_refused_before_anything_is_installed(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    outcome = CliRunner().invoke(main, ["install", "--render", "--config", str(path)])
    assert outcome.exit_code == 2
    assert words in outcome.output
    assert outcome.output.count("\n") == 1


def test_doctor_reads_the_levels_of_an_installed_file() -> None:
    text = HEAD + "topologyLevels: [example.com/rack]\n"
    made = objects(InstallOptions(configurations={"scheduler": text}))
    configs = [one for one in made if one["kind"] == "ConfigMap"]
    deployments = [one for one in made if one["kind"] == "Deployment"]
    assert configured_levels(deployments, configs) == ("example.com/rack", "kubernetes.io/hostname")
    assert configured_levels(deployments, []) is None
