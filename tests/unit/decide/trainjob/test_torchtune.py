"""`tune run`: recipe and configuration from model, nodes and arguments."""

from __future__ import annotations

import pytest

from echelon.api.scheme import JOB_SETS, Object
from tests.unit.decide.trainjob.stage import LLM, RUNTIMES, Stage, runtime, trainjob

LORA = ["model.lora_attn_modules=[q_proj]"]
QLORA = [*LORA, "model.quantize_base=True"]
KEPT = [
    "output_dir=/workspace/output",
    "tokenizer.path=/workspace/model/original/tokenizer.model",
    "checkpointer.checkpoint_dir=/workspace/model",
]


def tuned(args: list[str], gpus: int, name: str = LLM, **trainer: object) -> Stage:
    resources = {"limits": {"nvidia.com/gpu": gpus}}
    asked: Object = {"command": ["tune", "run"], "args": args, "resourcesPerNode": resources, **trainer}
    return Stage(trainjob(name, trainer=asked), {**runtime(LLM), "metadata": {"name": name}})


@pytest.mark.conformance("TJ-45")
@pytest.mark.parametrize(
    ("args", "gpus", "recipe", "config"),
    [
        (QLORA, 1, "lora_finetune_single_device", "llama3_2/1B_qlora_single_device"),
        (LORA, 1, "lora_finetune_single_device", "llama3_2/1B_lora_single_device"),
        ([], 1, "full_finetune_single_device", "llama3_2/1B_full_single_device"),
        (LORA, 2, "lora_finetune_distributed", "llama3_2/1B_lora"),
        ([*QLORA, "model.use_dora=true"], 2, "lora_finetune_distributed", "llama3_2/1B_lora"),
        ([], 2, "full_finetune_distributed", "llama3_2/1B_full"),
    ],
)
def test_recipes_on_one_node(args: list[str], gpus: int, recipe: str, config: str) -> None:
    stage = tuned(args, gpus)
    rendezvous = ["--rdzv_endpoint=train-node-0-0.train:29500"] if gpus > 1 else []
    assert stage.container("node")["command"] == ["tune", "run", *rendezvous, recipe, "--config", config, *KEPT]
    assert stage.container("node").get("args", []) == args
    assert {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"} == set(stage.env("node"))


@pytest.mark.conformance("TJ-45")
def test_the_largest_model_runs_on_several_nodes() -> None:
    command = tuned([], 8, "torchtune-llama3.3-70b", numNodes=2).container("node")["command"]
    assert "--rdzv_endpoint=train-node-0-0.train:29500" in command
    assert command[3:6] == ["full_finetune_distributed", "--config", "llama3_3/70B_full_multinode"]


@pytest.mark.conformance("TJ-45")
@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("torchtune-gpt-9t", [], "no supported model"),
        (LLM, [], "llama3_2/1B runs on one node, not 2"),
        ("torchtune-llama3.3-70b", LORA, "llama3_3/70B with LoRA runs on one node, not 2"),
    ],
)
def test_what_torchtune_cannot_do_is_reported(name: str, args: list[str], said: str) -> None:
    stage = tuned(args, 8, name, numNodes=2)
    assert stage.names(JOB_SETS) == []
    assert said in stage.events[0][2]


def test_the_gang_twin_is_about_the_same_model() -> None:
    command = tuned([], 1, f"{LLM}-gang").container("node")["command"]
    assert "llama3_2/1B_full_single_device" in command


def test_any_other_command_is_taken_as_it_is() -> None:
    stage = Stage(trainjob(LLM, trainer={"command": ["python", "x.py"]}), RUNTIMES[LLM])
    assert stage.container("node")["command"] == ["python", "x.py"]
    assert "PET_MASTER_ADDR" in stage.env("node")
