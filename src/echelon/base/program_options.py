"""The options of `echelon scheduler` and `echelon controllers`.

A row is a flag, a key of the config file, and a line of docs/reference/configuration.md:

    rows here ─► cli.programs       flags
            └──► deploy.configuration      keys of a file, read and checked
                        └──► Values        what a program runs with: flags, else the file, else defaults

To add an option, add a row and read `values["key"]` where it is needed.  A row that is `live` is applied while the
program runs when the file changes: register for it with `LiveConfiguration.on_change`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

API_VERSION = "config.echelon.dev/v1alpha1"
#: `texts` is a flag that may be given several times, `names` one with names separated by commas; both are lists in a
#: file.
Form = Literal["text", "texts", "names", "seconds", "port", "switch", "choice", "path"]
Values = Mapping[str, Any]


class Option(NamedTuple):
    #: In a file; the flag is the same in kebab case.
    key: str
    form: Form
    default: Any
    help: str
    #: Whether a change of the file is applied while the program runs.
    live: bool = False
    #: What values are known, for choices and names.
    choices: tuple[str, ...] = ()
    #: In place of the default, where that is found out later.
    default_text: str = ""
    #: Who sets it in an installation: then the file must not.
    set_by: str = ""

    @property
    def flag(self) -> str:
        return "--" + "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in self.key)


class ProgramOptions(NamedTuple):
    """A program that has a config file."""

    name: str
    #: The kind of its file.
    kind: str
    options: tuple[Option, ...]

    @property
    def by_key(self) -> dict[str, Option]:
        return {option.key: option for option in self.options}

    @property
    def defaults(self) -> dict[str, Any]:
        return {option.key: option.default for option in self.options}


#: `OWN_SCHEDULER` of the vocabulary and `OWN_CONTROLLERS` of an installation; tests hold them equal.
SCHEDULER_NAME = "echelon"
CONTROLLER_NAMES = ("jobset", "trainjob", "stage-quota", "job-groups")
#: Forms of groups of pods; `CHOICES` of `api.group_kinds`, and whatever fits the server.
AUTO = "auto"
GROUP_FORMS = (AUTO, "native", "own", "own,native", "native,own")
LOG_LEVELS = ("debug", "info", "warning", "error")

_WHERE = (
    Option(
        "kubeconfig", "path", None, "Kubeconfig of the cluster.",
        default_text="$KUBECONFIG, the service account of a pod, ~/.kube/config", set_by="the pod's service account",
    ),
    Option(
        "context", "text", None, "Context of the kubeconfig.",
        default_text="the current one", set_by="the pod's service account",
    ),
    Option(
        "leaderElect", "switch", True,
        "Elect a leader through a Lease in kube-system, so that several instances can run.", set_by="--replicas",
    ),
    Option(
        "lease", "text", None, "Name of that Lease: of all programs that share it one leads.",
        default_text="named after what the program does", set_by="the name of the Deployment",
    ),
    Option(
        "groups", "choice", AUTO,
        "Groups of pods to read: native ones of scheduling.k8s.io, own ones of scheduling.echelon.dev; new ones are "
        "made of the first. auto: as fits the server.",
        choices=GROUP_FORMS, set_by="what the server has",
    ),
)  # fmt: skip
_WATCHED = (
    Option(
        "metricsPort", "port", None,
        "Port of /metrics, /healthz and /readyz over plain HTTP; 0 selects a free port.",
        default_text="not served", set_by="the Service of the metrics",
    ),
    Option(
        "metricsHost", "text", "127.0.0.1", "Address of the metrics port.", set_by="the address of the pod",
    ),
    Option(
        "debugEndpoints", "switch", False,
        "Serve /debug/state, /debug/profile and /debug/stacks on the metrics port, to this machine only.", live=True,
    ),
    Option(
        "logLevel", "choice", "info", "Least level of lines on standard error.", live=True, choices=LOG_LEVELS,
    ),
    Option(
        "logFormat", "choice", "text", "One line per message: text for people, json for machines.", live=True,
        choices=("text", "json"),
    ),
)  # fmt: skip

SCHEDULER_PROGRAM = ProgramOptions(
    "scheduler",
    "SchedulerConfiguration",
    (
        *_WHERE,
        Option(
            "name", "texts", (SCHEDULER_NAME,),
            "spec.schedulerName of the pods to schedule; may be given several times.", set_by="--scheduler-name",
        ),
        Option(
            "reserveAfter", "seconds", 60.0,
            "Seconds after which capacity is reserved for a group that waits while others are placed.", live=True,
        ),
        Option(
            "topologyLevels", "names", None, "Node labels that form topology domains, from wide to narrow.",
            default_text="those of a Kueue or KAI Topology, else known labels that nodes carry",
        ),
        *_WATCHED,
    ),
)  # fmt: skip
CONTROLLERS_PROGRAM = ProgramOptions(
    "controllers",
    "ControllersConfiguration",
    (
        *_WHERE,
        Option(
            "only", "names", CONTROLLER_NAMES,
            "Controllers to run, separated by commas. Leave out those that already run on the cluster.",
            choices=CONTROLLER_NAMES, set_by="--controllers",
        ),
        Option(
            "schedulerName", "texts", (SCHEDULER_NAME,),
            "spec.schedulerName that echelon scheduler serves; may be given several times. Pods of exclusive JobSets "
            "that name another get affinity terms instead of groups.", set_by="--scheduler-name",
        ),
        *_WATCHED,
    ),
)  # fmt: skip
PROGRAMS = {program.name: program for program in (SCHEDULER_PROGRAM, CONTROLLERS_PROGRAM)}
