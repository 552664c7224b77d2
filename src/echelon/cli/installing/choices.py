"""Options of `echelon install` and `echelon upgrade`, and the record that they make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...base.program_options import SCHEDULER_NAME
from ..failures import Refusal
from ..shared_options import context_option, kubeconfig_option

if TYPE_CHECKING:
    from ...deploy.options import InstallOptions

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_NAMESPACE = "echelon-system"


def namespace_option(command: F) -> F:
    return click.option(
        "-n", "--namespace", default=DEFAULT_NAMESPACE, show_default=True, help="Namespace of the installation."
    )(command)


def install_options(command: F) -> F:
    for option in (
        click.option(
            "--wait/--no-wait", default=True, show_default=True, help="Wait until all replicas are available."
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0),
            default=300.0,
            show_default=True,
            help="Seconds to wait for the replicas.",
        ),
        click.option(
            "--force-conflicts", is_flag=True, help="Take over fields that somebody else has set on these objects."
        ),
        click.option(
            "--monitoring",
            type=click.Choice(["auto", "on", "off"]),
            default="auto",
            show_default=True,
            help="Make objects of the Prometheus operator; auto: if the cluster serves them, and not with --render.",
        ),
        click.option(
            "--dashboard/--no-dashboard",
            default=True,
            show_default=True,
            help="Make a ConfigMap with a dashboard for Grafana.",
        ),
        click.option(
            "--policies/--no-policies",
            default=True,
            show_default=True,
            help="Make admission policies, on a server of 1.36 or newer; with --render no server is asked, and older "
            "ones can end of them.",
        ),
        click.option(
            "--scheduler-name",
            "names",
            multiple=True,
            default=(SCHEDULER_NAME,),
            show_default=True,
            help="spec.schedulerName of the pods to schedule; may be given several times.",
        ),
        click.option(
            "--controllers",
            metavar="NAMES",
            help="Controllers to run, separated by commas.  "
            "[default: jobset,trainjob,stage-quota,job-groups, without those whose kinds somebody else has installed]",
        ),
        click.option(
            "--only",
            type=click.Choice(["scheduler", "controllers"]),
            help="Install this part alone.  [default: both]",
        ),
        click.option(
            "--replicas",
            type=click.IntRange(min=1),
            default=2,
            show_default=True,
            help="Pods of each part; one leads, the others take over.",
        ),
        click.option(
            "--config",
            "configs",
            multiple=True,
            type=click.Path(path_type=Path, dir_okay=False),
            help="Config file of a program; its kind says of which. May be given once for each.",
        ),
        click.option(
            "--image",
            help="Image of the pods.  [default: that of the installation, else echelon: and this version]",
        ),
        namespace_option,
        context_option,
        kubeconfig_option,
    ):
        command = option(command)
    return command


def chosen_options(
    namespace: str,
    image: str | None,
    replicas: int,
    only: str | None,
    names: tuple[str, ...],
    configs: tuple[Path, ...] = (),
) -> InstallOptions:
    from dataclasses import replace

    from ...api.objects.name_formats import dns1123_label
    from ...deploy.options import PARTS, InstallOptions

    if problems := dns1123_label(namespace):
        raise Refusal(f"--namespace {namespace}: {problems[0]}")
    if not all(names):
        raise Refusal("--scheduler-name: must not be empty")
    made = InstallOptions(
        namespace=namespace,
        replicas=replicas,
        parts=(only,) if only else PARTS,
        scheduler_names=names,
        configurations=_configurations(configs),
    )
    return made if image is None else replace(made, image=image)


def _configurations(paths: tuple[Path, ...]) -> dict[str, str]:
    """The text of each program's config file, checked."""
    from ...base.program_options import PROGRAMS
    from ...deploy.configuration import BadConfiguration, kind_of, read

    found: dict[str, str] = {}
    for path in paths:
        try:
            text = path.read_text()
            name = kind_of(text, str(path))
            read(text, str(path), PROGRAMS[name], installed=True)
        except BadConfiguration as error:
            raise Refusal(f"--config {error}") from error
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text file"
            raise Refusal(f"--config {path}: {reason}") from error
        if name in found:
            raise Refusal(f"--config {path}: there is a config file of the {name} already")
        found[name] = text
    return found


def chosen_controllers(text: str | None) -> tuple[str, ...] | None:
    from ...deploy.options import OWN_CONTROLLERS

    if text is None:
        return None
    asked = {name.strip() for name in text.split(",") if name.strip()}
    unknown = sorted(asked - set(OWN_CONTROLLERS))
    names = tuple(name for name in OWN_CONTROLLERS if name in asked)
    if unknown or not names:
        wrong = f"unknown controller {', '.join(unknown)}" if unknown else "no controller given"
        raise Refusal(f"--controllers {text}: {wrong}; known are {', '.join(OWN_CONTROLLERS)}")
    return names
