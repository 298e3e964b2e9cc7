"""Parts of a job that are not what they say, or can't be reckoned with: left out, counted, and no
reason to end."""

import gzip
import hashlib
import json
from collections.abc import Iterable
from typing import Any

import pytest
from benchrun.api import (
    MAX_REFUSED,
    Judgement,
    ResultDocument,
    open_result,
    packed_json,
    result_json,
)
from benchrun.judge_process.judge_job import judge_job
from benchrun.judge_process.messages import Job, JobPart
from benchrun_client.contract import Probe, RateLoad
from unit.judge_process import jobs
from unit.measure.records import edge, load_at, requests, sample, sealed_bytes
from unit.plan.specs import UID, Json, spec_body, workload


def judged(job: Job, parts: Iterable[JobPart]) -> Judgement:
    """What the status holds."""
    return judge_job(job, parts)[0]


def findings(judgement: Judgement) -> set[str]:
    return {finding.code for finding in judgement.findings}


def test_a_run_that_fits_is_judged_whole() -> None:
    judgement = judged(jobs.job(), jobs.records())
    assert (
        judgement.refused_count,
        judgement.measured_anything,
        judgement.all_requests_failed,
    ) == (0, True, False)
    assert [row.load_point for row in judgement.results] == [
        "chat/rate=1",
        "chat/rate=4",
    ]
    assert judgement.client is not None
    assert (judgement.client.image, judgement.client.engine) == ("client:1", "vllm")
    assert judgement.client.chat_template is None


def test_the_chat_template_that_the_client_was_given_is_that_of_its_records() -> (
    None
):
    digest = "a" * 64
    found = judged(
        jobs.job(),
        [
            jobs.part(
                jobs.measured(0, chat_template=digest, tokenizer_commit="c" * 40)
            )
        ],
    ).client
    assert found is not None
    assert (found.chat_template, found.commit) == (digest, "c" * 40)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"digest": "0" * 64}, id="digest"),
        pytest.param({"sequence": 1}, id="sequence"),
        pytest.param({"stage_id": jobs.STAGES[1]}, id="stage"),
        pytest.param({"plan_digest": "d" * 64}, id="plan"),
        pytest.param({"ends_search": "chat"}, id="end of a search"),
    ],
)
def test_a_body_that_differs_from_its_envelope_is_left_out(
    changed: dict[str, Any],
) -> None:
    judgement = judged(
        jobs.job(),
        [jobs.part(jobs.measured(0), **changed), jobs.part(jobs.measured(1))],
    )
    assert judgement.refused_count == 1
    by_load_point = {
        row.load_point: (row.repeats, row.verdict) for row in judgement.results
    }
    load_point, other = (stage.removesuffix("/r1") for stage in jobs.STAGES)
    assert (by_load_point[load_point], by_load_point[other][0]) == (
        (0, "Invalid"),
        1,
    )
    assert "RecordMissing" in findings(judgement)


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(jobs.measured(0, run_uid="another"), id="another run"),
        pytest.param(
            jobs.measured(0, jobs.STAGES[1]), id="another place than the plan's"
        ),
        pytest.param(jobs.measured(7, "chat/rate=9/r1"), id="beyond the plan"),
        pytest.param(
            jobs.measured(0, probe=Probe(ends_search=True)),
            id="a probe where none is asked for",
        ),
        pytest.param(
            jobs.measured(0, load=RateLoad(requests_per_second="5")),
            id="another load than the plan's",
        ),
        pytest.param(
            jobs.measured(0, servers=(edge(role="janitor"),)),
            id="a role that there is not",
        ),
    ],
)
def test_a_record_that_agrees_with_its_envelope_and_not_with_the_plan_is_left_out(
    forged: Any,
) -> None:
    judgement = judged(jobs.job(), [jobs.part(forged)])
    assert (
        judgement.refused_count,
        judgement.measured_anything,
        judgement.verdict,
    ) == (
        1,
        False,
        "Unknown",
    )


def test_a_probe_beyond_what_its_search_may_choose_is_left_out() -> None:
    search = {
        "search": {"axis": "Concurrency", "from": "1", "to": "8", "maxProbes": 4}
    }
    objectives = [{"metric": "TTFT", "percentile": "50", "maxMilliseconds": 500}]
    spec = spec_body(
        workloads=[workload("chat", load=search, requests=8)], objectives=objectives
    )
    sent = requests(
        ttft_us=[20_000] * 8, e2el_us=[120_000] * 8, output_tokens=[11] * 8
    )
    good, far = (
        jobs.part(
            jobs.measured(
                n,
                f"chat/search-0{n + 1}/r1",
                load=load_at("Concurrency", users),
                probe=Probe(ends_search=False),
                requests=sent,
            )
        )
        for n, users in enumerate(["4", "64"])
    )
    judgement = judged(jobs.job(spec), [good, far])
    assert (
        judgement.refused_count,
        [row.load_point for row in judgement.results],
    ) == (
        1,
        ["chat/concurrency=4"],
    )


