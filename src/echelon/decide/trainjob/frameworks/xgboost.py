"""The xgboost plugin: where the tracker of rank 0 listens, and how many workers it waits for."""

from __future__ import annotations

from ....api.objects.subtree import mapping
from ..overrides import set_env
from .parts import PORT, RANK, Parts, gpus, node_container, open_port


def apply(parts: Parts) -> None:
    for trainer in parts.trainers:
        node = node_container(trainer)
        workers = parts.pods[trainer["name"]] * max(1, gpus(mapping(node, "resources")))
        set_env(
            node,
            [
                {"name": "DMLC_TRACKER_URI", "value": parts.first_node(trainer)},
                {"name": "DMLC_TRACKER_PORT", "value": str(PORT)},
                {"name": "DMLC_TASK_ID", "valueFrom": RANK},
                {"name": "DMLC_NUM_WORKER", "value": str(workers)},
            ],
        )
        open_port(node)
