"""Options of `echelon install` and `upgrade` about the pods: where they run, what they ask for."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..failures import Refusal

if TYPE_CHECKING:
    from ...api.scheme import Object
    from ...deploy.options import PodOptions

F = TypeVar("F", bound=Callable[..., Any])
_TOLERATION = re.compile(r"(?P<key>[^=:]+)(?P<equal>=(?P<value>[^:]*))?(:(?P<effect>\w+))?")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def pod_options(command: F) -> F:
    """Gives the command one argument `pods` for all of them."""

    @functools.wraps(command)
    def with_pods(
        *arguments: Any,
        pull_secrets: tuple[str, ...],
        priority_class: str | None,
        node_selector: tuple[str, ...],
        tolerations: tuple[str, ...],
        requests: tuple[str, ...],
        **others: Any,
    ) -> Any:
        pods = chosen_pods(pull_secrets, priority_class, node_selector, tolerations, requests)
        return command(*arguments, pods=pods, **others)

    for option in (
        click.option(
            "--requests",
            multiple=True,
            metavar="PART:CPU,MEMORY",
            help="What the pods of a part request, as scheduler:cpu=2,memory=4Gi; may be given for each.",
        ),
        click.option(
            "--toleration",
            "tolerations",
            multiple=True,
            metavar="KEY[=VALUE][:EFFECT]",
            help="A taint that the pods tolerate; may be given several times.",
        ),
        click.option(
            "--node-selector",
            multiple=True,
            metavar="KEY=VALUE",
            help="A label of the nodes on which the pods run, besides kubernetes.io/os=linux; "
            "may be given several times.",
        ),
        click.option(
            "--priority-class",
            help="Priority class of the pods; empty: that of the cluster.  [default: system-cluster-critical]",
        ),
        click.option(
            "--image-pull-secret",
            "pull_secrets",
            multiple=True,
            help="Secret with which the image is pulled; may be given several times.",
        ),
    ):
        with_pods = option(with_pods)
    return with_pods  # type: ignore[return-value]


def chosen_pods(
    pull_secrets: tuple[str, ...],
    priority_class: str | None,
    node_selector: tuple[str, ...],
    tolerations: tuple[str, ...],
    requests: tuple[str, ...],
) -> PodOptions:
    from ...deploy.options import PodOptions

    defaults = PodOptions()
    return PodOptions(
        image_pull_secrets=pull_secrets,
        priority_class=defaults.priority_class if priority_class is None else priority_class,
        node_selector={**defaults.node_selector, **_pairs("--node-selector", node_selector)},
        tolerations=tuple(_toleration(text) for text in tolerations),
        resources=_resources(defaults.resources, requests),
    )


def _pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equal, value = text.partition("=")
        if not key or not equal:
            raise Refusal(f"{option} {text}: must be KEY=VALUE")
        found[key] = value
    return found


def _toleration(text: str) -> Object:
    found = _TOLERATION.fullmatch(text)
    if found is None or (found["effect"] and found["effect"] not in _EFFECTS):
        raise Refusal(f"--toleration {text}: must be KEY[=VALUE][:EFFECT], the effect one of {', '.join(_EFFECTS)}")
    value = {"operator": "Equal", "value": found["value"]} if found["equal"] else {"operator": "Exists"}
    effect = {"effect": found["effect"]} if found["effect"] else {}
    return {"key": found["key"], **value, **effect}


def _resources(defaults: Any, texts: Iterable[str]) -> dict[str, Object]:
    from ...base.quantity import exact

    found = dict(defaults)
    for text in texts:
        part, _, amounts = text.partition(":")
        if part not in found or not amounts:
            raise Refusal(f"--requests {text}: must be PART:NAME=AMOUNT,…, the part one of {', '.join(found)}")
        asked = _pairs(f"--requests {text}:", amounts.split(","))
        for name, amount in asked.items():
            try:
                exact(amount)
            except ValueError as error:
                raise Refusal(f"--requests {text}: {name}: {error}") from error
        found[part] = {**found[part], "requests": {**found[part]["requests"], **asked}}
    return found
