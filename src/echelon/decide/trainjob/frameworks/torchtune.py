"""torchtune: a trainer whose command is just `tune run` gets its recipe from the model, the nodes and its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....api.objects.torchtune_models import COMMAND, MODELS, MULTI_NODE_MODELS, RUNTIME_OWNED, key_of, lora, model_of
from ..model import CannotBuild, TrainJob


@dataclass(frozen=True)
class ProcessLayout:
    nodes: int
    #: As PET_NPROC_PER_NODE says: a number, or `auto` for one per GPU.
    processes: str
    gpus: int

    @property
    def one_device(self) -> bool:
        return self.nodes == 1 and (self.processes == "1" or self.gpus == 1)

    @property
    def needs_rendezvous(self) -> bool:
        many = self.gpus > 1 if self.processes == "auto" else self.processes != "1"
        return self.nodes > 1 or many


def wanted(tj: TrainJob) -> bool:
    return tj.trainer.command == COMMAND


def command(tj: TrainJob, shape: ProcessLayout, endpoint: str, runtime_command: Sequence[str]) -> list[str]:
    """The whole command of the node container."""
    model = _model(tj.runtime_name)
    recipe, suffix = _recipe(tj, shape, model)
    rendezvous = [f"--rdzv_endpoint={endpoint}"] if shape.needs_rendezvous else []
    kept = [word for word in runtime_command if key_of(word) in RUNTIME_OWNED]
    return [*COMMAND, *rendezvous, recipe, "--config", f"{model}{suffix}", *kept]


def _model(runtime_name: str) -> str:
    model = model_of(runtime_name)
    if not model:
        known = ", ".join(MODELS)
        raise CannotBuild(f"`tune run` on runtime {runtime_name}: no supported model in its name; there are {known}")
    return model


def _recipe(tj: TrainJob, shape: ProcessLayout, model: str) -> tuple[str, str]:
    arguments = list(tj.trainer.args)
    adapts, quantized = lora(arguments)
    if shape.nodes > 1:
        if model not in MULTI_NODE_MODELS or adapts:
            raise CannotBuild(
                f"`tune run` of {model}{' with LoRA' if adapts else ''} runs on one node, not {shape.nodes}"
            )
        return "full_finetune_distributed", "_full_multinode"
    kind = "lora_finetune" if adapts else "full_finetune"
    suffix = "_qlora" if quantized else "_lora" if adapts else "_full"
    if shape.one_device:
        return f"{kind}_single_device", f"{suffix}_single_device"
    return f"{kind}_distributed", suffix
