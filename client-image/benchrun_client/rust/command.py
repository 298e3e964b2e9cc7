"""A load in the words of `vllm-rs bench serve`, and the files that it is to read. Pure.

It insists on a tokenizer and counts each prompt with it before it sends any. Our counts are made, by the model's own tokenizer,
so it is given one that costs nothing and knows a single word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchrun_client.canary import PATHS
from benchrun_client.datasets.samples import Sample
from benchrun_client.engine import BACKENDS, LATENCIES, Load
from benchrun_client.tokenizer import Api

PROMPTS_FILE, TOKENIZER_FILE, RESULT_FILE = "prompts.jsonl", "tokenizer.json", "result.json"
TOKENIZER = json.dumps(
    {
        "version": "1.0",
        "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"},
    }
)

_ALWAYS: Mapping[str, str | None] = {
    "--dataset-name": "custom",
    # Each line's own output length.
    "--custom-output-len": "-1",
    # It would send prompts in another order, or some twice.
    "--disable-shuffle": None,
    "--no-oversample": None,
    "--skip-chat-template": None,
    "--ready-check-timeout-sec": "0",
    "--num-warmups": "0",
    "--no-steady-state": None,
    "--percentile-metrics": LATENCIES,
    "--save-result": None,
    "--save-detailed": None,
    "--disable-tqdm": None,
}
_BY_LOAD = (
    "--backend",
    "--base-url",
    "--endpoint",
    "--model",
    "--tokenizer",
    "--dataset-path",
    "--num-prompts",
    "--seed",
    "--request-rate",
    "--burstiness",
    "--max-concurrency",
    "--metric-percentiles",
    "--result-dir",
    "--result-filename",
    "--ignore-eos",
    "--repetition-penalty",
)
FLAGS = (*_ALWAYS, *_BY_LOAD)
"""All that may be asked of it."""

_ALSO_SENT: dict[Api, tuple[str, ...]] = {"Completions": ("--repetition-penalty", "1.0"), "Chat": ()}
"""vLLM's Python client says so in each request, whatever the model's generation_config.json has."""
_LEFT_OUT = ("VLLM_", "RUST_")


def arguments(load: Load, *, url: str, model: str, percentiles: Sequence[str], folder: Path) -> list[str]:
    """The words after the program's name."""
    words = [
        *("bench", "serve"),
        *("--backend", BACKENDS[load.api]),
        *("--base-url", url),
        *("--endpoint", PATHS[load.api]),
        *("--model", model),
        *("--tokenizer", str(folder)),
        *("--dataset-path", str(folder / PROMPTS_FILE)),
        *("--num-prompts", str(len(load.samples))),
        *("--seed", str(load.seed)),
        *("--request-rate", load.point.request_rate),
        *("--burstiness", load.point.burstiness),
        *("--metric-percentiles", ",".join(percentiles)),
        *("--result-dir", str(folder)),
        *("--result-filename", RESULT_FILE),
        *_ALSO_SENT[load.api],
        *(word for pair in _ALWAYS.items() for word in pair if word is not None),
    ]
    if load.point.max_concurrency is not None:
        words += ["--max-concurrency", str(load.point.max_concurrency)]
    if load.ignore_eos:
        words.append("--ignore-eos")
    return words


def prompt_lines(samples: Iterable[Sample]) -> Iterable[str]:
    """The lines of the prompts' file."""
    return (json.dumps({"prompt": s.prompt, "output_tokens": s.output_tokens}) + "\n" for s in samples)


def environment(ours: Mapping[str, str], *, ca_file: str | None) -> dict[str, str]:
    """Ours, but for what would silence it: the line it logs when it begins is its clock's zero."""
    kept = {name: value for name, value in ours.items() if not name.startswith(_LEFT_OUT)}
    authority = {"SSL_CERT_FILE": ca_file} if ca_file is not None else {}
    return {**kept, **authority, "NO_COLOR": "1", "VLLM_LOGGING_LEVEL": "INFO"}
