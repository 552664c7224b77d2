"""`echelon install` and `echelon upgrade`: put Echelon on a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..failures import EXIT_FAILED, EXIT_INTERRUPTED, Refusal
from .choices import chosen_controllers, chosen_options, install_options
from .pod_choices import pod_options

if TYPE_CHECKING:
    from ...deploy.options import InstallOptions, PodOptions
    from ...runtime.install.steps import Kubeconfig, Wishes


@click.command(short_help="Install scheduler and controllers on a cluster.")
@install_options
@pod_options
@click.option("--render", is_flag=True, help="Print the objects instead; no cluster is asked.")
def install(
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    image: str | None,
    replicas: int,
    only: str | None,
    controllers: str | None,
    names: tuple[str, ...],
    configs: tuple[Path, ...],
    monitoring: str,
    dashboard: bool,
    policies: bool,
    pods: PodOptions,
    force_conflicts: bool,
    timeout: float,
    wait: bool,
    render: bool,
) -> None:
    """Install kinds, roles, scheduler, controllers and metrics on a cluster, and wait until they are ready.

    Running it again changes nothing. Before anything is written the server is asked whether it would take all of it.

    \b
    Example:
      echelon install --image registry.example/echelon:0.1.0
      echelon install --render | less
    """
    options = replace(
        chosen_options(namespace, image, replicas, only, names, configs),
        dashboard=dashboard,
        pods=pods,
        validating_policies=policies,
        mutating_policies=policies,
    )
    chosen = chosen_controllers(controllers)
    asked = {"auto": None, "on": True, "off": False}[monitoring]
    if render:
        fixed = replace(options, controllers=chosen or options.controllers, monitoring=bool(asked))
        _print(fixed)
        return
    from ...runtime.install.steps import Kubeconfig, Wishes

    wishes = Wishes(options, chosen, asked, force_conflicts, timeout if wait else None, image is not None)
    _run(Kubeconfig(kubeconfig, context), wishes, upgrade=False)


@click.command(short_help="Bring an installation to the version of this command.")
@install_options
@pod_options
def upgrade(
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    image: str | None,
    replicas: int,
    only: str | None,
    controllers: str | None,
    names: tuple[str, ...],
    configs: tuple[Path, ...],
    monitoring: str,
    dashboard: bool,
    policies: bool,
    pods: PodOptions,
    force_conflicts: bool,
    timeout: float,
    wait: bool,
) -> None:
    """Bring an installation to the version of this command; give the options with which it was installed.

    Never goes back: an installation that is newer than this command is refused.
    """
    from ...runtime.install.steps import Kubeconfig, Wishes

    asked = {"auto": None, "on": True, "off": False}[monitoring]
    options = replace(
        chosen_options(namespace, image, replicas, only, names, configs),
        dashboard=dashboard,
        pods=pods,
        validating_policies=policies,
        mutating_policies=policies,
    )
    chosen = chosen_controllers(controllers)
    wishes = Wishes(options, chosen, asked, force_conflicts, timeout if wait else None, image is not None)
    _run(Kubeconfig(kubeconfig, context), wishes, upgrade=True)


def _run(target: Kubeconfig, wishes: Wishes, *, upgrade: bool) -> None:
    from ...runtime.install import steps
    from ...runtime.install.applying import CannotInstall, NotReady
    from ...runtime.plane import CannotStart, run_program

    try:
        run_program(steps.install(target, wishes, click.echo, upgrade=upgrade))
    except (CannotInstall, CannotStart) as error:
        raise Refusal(str(error)) from error
    except KeyboardInterrupt:
        done = "what is listed as created stays: run it again to go on, or `echelon uninstall` to take it back"
        click.echo(f"echelon: interrupted; {done}", err=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    except NotReady as error:
        click.echo(f"echelon: {error}", err=True)
        raise click.exceptions.Exit(EXIT_FAILED) from error


def _print(options: InstallOptions) -> None:
    import yaml

    from ...deploy.admission.admission_policies import policy_objects
    from ...deploy.cluster_facts import OLDEST_WITH_POLICIES
    from ...deploy.objects.installation import objects

    if policy_objects(options):
        oldest = ".".join(map(str, OLDEST_WITH_POLICIES))
        click.echo(
            f"# For Kubernetes {oldest} or newer: policies can end an older server; --no-policies leaves them out."
        )
    for obj in objects(options):
        click.echo("---")
        click.echo(yaml.dump(obj, Dumper=yaml.CSafeDumper, sort_keys=False, width=1000), nl=False)
