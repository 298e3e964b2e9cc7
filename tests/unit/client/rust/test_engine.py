"""The Rust client as a load engine: what it refuses, and what a program in its place gives or fails to give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract import LoadPoint, Plan
from benchrun_client.datasets.samples import Sample
from benchrun_client.engine import Load
from benchrun_client.failures import RunFailure
from benchrun_client.rust.child import BEGINNING
from benchrun_client.rust.engine import RustEngine, check_plan
from benchrun_client.rust.finding import Binary
from benchrun_client.target import Servers
from unit.client.plans import plan, stage
from unit.client.search.searches import search

LOAD = Load(
    samples=[Sample("one", 5, 2), Sample("two", 6, 2)],
    seed=1,
    point=LoadPoint(max_concurrency=2),
    api="Completions",
    ignore_eos=True,
)
TOLD = {
    "duration": 1.0,
    "start_times": [0.0, 0.001],
    "ttfts": [0.1, 0.1],
    "itls": [[0.01], [0.01]],
    "output_lens": [2, 2],
    "errors": ["", ""],
}


@pytest.mark.parametrize(
    ("what", "asked"),
    [
        pytest.param("a search", plan(searches=(search(),)), id="search"),
        pytest.param("without an API server", plan(target={"offline": True}), id="offline"),
        pytest.param("several servers", plan(target={"servers": 2}), id="replicas"),
        pytest.param("a trace", plan(stage(load=LoadPoint(trace_speed="1"))), id="trace"),
        pytest.param("a rate under a cap", plan(stage(load=LoadPoint(request_rate="4", max_concurrency=2))), id="cap"),
    ],
)
def test_what_it_does_not_do_is_refused(what: str, asked: Plan) -> None:
    with pytest.raises(RunFailure, match=what) as raised:
        check_plan(asked)
    assert raised.value.reason == "InvalidPlan"


def test_rates_and_users_it_does() -> None:
    check_plan(plan(stage(load=LoadPoint(request_rate="4")), stage(), stage(load=LoadPoint())))


def engine(folder: Path, *lines: str) -> RustEngine:
    """With a script in the program's place, which finds the folder that it is to write to in $out."""
    program = folder / "program"
    way = 'while [ $# -gt 0 ]; do [ "$1" = --result-dir ] && out="$2"; shift; done'
    begins = f'echo "{BEGINNING.decode()}" >&2'
    program.write_text("\n".join(["#!/bin/sh", way, begins, *lines, ""]))
    program.chmod(0o755)
    return RustEngine(Binary(program, "0.32.0"), model="tiny", percentiles=("50",), ca_file=None)


def writes(told: Any) -> str:
    return f"cat > $out/result.json <<'END'\n{json.dumps(told)}\nEND"


SERVERS = Servers(("http://127.0.0.1:1",), ())


async def test_every_answer_is_told_once_all_are_known(tmp_path: Path) -> None:
    heard: list[str] = []
    outcome = await engine(tmp_path, writes(TOLD)).run(
        LOAD, SERVERS, on_send=lambda: heard.append("begun"), on_answer=lambda: heard.append("answered")
    )
    assert heard == ["begun", "answered", "answered"]
    assert outcome.instants.ok == [True, True]
    assert outcome.toll is not None


def exists(place: str) -> bool:
    return Path(place).exists()


async def test_its_files_hold_the_prompts_and_are_gone_afterwards(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    used = engine(tmp_path, f"cp -r $out {kept}", f"echo $out > {tmp_path}/place", writes(TOLD))
    await used.run(LOAD, SERVERS)
    lines = [json.loads(line) for line in (kept / "prompts.jsonl").read_text().splitlines()]
    assert [line["prompt"] for line in lines] == ["one", "two"]
    assert json.loads((kept / "tokenizer.json").read_text())["model"]["vocab"] == {"?": 0}
    assert not exists((tmp_path / "place").read_text().strip())


@pytest.mark.parametrize(
    ("message", "does"),
    [
        pytest.param("no result that can be read", "exit 0", id="none"),
        pytest.param("no result that can be read", "echo '{' > $out/result.json", id="half of one"),
        pytest.param("of another form", writes([1]), id="a list"),
        pytest.param("another number of requests", writes({**TOLD, "ttfts": [0.1]}), id="a request too few"),
        pytest.param("at most 50176 are plausible", "head -c 60000 /dev/zero > $out/result.json", id="far too much"),
    ],
)
async def test_a_result_that_is_none_fails_the_run(message: str, does: str, tmp_path: Path) -> None:
    used = engine(tmp_path, does)
    with pytest.raises(RunFailure, match=message):
        await used.run(LOAD, SERVERS)
    assert used.instants is None


async def test_of_a_load_that_came_to_nothing_no_instants_are_left(tmp_path: Path) -> None:
    used = engine(tmp_path, f"[ -e {tmp_path}/once ] && exit 3", f"echo > {tmp_path}/once", writes(TOLD))
    await used.run(LOAD, SERVERS)
    assert used.instants is not None
    with pytest.raises(RunFailure):
        await used.run(LOAD, SERVERS)
    assert used.instants is None
