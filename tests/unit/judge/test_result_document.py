"""The result document: what the judge writes of a run, and what a reader makes of it."""

import gzip
import json
import re
from datetime import datetime
from typing import Any

import pytest
from benchrun.api import (
    MAX_RESULT_BYTES,
    BenchmarkRunStatus,
    EndingStatus,
    ResultDocument,
    RunIdentity,
    ServerStatus,
    Truncated,
    open_result,
    packed_json,
    read_result,
    result_json,
)
from benchrun.judge.document_size import packed_document
from benchrun.judge.judged_run import JudgedRun, Surroundings, judged_run
from unit.judge.specs import spec, workload
from unit.measure.records import record, requests, sample

IDENTITY = RunIdentity(
    namespace="lab", name="chat", uid="uid", labels={"team": "red"}
)
SERVERS = [
    ServerStatus(
        engine="VLLM", role="server", pod="server-0", gpus=2, args=["--model", "m"]
    )
]
TTFT = {"metric": "TTFT", "percentile": "99", "maxMilliseconds": 40}


def evaluated(count: int = 2, **changes: Any) -> JudgedRun:
    """Judge a run of some load points."""
    rates = [str(n + 1) for n in range(count)]
    asked = spec(
        workloads=[workload(load={"requestRates": rates})],
        objectives=[TTFT],
        cost={"perHour": "2"},
    )
    records = [
        record(f"chat/rate={rate}/r1", sequence=n) for n, rate in enumerate(rates)
    ]
    samples = [
        sample(1000.0 + i, running=i, waiting=2.0, kv_cache=0.5) for i in range(20)
    ]
    run = Surroundings(identity=IDENTITY, servers=SERVERS, **changes)
    return judged_run(run, asked, records, samples)


def test_it_reads_back_as_it_was_written() -> None:
    document = evaluated().document
    packed = packed_document(document)
    assert packed.document is document
    assert open_result(packed.data) == document
    assert packed_document(evaluated().document).data == packed.data


def test_what_is_written_has_no_field_that_the_model_lacks() -> None:
    text = result_json(evaluated().document)
    assert (
        ResultDocument.model_validate_json(text, extra="forbid")
        == evaluated().document
    )


def test_its_figures_are_those_of_the_status() -> None:
    judgement, document = evaluated()
    status = document.status()
    assert (status.results, status.findings) == (
        judgement.results,
        judgement.findings,
    )
    assert (status.verdict, status.headline) == (
        judgement.verdict,
        judgement.headline,
    )
    assert (status.cost, status.judge) == (judgement.cost, judgement.judge)
    assert status.servers == SERVERS


def test_it_says_how_the_run_ended() -> None:
    document = evaluated().document
    conditions = {each.type: each.status for each in document.conditions}
    assert (document.phase, conditions["Complete"], conditions["Failed"]) == (
        "Completed",
        "True",
        "False",
    )
    ending = EndingStatus(reason="ServerGone", message="it is gone")
    document = evaluated(ending=ending).document
    reasons = {each.type: each.reason for each in document.conditions}
    assert (document.phase, document.message) == ("Failed", "it is gone")
    assert reasons["Failed"] == "ServerGone"


def test_what_the_cluster_knows_besides_stays() -> None:
    written = BenchmarkRunStatus(
        completion_time="2026-01-01T00:00:00Z", log_tail="end"
    )
    status = evaluated().document.status(written)
    assert (status.completion_time, status.log_tail) == (
        "2026-01-01T00:00:00Z",
        "end",
    )
    assert len(status.results) == 2


def test_what_the_status_keeps_elsewhere_is_still_said_to_be_cut() -> None:
    fields = (
        "results[].metrics",
        "timeline",
        "servers[].args",
        "comparison.loadPoints",
    )
    written = BenchmarkRunStatus(
        truncated=[Truncated(field=f, total=2, included=1) for f in fields]
    )
    status = evaluated().document.status(written)
    assert [cut.field for cut in status.truncated] == ["timeline", "servers[].args"]


