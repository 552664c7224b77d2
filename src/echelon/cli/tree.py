"""`echelon tree KIND/NAME`: shows an object with its children: phases, groups, domains, nodes."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from .shared_options import context_option, kubeconfig_option

_KINDS = ("trainjob", "jobset", "job", "workload", "compositepodgroup", "podgroup", "pod")


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A kind, then names of objects of this kind; `KIND/` is completed to names too."""
    given: tuple[str, ...] = context.params.get("targets") or ()
    kind, slash, begin = incomplete.rpartition("/")
    if not slash and not given:
        return [CompletionItem(kind) for kind in _KINDS if kind.startswith(incomplete)]
    from .showing.show import names

    options = (context.params.get("namespace"), context.params.get("kubeconfig"), context.params.get("context"))
    found = names(kind or given[0], *options)
    return [CompletionItem(f"{kind}{slash}{name}") for name in found if name.startswith(begin)]


@click.command(short_help="Show objects with their children, down to pods and nodes.")
@click.argument("targets", metavar="KIND/NAME...", nargs=-1, required=True, shell_complete=_complete)
@click.option("-n", "--namespace", help="Namespace of the objects.  [default: that of the context]")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True, help="Format."
)
@kubeconfig_option
@context_option
def tree(
    targets: tuple[str, ...], namespace: str | None, output: str, kubeconfig: Path | None, context: str | None
) -> None:
    """Show KIND/NAME with its children: groups, domains, why pods wait, what was evicted and by what.

    KIND is trainjob, jobset, job, workload, compositepodgroup, podgroup or pod. Names as kubectl prints and takes them
    are understood. Without --kubeconfig and $KUBECONFIG, it reads from the control plane that echelon up runs, if any.

    \b
    Examples:
      echelon tree jobset/training -n default
      echelon tree jobset training -o yaml
      echelon tree $(kubectl get jobsets -o name)
    """
    import asyncio

    from .showing.show import show
    from .showing.targets import parse

    asyncio.run(show(parse(targets), namespace, output, kubeconfig, context))
