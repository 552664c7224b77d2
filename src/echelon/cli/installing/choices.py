"""Options of `echelon install` and `echelon upgrade`, and the record that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..failures import Refusal
from ..shared_options import SCHEDULER_NAME, context_option, kubeconfig_option

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
            "[default: jobset,trainjob,stage-quota, without those whose kinds somebody else has installed]",
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
        click.option("--image", help="Image of the pods.  [default: echelon: and the version of this command]"),
        namespace_option,
        context_option,
        kubeconfig_option,
    ):
        command = option(command)
    return command


def chosen_options(
    namespace: str, image: str | None, replicas: int, only: str | None, names: tuple[str, ...]
) -> InstallOptions:
    from dataclasses import replace

    from ...api.objects.name_formats import dns1123_label
    from ...deploy.options import PARTS, InstallOptions

    if problems := dns1123_label(namespace):
        raise Refusal(f"--namespace {namespace}: {problems[0]}")
    if not all(names):
        raise Refusal("--scheduler-name: must not be empty")
    made = InstallOptions(
        namespace=namespace, replicas=replicas, parts=(only,) if only else PARTS, scheduler_names=names
    )
    return made if image is None else replace(made, image=image)


def chosen_controllers(text: str | None) -> tuple[str, ...] | None:
    from ...deploy.options import OWN_CONTROLLERS

    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in OWN_CONTROLLERS]
    if unknown or not names:
        wrong = f"unknown controller {', '.join(unknown)}" if unknown else "no controller given"
        raise Refusal(f"--controllers {text}: {wrong}; known are {', '.join(OWN_CONTROLLERS)}")
    return names