def test_a_record_without_an_envelope_is_left_out() -> None:
    whole = jobs.part(jobs.measured(0))
    bare = JobPart.of("record", whole.data, name="stage-0")
    judgement = judged(jobs.job(), [bare, jobs.part(jobs.measured(1))])
    assert judgement.refused_count == 1
    assert "the envelope of the record is missing" in judgement.refused[0]


def test_the_first_record_of_a_stage_stands() -> None:
    another = jobs.measured(
        0, requests=jobs.measured(0).requests.model_copy(update={"ttft_us": (1, 1)})
    )
    once = judged(jobs.job(), jobs.records())
    twice = judged(jobs.job(), [*jobs.records(), jobs.part(another)])
    assert once.results == twice.results


def packed(document: str) -> JobPart:
    data = gzip.compress(document.encode())
    digest = hashlib.sha256(data).hexdigest()
    changes = {"run_uid": UID, "stage_id": jobs.STAGES[0], "digest": digest}
    envelope = sealed_bytes(0, data, **changes).envelope
    return JobPart.of("record", data, name="stage-0", envelope=envelope)


def test_a_record_that_unfolds_is_rejected_before_it_is_parsed() -> None:
    bomb = packed('{"gaps":{"us":[' + "0," * 3_900_000 + "0]}}")
    assert len(bomb.data) < 8_000
    judgement = judged(jobs.job(), [bomb, jobs.part(jobs.measured(1))])
    assert (judgement.refused_count, judgement.measured_anything) == (1, True)


@pytest.mark.parametrize(
    "number", ["1e999", "-1e999", "NaN", "Infinity", "1e308", "1" + "0" * 400]
)
def test_a_number_of_a_record_that_nobody_can_reckon_with_is_rejected(
    number: str,
) -> None:
    whole = jobs.measured(0).model_dump(mode="json", by_alias=True)
    text = json.dumps(whole | {"scalars": {"duration": "HERE"}}).replace(
        '"HERE"', number
    )
    assert judged(jobs.job(), [packed(text)]).refused_count == 1


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(
            jobs.forged_timeline('"at":[1e999],"running":[1]'),
            id="1e999 as instant",
        ),
        pytest.param(
            jobs.forged_timeline('"at":[1000],"running":[1e999]'),
            id="1e999 as figure",
        ),
        pytest.param(
            jobs.forged_timeline('"at":[1000],"running":[NaN]'), id="not a number"
        ),
        pytest.param(
            jobs.timeline(
                sample(1000.5, running=1e308), sample(1001.5, running=1e308)
            ),
            id="1e308 twice",
        ),
        pytest.param(
            jobs.forged_timeline('"at":[1000],"running":[{}]'),
            id="an object as figure",
        ),
        pytest.param(jobs.forged_timeline('"at":5'), id="no list"),
        pytest.param(jobs.forged_timeline('"at":["x"]'), id="text as instant"),
        pytest.param(jobs.forged_timeline('"at":[[[]]]'), id="lists in lists"),
        pytest.param(
            JobPart.of("timeline", b"garbage", name="timeline-0"), id="garbage"
        ),
        pytest.param(JobPart.of("timeline", b"", name="timeline-0"), id="empty"),
        pytest.param(
            JobPart.of(
                "timeline", gzip.compress(b"[" * 100_000), name="timeline-0"
            ),
            id="deeply nested",
        ),
        pytest.param(jobs.baseline(b"{"), id="baseline cut short"),
        pytest.param(jobs.baseline([]), id="baseline that is no object"),
    ],
)
def test_what_cannot_be_read_is_rejected_and_the_rest_is_judged(
    forged: JobPart,
) -> None:
    judgement = judged(jobs.job(), [forged, *jobs.records()])
    assert (
        judgement.refused_count,
        [row.repeats for row in judgement.results],
    ) == (1, [1, 1])
    assert forged.head.name in judgement.refused[0]


def test_samples_of_a_role_that_there_is_not_are_left_out() -> None:
    forged = jobs.timeline(sample(1000.5, role="x" * 100))
    assert (
        judged(jobs.job(), [forged, *jobs.records()]).results
        == judged(jobs.job(), jobs.records()).results
    )


