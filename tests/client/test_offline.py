"""vLLM's own engine without its API server, and the client that gives it loads: what `vllm bench`
says of it, we say too."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from benchrun.measure import counters
from benchrun_client.contract import AtOnceLoad, BatchLoad, DataFile, StageRecord
from benchrun_client.contract.datasets import RandomData, TextsData
from client.processes import CLIENT_ROOT, TINY_MODEL, VLLM_PYTHON, client, free_port
from unit.client.plans import plan, stage, warmup

INPUT_TOKENS = 64
OUTPUT_TOKENS = 32
REQUESTS = 96
TEMPLATE_WORDS = 8
"""Of three tokens each: more than the tolerance of the counts could hide."""
FLAGS = (
    "--dtype=float32",
    "--max-model-len=512",
    "--max-num-seqs=16",
    "--enforce-eager",
    "--seed=1",
)
_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


@contextmanager
def engine(port: int, flags: Sequence[str] = FLAGS) -> Iterator[None]:
    """The engine as its pod runs it. It leads a group of processes, which end together."""
    process = subprocess.Popen(
        [
            VLLM_PYTHON,
            CLIENT_ROOT / "offline_engine.py",
            "--port",
            str(port),
            f"--model={TINY_MODEL}",
            *flags,
        ],
        env={**os.environ, **_CPU},
        start_new_session=True,
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@dataclass(frozen=True)
class Measured:
    """What the client gave."""

    records: dict[str, StageRecord]
    exit_code: int


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("offline")
    port = free_port()
    data = RandomData(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)
    template = folder / "chat.jinja"
    template.write_text(
        f"{' the' * TEMPLATE_WORDS}{{% for m in messages %}} {{{{ m.content }}}}{{% endfor %}}"
    )
    whole = plan(
        stage(
            id="all/rate=inf/r1",
            workload="all",
            load=AtOnceLoad(),
            data=data,
            requests=REQUESTS,
            seed=3,
        ),
        stage(
            id="by/batch=8/r1",
            workload="by",
            load=BatchLoad(size=8),
            data=data,
            requests=24,
            seed=4,
        ),
        stage(
            id="by/batch=1/r1",
            workload="by",
            load=BatchLoad(size=1),
            data=data,
            requests=3,
            seed=5,
        ),
        stage(
            id="talk/rate=inf/r1",
            workload="talk",
            load=AtOnceLoad(),
            data=data,
            requests=8,
            seed=6,
            api="Chat",
        ),
        warmups=(warmup(workload="all", data=data, requests=16, concurrency=8),),
        target={
            "base_url": f"http://127.0.0.1:{port}",
            "metrics_urls": (f"http://127.0.0.1:{port}/metrics",),
            "served_model": str(TINY_MODEL),
            "tokenizer": str(TINY_MODEL),
            "offline": True,
            "chat_template": str(template),
        },
    )
    with engine(port), client(folder, whole) as running:
        records, _ = running.pull_all()
        return Measured({r.stage_id: r for r in records}, running.process.wait())


def test_every_request_was_answered_as_long_as_asked(measured: Measured) -> None:
    assert measured.exit_code == 0
    assert {name: len(r.requests.ok) for name, r in measured.records.items()} == {
        "all/rate=inf/r1": REQUESTS,
        "by/batch=8/r1": 24,
        "by/batch=1/r1": 3,
        "talk/rate=inf/r1": 8,
    }
    for record in measured.records.values():
        assert all(record.requests.ok)
        assert set(record.requests.output_tokens) == {OUTPUT_TOKENS}


def test_the_engines_counters_tell_of_the_same_requests_and_tokens(
    measured: Measured,
) -> None:
    """Those of chats with the words of the template that the client was given: the model's own is
    shorter."""
    for record in measured.records.values():
        (edge,) = record.servers
        assert edge.before is not None
        assert edge.after is not None
        rise = {name: edge.after[name] - edge.before[name] for name in edge.after}
        assert rise["request_success_total"] == len(record.requests.ok)
        assert rise["generation_tokens_total"] == sum(record.requests.output_tokens)
        assert rise["prompt_tokens_total"] == pytest.approx(
            sum(record.requests.input_tokens), rel=0.02
        )
        assert rise["prefix_cache_hits_total"] == 0
        assert edge.version
        assert edge.models == f"id={TINY_MODEL} max_model_len=512"


def test_all_at_once_most_requests_wait_for_a_place(measured: Measured) -> None:
    columns = measured.records["all/rate=inf/r1"].requests
    assert max(columns.start_us) < min(columns.e2el_us)
    assert columns.ttft_us[-1] > 2 * columns.ttft_us[0]
    assert all(
        ttft < e2el
        for ttft, e2el in zip(columns.ttft_us, columns.e2el_us, strict=True)
    )


def test_a_batch_begins_together_ends_together_and_is_followed_by_the_next(
    measured: Measured,
) -> None:
    columns = measured.records["by/batch=8/r1"].requests
    starts = sorted(set(columns.start_us))
    assert [columns.start_us.count(start) for start in starts] == [8, 8, 8]
    for first, then in pairwise(starts):
        assert first + columns.e2el_us[columns.start_us.index(first)] <= then


def test_a_larger_batch_takes_longer_and_brings_more(measured: Measured) -> None:
    one = measured.records["by/batch=1/r1"]
    eight = measured.records["by/batch=8/r1"]
    latency = {
        r.stage_id: float(r.scalars["avg_latency"] or 0) for r in (one, eight)
    }
    assert latency[eight.stage_id] > latency[one.stage_id]
    assert 8 / latency[eight.stage_id] > 1 / latency[one.stage_id]


def test_throughput_is_that_of_the_command_people_use(
    measured: Measured, tmp_path: Path
) -> None:
    told = tmp_path / "throughput.json"
    subprocess.run(
        [
            *(
                VLLM_PYTHON,
                "-m",
                "vllm.entrypoints.cli.main",
                "bench",
                "throughput",
            ),
            *("--dataset-name", "random", "--random-input-len", str(INPUT_TOKENS)),
            *(
                "--random-output-len",
                str(OUTPUT_TOKENS),
                "--num-prompts",
                str(REQUESTS),
                "--num-warmups",
                "16",
            ),
            *("--output-json", told, "--model", TINY_MODEL, *FLAGS),
        ],
        env={**os.environ, **_CPU},
        check=True,
        timeout=300,
    )
    theirs = json.loads(told.read_text())
    ours = measured.records["all/rate=inf/r1"].scalars
    assert theirs["num_requests"] == ours["num_requests"]
    ratio = float(ours["requests_per_second"] or 0) / theirs["requests_per_second"]
    # The same engine on the same cores; other work on them is what the margin is for.
    assert 0.6 < ratio < 1.7, (ours, theirs)


def test_a_flag_that_vllm_does_not_know_is_told_in_its_own_words(
    tmp_path: Path,
) -> None:
    ended = subprocess.run(
        [
            VLLM_PYTHON,
            CLIENT_ROOT / "offline_engine.py",
            f"--model={TINY_MODEL}",
            "--max-sequences=3",
        ],
        env={**os.environ, **_CPU},
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 2
    assert "error: unrecognized arguments: --max-sequences=3" in ended.stderr


BLOCK_TOKENS = 32
WORDS = ("the", "film", "was", "long", "and", "nobody", "laughed", "again")


def copies(path: Path, *, texts_per_prompt: int, instruction: str) -> TextsData:
    return TextsData(
        file=DataFile(path=str(path)),
        column="review",
        order="File",
        texts_per_prompt=texts_per_prompt,
        instruction=instruction,
        duplicate=20,
    )


def test_what_copies_are_declared_to_repeat_is_what_the_cache_finds(
    tmp_path: Path,
) -> None:
    """Whole ones, and ones whose instruction is new each time. The warm-up has left none of them in
    the cache."""
    lines = (" ".join(WORDS[n % 7 : n % 7 + 2] * 20) + f" {n}" for n in range(24))
    path = tmp_path / "reviews.csv"
    path.write_text("review\n" + "\n".join(lines) + "\n")
    whole = copies(path, texts_per_prompt=1, instruction="good or bad?")
    numbered = copies(path, texts_per_prompt=6, instruction="{copy} good or bad?")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    planned = plan(
        *(
            stage(
                id=f"{name}/rate=inf/r1",
                workload=name,
                load=AtOnceLoad(),
                data=data,
                requests=40,
            )
            for name, data in (("whole", whole), ("numbered", numbered))
        ),
        warmups=(warmup(workload="whole", data=whole, requests=16, concurrency=8),),
        cache_policy="Share",
        target={
            "base_url": url,
            "metrics_urls": (f"{url}/metrics",),
            "served_model": str(TINY_MODEL),
            "tokenizer": str(TINY_MODEL),
            "context_tokens": 2048,
            "offline": True,
        },
    )
    flags = (
        "--dtype=float32",
        "--max-model-len=2048",
        "--max-num-seqs=16",
        "--enforce-eager",
    )
    cached = ("--enable-prefix-caching", f"--block-size={BLOCK_TOKENS}")
    with (
        engine(port, (*flags, *cached)),
        client(tmp_path / "pod", planned) as running,
    ):
        records, _ = running.pull_all()
    assert len(records) == 2
    for record in records:
        found = counters.prefix_lookups(counters.prefilling(record.servers))
        assert found is not None
        assert len(record.requests.ok) == 40
        # Whole blocks alone are found. The first prompts of both stages begin with the same text.
        missed = record.repeated_tokens - found[1]
        told = (record.stage_id, found, record.repeated_tokens)
        assert -4 * BLOCK_TOKENS <= missed <= 40 * BLOCK_TOKENS, told
        assert found[1] > 0.5 * found[0], told
