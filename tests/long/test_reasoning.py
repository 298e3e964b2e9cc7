"""Thinking, a JSON schema and LoRA adapters on real vLLM, with a tiny model that thinks.

Its weights are noise, and its tokenizer and chat template are those of a model that thinks. A bias
on the token that ends the reasoning makes it end some time.
"""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from benchrun_client.contract import (
    Adapter,
    RequestFields,
    SamplingParams,
    Stage,
    StageRecord,
    UsersLoad,
)
from benchrun_client.contract.datasets import RandomData
from client.processes import VLLM_PYTHON, client
from client.real_servers import VllmServer, vllm_server
from unit.client.plans import plan, stage

pytestmark = pytest.mark.timeout(1800)

ROOT = Path(__file__).parents[2]
REQUESTS = 16
MAKE_MODEL = """
import json, sys, torch
from pathlib import Path
from safetensors.torch import save_file
from devcluster.tiny_model import CHAT_TEMPLATE, tokenizer, weights

folder = Path(sys.argv[1])
made = tokenizer()
made.add_tokens(["<think>", "</think>"])
# As Qwen's: told not to think, the reasoning is there already, and empty.
made.chat_template = CHAT_TEMPLATE + (
    "{% if add_generation_prompt and enable_thinking is false %}<think>\\n\\n</think>\\n\\n{% endif %}"
)
made.save_pretrained(folder / "model")
model = weights(len(made))
model.save_pretrained(folder / "model")
of = model.config
shapes = {"q_proj": of.num_attention_heads * 64, "v_proj": of.num_key_value_heads * 64}
torch.manual_seed(1)
for name in ("sql", "talk"):
    (folder / name).mkdir()
    tensors = {}
    for layer in range(of.num_hidden_layers):
        for part, rows in shapes.items():
            at = f"base_model.model.model.layers.{layer}.self_attn.{part}"
            tensors[f"{at}.lora_A.weight"] = torch.randn(8, of.hidden_size) * 0.1
            tensors[f"{at}.lora_B.weight"] = torch.randn(rows, 8) * 0.1
    save_file(tensors, folder / name / "adapter_model.safetensors")
    (folder / name / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 8, "lora_alpha": 8, "lora_dropout": 0.0,
        "bias": "none", "target_modules": ["q_proj", "v_proj"],
    }))
print(made.convert_tokens_to_ids("</think>"))
"""
SCHEMA = {"enum": ["yes", "no"]}


@dataclass(frozen=True)
class Model:
    """The folder of a model with its adapters, and the token that ends its reasoning."""

    folder: Path
    ends_thinking: int


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("thinking")
    made = subprocess.run(
        [VLLM_PYTHON, "-c", MAKE_MODEL, folder],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Model(folder, int(made.stdout.split()[-1]))


@pytest.fixture(scope="module")
def server(model: Model) -> Iterator[VllmServer]:
    adapters = [f"{name}={model.folder / name}" for name in ("sql", "talk")]
    flags = (
        *("--served-model-name=tiny", "--max-model-len=1024", "--max-num-seqs=8"),
        *("--reasoning-parser=deepseek_r1", "--enable-lora", "--max-lora-rank=8"),
        *("--max-loras=2", "--lora-modules", *adapters),
    )
    with vllm_server(
        model.folder / "model", flags, model.folder / "server.log"
    ) as running:
        running.wait_healthy()
        yield running


def asking(workload: str, fields: RequestFields, *, seed: int) -> Stage:
    return stage(
        id=f"{workload}/concurrency=4/r1",
        workload=workload,
        load=UsersLoad(concurrency=4),
        data=RandomData(input_tokens=48, output_tokens=80),
        requests=REQUESTS,
        seed=seed,
        api="Chat",
        ignore_eos=False,
        sampling=SamplingParams(temperature=1.0),
        fields=fields,
    )


@pytest.fixture(scope="module")
def records(
    server: VllmServer, model: Model, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, StageRecord]:
    bias = json.dumps({"logit_bias": {str(model.ends_thinking): 3.5}})
    shares = tuple(Adapter(name=name, percent=25) for name in ("sql", "talk"))
    stages = (
        asking("thinks", RequestFields(thinking=True, extra=bias), seed=1),
        asking("answers", RequestFields(thinking=False), seed=2),
        asking(
            "form",
            RequestFields(thinking=False, answer_schema=json.dumps(SCHEMA)),
            seed=3,
        ),
        asking("adapted", RequestFields(thinking=False, adapters=shares), seed=4),
    )
    target = {
        "engine": "VLLM",
        "base_url": server.url,
        "servers": 1,
        "served_model": "tiny",
        "tokenizer": str(model.folder / "model"),
    }
    folder = tmp_path_factory.mktemp("client")
    with client(folder, plan(*stages, target=target)) as running:
        found, progress = running.pull_all()
    assert progress.failure is None, progress.failure
    return {record.stage_id.partition("/")[0]: record for record in found}


def test_every_request_is_answered(records: dict[str, StageRecord]) -> None:
    for name, record in records.items():
        assert sum(record.requests.ok) == REQUESTS, (name, record.errors)


def test_the_answer_begins_after_the_reasoning(
    records: dict[str, StageRecord],
) -> None:
    """A model of chance ends some reasoning with its first token: then there is none. Its first token
    may be half a character, which shows nothing."""
    columns = records["thinks"].requests
    assert sum(map(bool, columns.reasoning_us)) > REQUESTS / 2
    assert sum(map(bool, columns.answer_us)) > REQUESTS / 2
    rows = zip(
        columns.ttft_us,
        columns.reasoning_us,
        columns.answer_us,
        columns.e2el_us,
        columns.reasoning_tokens,
        columns.output_tokens,
        strict=True,
    )
    for first, thought, answer, last, reasoning, tokens in rows:
        assert 0 < first <= (thought or answer or last)
        assert bool(thought) == bool(reasoning)
        assert reasoning <= tokens
        assert not answer or not thought or thought < answer
        assert answer <= last


def test_told_not_to_think_it_does_not(records: dict[str, StageRecord]) -> None:
    assert records["answers"].requests.reasoning_us == ()


def test_prompts_have_the_tokens_of_the_template_with_its_arguments(
    records: dict[str, StageRecord],
) -> None:
    for record in records.values():
        assert sum(record.requests.input_tokens) == record.expected_input_tokens


def test_the_schema_is_enforced(records: dict[str, StageRecord]) -> None:
    answers = records["form"].answers
    assert answers is not None
    assert answers.checked == REQUESTS
    assert answers.broken == 0, answers.where


def test_the_server_ran_the_adapters(
    records: dict[str, StageRecord], server: VllmServer
) -> None:
    assert "adapted" in records
    with urllib.request.urlopen(f"{server.url}/v1/models") as response:
        models = [each["id"] for each in json.load(response)["data"]]
    assert models == ["tiny", "sql", "talk"]
    with urllib.request.urlopen(f"{server.url}/metrics") as response:
        page = response.read().decode()
    assert "vllm:lora_requests_info" in page