BASELINE = jobs.TWO_STAGES | {"baseline": {"name": "before"}}


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        pytest.param([], 0, id="there is none"),
        pytest.param(
            [jobs.baseline({"metadata": {"name": "before"}})],
            0,
            id="of another version",
        ),
        pytest.param(
            [jobs.baseline({"metadata": 5, "spec": [], "status": "x"})],
            0,
            id="nonsense",
        ),
        pytest.param([jobs.baseline(b"{")], 1, id="unreadable"),
    ],
)
def test_a_baseline_that_cannot_be_read_is_not_comparable(
    found: list[JobPart], refused: int
) -> None:
    judgement = judged(jobs.job(BASELINE), [*jobs.records(), *found])
    assert judgement.comparison is not None
    assert (judgement.comparison.outcome, judgement.comparison.gate) == (
        "NotComparable",
        "Inconclusive",
    )
    assert (judgement.not_regressed, judgement.not_regressed_reason) == (
        "Unknown",
        "Inconclusive",
    )
    assert judgement.refused_count == refused


@pytest.mark.parametrize("figure", [1e308, -1e308, 5e-324, 0.0])
def test_a_baseline_with_absurd_figures_ends_in_a_judgement(figure: float) -> None:
    ours = judged(jobs.job(), jobs.records()).model_dump(mode="json", by_alias=True)
    for row in ours["results"]:
        row |= {"verdict": "Valid", "repeats": 2}
        row["metrics"] = dict.fromkeys(row["metrics"], figure)
        row["repeatCvPercent"] = dict.fromkeys(
            ("mean_ttft_ms", "output_throughput"), figure
        )
    status = {
        "completionTime": "2026-01-01T00:00:00Z",
        "results": ours["results"],
        "client": ours["client"],
        "servers": [
            server.model_dump(mode="json", by_alias=True) for server in jobs.SERVERS
        ],
    }
    before = {
        "metadata": {"name": "before", "uid": "uid-before"},
        "spec": jobs.TWO_STAGES,
        "status": status,
    }
    judgement = judged(jobs.job(BASELINE), [*jobs.records(), jobs.baseline(before)])
    assert judgement.comparison is not None
    assert judgement.comparison.baseline.uid == "uid-before"


def before_and_document() -> tuple[Json, ResultDocument]:
    """Return a run whose status has no row left, and its result document."""
    _, packed = judge_job(jobs.job(), list(jobs.records()))
    document = open_result(packed)
    identity = document.run.model_copy(update={"uid": "uid-before"})
    status = {"completionTime": "2026-01-01T00:00:00Z", "results": []}
    body = {
        "metadata": {"name": "before", "uid": "uid-before"},
        "spec": jobs.TWO_STAGES,
        "status": status,
    }
    return body, document.model_copy(update={"run": identity})


def test_a_baseline_is_compared_by_its_document() -> None:
    body, document = before_and_document()
    parts = [
        jobs.baseline(body),
        jobs.baseline_document(packed_json(result_json(document))),
    ]
    compared, by_status = (
        judged(jobs.job(BASELINE), [*jobs.records(), *parts[:count]]).comparison
        for count in (2, 1)
    )
    assert compared is not None
    assert by_status is not None
    absent = "before has no results for this load point"
    assert [each.load_point for each in compared.load_points] == [
        row.load_point for row in document.results
    ]
    assert {each.reason for each in by_status.load_points} == {absent}
    assert absent not in {each.reason for each in compared.load_points}
    assert compared.baseline.digest != by_status.baseline.digest


def test_the_document_of_another_run_is_refused() -> None:
    body, document = before_and_document()
    identity = document.run.model_copy(update={"uid": "uid-other"})
    other = document.model_copy(update={"run": identity})
    judgement = judged(
        jobs.job(BASELINE),
        [
            *jobs.records(),
            jobs.baseline(body),
            jobs.baseline_document(packed_json(result_json(other))),
        ],
    )
    assert judgement.refused == [
        "baselineDocument before: the result document belongs to another run than the baseline"
    ]


def test_a_run_that_ended_early_is_compared_with_nothing() -> None:
    judgement = judged(
        jobs.job(BASELINE, ending={"reason": "ServerGone"}), jobs.records()
    )
    assert (judgement.comparison, judgement.not_regressed) == (None, None)


def test_refusals_are_counted_and_the_first_of_them_kept() -> None:
    judgement = judged(jobs.job(), [jobs.baseline(b"x" * n) for n in range(1, 100)])
    assert (judgement.refused_count, len(judgement.refused)) == (99, MAX_REFUSED)


def test_nothing_at_all_is_judged_too() -> None:
    judgement = judged(jobs.job(), [])
    assert (judgement.verdict, judgement.measured_anything, judgement.client) == (
        "Unknown",
        False,
        None,
    )
