"""The rows of `shareGPT.seed` beside vLLM's own sampler, with a real tokenizer."""

import json
import os
import random
import subprocess
from pathlib import Path

from client.processes import CLIENT_ROOT, TINY_MODEL, VLLM_PYTHON

SAMPLED = """
import json, sys
from transformers import AutoTokenizer
from vllm.benchmarks.datasets import ShareGPTDataset
from benchrun_client.contract import DataFile
from benchrun_client.contract.datasets import ShareGPTData
from benchrun_client.datasets.row_pools import Portion
from benchrun_client.datasets.run_datasets import RunDatasets
from benchrun_client.tokenizer import TokenCounter

model, path = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(model)
found = []
for seed in (0, 42, 2**31 - 1):
    for forced in (None, 7):
        theirs = ShareGPTDataset(dataset_path=path, random_seed=seed).sample(
            tokenizer, 100, output_len=forced
        )
        data = ShareGPTData(
            file=DataFile(path=path), seed=seed, output_tokens=forced, max_total_tokens=2048
        )
        portion = Portion("chat", 0, data, 100, 1, "Completions")
        supply = RunDatasets([portion], counter=TokenCounter(tokenizer), context_tokens=12000)
        ours = supply.draw(portion)
        found.append(
            [
                [[each.prompt, each.prompt_len, each.expected_output_len] for each in theirs],
                [[each.prompt, each.input_tokens, each.output_tokens] for each in ours],
            ]
        )
print(json.dumps(found))
"""
WORDS = ("the", "train", "is", "late", "again", "and", "nobody", "says", "why")


def conversations() -> list[dict[str, object]]:
    """Five hundred: of every length, some equal, some without an answer, some of another shape."""
    rng = random.Random(5)

    def text(most: int) -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))

    rows: list[dict[str, object]] = []
    for n in range(500):
        turns = [
            {"from": "human", "value": text(600)},
            {"from": "gpt", "value": text(600)},
        ]
        rows.append(
            {"id": f"row{n}", "conversations": turns[: 1 if n % 9 == 0 else 2]}
        )
    return rows + rows[100:120]


def test_rows_are_those_of_vllm_in_its_order_with_its_lengths(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(conversations()))
    told = subprocess.run(
        [VLLM_PYTHON, "-c", SAMPLED, TINY_MODEL, path],
        env={**os.environ, "PYTHONPATH": str(CLIENT_ROOT), "HF_HUB_OFFLINE": "1"},
        check=True,
        stdout=subprocess.PIPE,
    )
    found = json.loads(told.stdout.splitlines()[-1])
    assert len(found) == 6
    for theirs, ours in found:
        assert len(theirs) == 100
        assert ours == theirs
