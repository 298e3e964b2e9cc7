"""What the cache policies do to a server's prefix cache, as the counters at the edges of the stages
tell it.

Two files with the same rows make two stages send the same prompts: without a reset the second is
served from the cache."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchrun_client.contract import Stage, StageRecord, UsersLoad
from benchrun_client.contract.datasets import RandomData
from client.simulated_runs import against_simulator
from unit.client.plans import plan, sharegpt, stage

ROWS = 6
MAX_IDLE_SECONDS = 0.5


def same_rows_twice(folder: Path) -> tuple[Stage, ...]:
    """Two stages whose prompts are equal, though no row of a file is used twice."""
    rows = [
        {
            "conversations": [
                {"value": f"{n} " + " ".join(f"word{n} {m}" for m in range(40))},
                {"value": "a b c d e f"},
            ]
        }
        for n in range(ROWS)
    ]
    files = [folder / name for name in ("first.json", "second.json")]
    for indent, file in enumerate(files):
        # Files of the same content would share their rows, and use none twice.
        file.write_text(json.dumps(rows, indent=indent))
    return tuple(
        stage(
            id=f"rows/concurrency=2/r{n}",
            repeat=n,
            data=sharegpt(str(file), output_tokens=4),
            requests=ROWS,
            load=UsersLoad(concurrency=2),
        )
        for n, file in enumerate(files, start=1)
    )


@contextmanager
def measured(
    folder: Path, *stages: Stage, flags: tuple[str, ...], **changes: Any
) -> Iterator[list[StageRecord]]:
    with against_simulator(
        folder,
        plan(*stages, **changes),
        *("--sim-ttft-ms", "20", "--sim-tpot-ms", "2"),
        *flags,
        development_mode=True,
    ) as running:
        records, _ = running.pull_all()
        assert running.process.wait() == 0
        yield records


def hits(record: StageRecord) -> float:
    edge = record.servers[0]
    assert edge.before is not None
    assert edge.after is not None
    return (
        edge.after["prefix_cache_hits_total"]
        - edge.before["prefix_cache_hits_total"]
    )


def test_a_reset_is_tried_until_the_server_says_that_it_did_it_and_then_nothing_is_left(
    tmp_path: Path,
) -> None:
    stages = same_rows_twice(tmp_path)
    with measured(
        tmp_path, *stages, flags=("--sim-reset-fails", "2"), cache_policy="Reset"
    ) as records:
        first, second = records
    assert first.prompts_digest == second.prompts_digest
    assert first.cache_reset is not None
    assert (first.cache_reset.succeeded, first.cache_reset.attempts) == (True, 3)
    assert second.cache_reset is not None
    assert (second.cache_reset.succeeded, second.cache_reset.attempts) == (True, 1)
    assert (hits(first), hits(second)) == (0, 0)
    assert 0 < second.idle_before_us < MAX_IDLE_SECONDS * 1e6


def test_a_server_that_claims_a_reset_it_did_not_do_is_found_out_by_its_counters(
    tmp_path: Path,
) -> None:
    stages = same_rows_twice(tmp_path)
    with measured(
        tmp_path, *stages, flags=("--sim-reset-lies",), cache_policy="Reset"
    ) as records:
        first, second = records
    assert second.cache_reset is not None
    assert second.cache_reset.succeeded
    assert hits(first) == 0
    assert hits(second) > 0


def test_share_sends_the_same_prompts_again_and_streams_that_broke_off_are_told_apart(
    tmp_path: Path,
) -> None:
    data = RandomData(input_tokens=200, output_tokens=8)
    stages = [
        stage(id="chat/concurrency=2/r1", data=data, requests=10, seed=5),
        stage(
            id="chat/concurrency=4/r1",
            data=data,
            requests=6,
            seed=5,
            load=UsersLoad(concurrency=4),
        ),
    ]
    with measured(
        tmp_path,
        *stages,
        flags=("--sim-drop-end-percent", "25"),
        cache_policy="Share",
    ) as records:
        first, second = records
    assert hits(first) == 0
    assert hits(second) > 0.5 * sum(second.requests.input_tokens)
    # A stream without its end is a success for vLLM, which counts the tokens that came.
    assert all(first.requests.ok)
    assert first.requests.ended.count(0) + second.requests.ended.count(0) == 4
    assert first.requests.asked_tokens == (8,) * 10
    assert all(
        (tokens < 8) == (not ended)
        for tokens, ended in zip(
            first.requests.output_tokens, first.requests.ended, strict=True
        )
    )


def test_a_test_request_counts_for_nothing_and_leaves_its_prompt_in_the_cache(
    tmp_path: Path,
) -> None:
    data = RandomData(input_tokens=320, output_tokens=8)
    stages = [
        stage(
            id="one/rate=inf/r1",
            workload="one",
            data=data,
            requests=1,
            seed=5,
            test_request=True,
        ),
        stage(
            id="two/rate=inf/r1",
            workload="two",
            data=data,
            requests=2,
            seed=6,
            test_request=True,
        ),
        stage(
            id="none/rate=inf/r1", workload="none", data=data, requests=2, seed=7
        ),
    ]
    with measured(tmp_path, *stages, flags=()) as records:
        one, two, none = records
    assert [len(record.requests.ok) for record in records] == [1, 2, 2]
    assert hits(one) > 300
    assert hits(two) == hits(one)
    assert hits(none) == 0
