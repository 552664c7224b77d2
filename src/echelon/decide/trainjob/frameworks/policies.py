"""The policy of a runtime: at most one framework, or none of them."""

from __future__ import annotations

from collections.abc import Callable

from . import flux, jax, mpi, torch, torchtune, xgboost
from .parts import Parts

_FRAMEWORKS: dict[str, Callable[[Parts], None]] = {
    "torch": torch.apply,
    "mpi": mpi.apply,
    "jax": jax.apply,
    "xgboost": xgboost.apply,
    "flux": flux.apply,
}


def apply(parts: Parts) -> None:
    for name, set_up in _FRAMEWORKS.items():
        if name in parts.policy:
            set_up(parts)


def makes(parts: Parts) -> tuple[str, ...]:
    """Which of the trainer's fields the policy has made of what the TrainJob says."""
    if "flux" in parts.policy:
        return ("command", "args")
    return ("command",) if "torch" in parts.policy and torchtune.wanted(parts.tj) else ()
