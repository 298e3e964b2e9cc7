"""The generator VLLM beside vLLM's own `random` dataset, with a real tokenizer."""

import json
import os
import subprocess
from itertools import pairwise

from client.processes import CLIENT_ROOT, TINY_MODEL, VLLM_PYTHON

PROMPTS = """
import json, sys
from transformers import AutoTokenizer
from vllm.benchmarks.datasets import RandomDataset
from benchrun_client.datasets.random_words import vllm_prompts

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
found = []
for seed in (0, 42, 2**31 - 1):
    for length in (1, 16, 300, 1000, 3000):
        theirs = RandomDataset(random_seed=seed).sample(tokenizer, 20, input_len=length, output_len=7)
        ours = vllm_prompts(tokenizer, seed=seed, requests=20, input_tokens=length)
        ids = [tokenizer(texts)["input_ids"] for texts in ([each.prompt for each in theirs], ours)]
        found.append([seed, length, *ids])
print(json.dumps(found))
"""


def test_prompts_are_those_of_vllm_token_for_token_with_their_collisions() -> None:
    told = subprocess.run(
        [VLLM_PYTHON, "-c", PROMPTS, TINY_MODEL],
        env={**os.environ, "PYTHONPATH": str(CLIENT_ROOT), "HF_HUB_OFFLINE": "1"},
        check=True,
        stdout=subprocess.PIPE,
    )
    found = json.loads(told.stdout.splitlines()[-1])
    assert len(found) == 15
    for seed, length, theirs, ours in found:
        assert theirs == ours, (seed, length)
    # Prompt i is the beginning of prompt i at the next greater length, but for what encoding it
    # again changes at its end.
    for (seed, length, _, shorter), (other, _, _, longer) in pairwise(found):
        if seed == other and length > 1:
            same = [
                a[: length - 3] == b[: length - 3]
                for a, b in zip(shorter, longer, strict=True)
            ]
            assert sum(same) >= 18, (seed, length)
    assert found[0][3] != found[5][3]
