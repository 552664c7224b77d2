"""Facts about torchtune, shared by admission and the TrainJob controller.

A trainer whose command is just `tune run` gets its recipe from the runtime's model and its own arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

COMMAND = ("tune", "run")
MODELS = ("llama3_2/1B", "llama3_2/3B", "llama3_3/70B", "qwen2_5/1.5B")
MULTI_NODE_MODELS = ("llama3_3/70B",)
#: Arguments that only the runtime sets: paths in its image and volumes.
RUNTIME_OWNED = ("output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir")


def model_of(runtime_name: str) -> str:
    """`torchtune-llama3.2-1b` and `torchtune-llama3.2-1b-gang` are llama3_2/1B; "" for no supported model."""
    parts = runtime_name.removesuffix("-gang").split("-")
    model = f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""
    return model if model in MODELS else ""


def key_of(word: str) -> str:
    """What an argument `key=value` sets."""
    return word.split("=", 1)[0]


def lora(arguments: Sequence[str]) -> tuple[bool, bool]:
    """Whether the arguments ask for LoRA, and for the quantized kind of it."""
    values = dict(word.split("=", 1) for word in arguments if "=" in word)
    on = {name: values.get(name, "").lower() == "true" for name in ("model.quantize_base", "model.use_dora")}
    quantized = on["model.quantize_base"] and not on["model.use_dora"]
    return quantized or any("model.lora_attn_modules" in word for word in arguments), quantized