def test_a_document_alone_ends_with_its_last_answer() -> None:
    document = evaluated().document
    last = max(stage.last_receive_unix_us for stage in document.stages)
    end = document.status().completion_time
    assert end is not None
    assert datetime.fromisoformat(end).timestamp() == last // 1_000_000


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        pytest.param(
            '"value":"2"', '"value":"two"', "'two' is not a load", id="load"
        ),
        pytest.param(
            '"repeats":1',
            '"repeats":1,"repeatCvPercent":{"x":1e999}',
            "spec.repeatCvPercent.x: the number is out of range",
            id="too-large",
        ),
        pytest.param(
            '"number":0', '"number":1000000000', "less than 10000", id="spans"
        ),
        pytest.param(
            '"completed":',
            '"completed":9223372036854775808,"x":',
            "the number is out of range",
            id="too-large-a-count",
        ),
        pytest.param('"99.9":', '"x":', "should match pattern", id="percentile"),
    ],
)
def test_a_forged_value_is_named(old: str, new: str, named: str) -> None:
    text = result_json(evaluated().document).decode()
    assert old in text
    with pytest.raises(ValueError, match=re.escape(named)):
        read_result(text.replace(old, new, 1).encode())


def test_a_stage_has_what_exports_show_of_it() -> None:
    first, second = evaluated().document.stages
    row = evaluated().document.results[0]
    assert (first.id, first.load_point, first.repeat, second.sequence) == (
        "chat/rate=1/r1",
        row.load_point,
        1,
        1,
    )
    assert first.metrics["mean_ttft_ms"] == row.metrics["mean_ttft_ms"]
    assert first.roles[0].role == "server"
    assert first.servers[0].address == first.replicas[0].address
    assert first.metrics["cost_per_million_output_tokens"] is not None
    ttft = first.distributions["ttft"]
    assert (ttft.count, ttft.mean) == (
        first.completed,
        first.metrics["mean_ttft_ms"],
    )
    assert first.uncertain == row.uncertain
    assert "99" in ttft.unbounded
    assert ttft.least <= ttft.percentiles["50"] <= ttft.greatest
    assert {
        "input_tokens",
        "asked_tokens",
        "output_tokens",
    } <= first.distributions.keys()


def test_the_servers_over_time_need_no_samples() -> None:
    timeline = evaluated().document.timeline
    assert timeline is not None
    (role,) = timeline.roles
    assert (timeline.samples, role.role, role.servers) == (20, "server", 1)
    assert len(role.spans) == 10
    assert role.spans[1].running == (2.5, 2.0, 3.0)
    assert role.spans[1].kv_cache_percent == (50.0, 50.0, 50.0)


def test_no_figure_is_infinite_or_no_number() -> None:
    failed = record(
        "chat/rate=4/r1", requests=requests(ok=(0, 0), output_tokens=(0, 0))
    )
    run = Surroundings(identity=IDENTITY)
    document = judged_run(run, spec(objectives=[TTFT]), [failed], ()).document

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(result_json(document), parse_constant=refuse)
    assert document.phase == "Failed"


def test_what_matters_least_is_dropped_first_and_named() -> None:
    whole = evaluated(12).document
    cuts = []
    for share in (0.9, 0.5, 0.2):
        most = int(share * len(result_json(whole)))
        kept = packed_document(whole, max_bytes=most).document
        assert len(result_json(kept)) <= most
        assert open_result(packed_json(result_json(kept))) == kept
        cuts.append({cut.field for cut in kept.truncated})
    assert cuts[0] == {"stages[].distributions"}
    assert "distributions" in cuts[2]
    assert cuts[0] <= cuts[1]
    packed = packed_document(whole, max_packed_bytes=4_000)
    assert len(packed.data) <= 4_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b"{", "EOF", id="no JSON"),
        pytest.param(b"[]", "benchrun.result/1", id="a list"),
        pytest.param(
            b'{"schema": "benchrun.result/2"}',
            "benchrun.result/2",
            id="a later one",
        ),
        pytest.param(
            b'{"schema": "benchrun.result/1"}', "run: ", id="a part of one"
        ),
        pytest.param(b" " * (MAX_RESULT_BYTES + 1), "larger than", id="too large"),
    ],
)
def test_what_is_no_document_is_refused_in_a_line(
    text: bytes, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        read_result(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"{}", id="not packed"),
        pytest.param(gzip.compress(b"{}")[:-9], id="cut short"),
        pytest.param(gzip.compress(b" " * (MAX_RESULT_BYTES + 1)), id="a bomb"),
        pytest.param(bytes(1_000_000), id="too large"),
    ],
)
def test_what_is_no_packed_document_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"gzip|cut short|larger"):
        open_result(data)


def test_fields_of_a_later_reader_are_ignored() -> None:
    document = evaluated().document
    body = json.loads(result_json(document)) | {"power": {"watts": 5}}
    body["stages"][0]["temperature"] = 40
    assert read_result(json.dumps(body).encode()) == document
