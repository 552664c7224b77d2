"""The jax plugin: what `jax.distributed.initialize()` reads when it is called without arguments."""

from __future__ import annotations

from ..overrides import set_env
from .parts import PORT, RANK, Parts, node_container, open_port


def apply(parts: Parts) -> None:
    for trainer in parts.trainers:
        node = node_container(trainer)
        set_env(
            node,
            [
                {"name": "JAX_NUM_PROCESSES", "value": str(parts.pods[trainer["name"]])},
                {"name": "JAX_PROCESS_ID", "valueFrom": RANK},
                {"name": "JAX_COORDINATOR_ADDRESS", "value": f"{parts.first_node(trainer)}:{PORT}"},
            ],
        )
        open_port(node)
