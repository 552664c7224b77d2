"""torchtune: a trainer whose command is just `tune run` gets its recipe from the model, the nodes and its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .model import CannotBuild, TrainJob

COMMAND = ["tune", "run"]
_MODELS = ("llama3_2/1B", "llama3_2/3B", "llama3_3/70B", "qwen2_5/1.5B")
_MULTI_NODE_MODELS = ("llama3_3/70B",)
#: What of the runtime's own command stays: where things lie in its image and volumes.
_KEPT = ("output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir")


@dataclass(frozen=True)
class Shape:
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
    return list(tj.trainer.get("command") or ()) == COMMAND


def command(tj: TrainJob, shape: Shape, endpoint: str, runtime_command: Sequence[str]) -> list[str]:
    """The whole command of the node container."""
    model = _model(tj.runtime_name)
    recipe, suffix = _recipe(tj, shape, model)
    rendezvous = [f"--rdzv_endpoint={endpoint}"] if shape.needs_rendezvous else []
    kept = [word for word in runtime_command if word.split("=", 1)[0] in _KEPT]
    return [*COMMAND, *rendezvous, recipe, "--config", f"{model}{suffix}", *kept]


def _model(runtime_name: str) -> str:
    """`torchtune-llama3.2-1b` is about llama3_2/1B; its gang twin too."""
    parts = runtime_name.removesuffix("-gang").split("-")
    model = f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""
    if model not in _MODELS:
        known = ", ".join(_MODELS)
        raise CannotBuild(f"`tune run` on runtime {runtime_name}: no supported model in its name; there are {known}")
    return model


def _recipe(tj: TrainJob, shape: Shape, model: str) -> tuple[str, str]:
    arguments = list(tj.trainer.get("args") or ())
    lora, quantized = _lora(arguments)
    if shape.nodes > 1:
        if model not in _MULTI_NODE_MODELS or lora:
            raise CannotBuild(
                f"`tune run` of {model}{' with LoRA' if lora else ''} runs on one node, not {shape.nodes}"
            )
        return "full_finetune_distributed", "_full_multinode"
    kind = "lora_finetune" if lora else "full_finetune"
    suffix = "_qlora" if quantized else "_lora" if lora else "_full"
    if shape.one_device:
        return f"{kind}_single_device", f"{suffix}_single_device"
    return f"{kind}_distributed", suffix


def _lora(arguments: Sequence[str]) -> tuple[bool, bool]:
    """Whether the arguments ask for LoRA, and for the quantized kind of it."""
    values = dict(word.split("=", 1) for word in arguments if "=" in word)
    lora = any("model.lora_attn_modules" in word for word in arguments)
    on = {name: values.get(name, "").lower() == "true" for name in ("model.quantize_base", "model.use_dora")}
    quantized = on["model.quantize_base"] and not on["model.use_dora"]
    return lora or quantized, quantized
