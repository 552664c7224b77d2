"""The policy of a runtime: at most one framework, or none of them."""

from __future__ import annotations

from ..model import CannotBuild
from . import torch, torchtune
from .parts import Parts

_NOT_YET = ("mpi", "jax", "xgboost", "flux")


def apply(parts: Parts) -> None:
    for kind in _NOT_YET:
        if kind in parts.policy:
            raise CannotBuild(f"mlPolicy.{kind} of runtime {parts.tj.runtime_name} is not supported yet; torch is")
    if "torch" in parts.policy:
        torch.apply(parts)


def makes_command(parts: Parts) -> bool:
    """Whether the policy has made the trainer's command itself."""
    return "torch" in parts.policy and torchtune.wanted(parts.tj)
