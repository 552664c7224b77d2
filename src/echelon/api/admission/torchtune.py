"""Checks of TrainJobs whose command is `tune run`: model, number of nodes, LoRA and QLoRA."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...base.quantity import parse
from ..errors import FieldError, forbidden_field, invalid
from ..objects.torchtune_models import COMMAND, MODELS, MULTI_NODE_MODELS, RUNTIME_OWNED, key_of, lora, model_of

_NO_QUANTIZED = "qwen2_5/"
_ONE_DEVICE_QUANTIZED = "llama3_2/"

Part = Mapping[str, Any]


def check(spec: Part, policy: Part) -> Iterator[FieldError]:
    trainer: Part = spec.get("trainer") or {}
    if tuple(trainer.get("command") or ()) != COMMAND:
        return
    name = spec["runtimeRef"]["name"]
    model = model_of(name)
    if not model:
        yield invalid("spec.runtimeRef.name", name, f"must contain a supported model: {', '.join(MODELS)}")
        return
    arguments = trainer.get("args") or ()
    for index, word in enumerate(arguments):
        if key_of(word) in RUNTIME_OWNED:
            yield forbidden_field(f"spec.trainer.args[{index}]", f"{key_of(word)} is set by the runtime")
    yield from _shape(trainer, policy, model, *lora(arguments))


def _shape(trainer: Part, policy: Part, model: str, adapts: bool, quantized: bool) -> Iterator[FieldError]:
    nodes = trainer.get("numNodes", policy.get("numNodes", 1))
    if nodes > 1 and model not in MULTI_NODE_MODELS:
        yield invalid("spec.trainer.numNodes", nodes, f"must be 1: {model} supports one node only")
    elif nodes > 1 and adapts:
        yield invalid("spec.trainer.numNodes", nodes, "must be 1: LoRA supports one node only")
    if quantized and model.startswith(_NO_QUANTIZED):
        yield invalid("spec.trainer.args", "model.quantize_base=True", f"{model} does not support QLoRA")
    if quantized and model.startswith(_ONE_DEVICE_QUANTIZED):
        processes, gpus = trainer.get("numProcPerNode", 1), _gpus(trainer)
        if processes > 1:
            yield invalid(
                "spec.trainer.numProcPerNode", processes, "must be 1: QLoRA of this model supports one device only"
            )
        if gpus > 1:
            yield invalid(
                "spec.trainer.resourcesPerNode", gpus, "must be 1: QLoRA of this model supports one device only"
            )


def _gpus(trainer: Part) -> int:
    wanted: Part = trainer.get("resourcesPerNode") or {}
    for part in ("requests", "limits"):
        for name, amount in (wanted.get(part) or {}).items():
            if "gpu" in name.lower():
                return parse(amount, name)
    return 0
