"""Every finding carries the figure that decided and the line it crossed, so that a reader can redo
the judgement."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial

from benchrun.api import Verdict
from benchrun.judge.results import Judged, results
from benchrun.judge.rules.all_rules import (
    judge_load_point,
    judge_run,
    verdict_of_findings,
)
from benchrun.judge.rules.rule import (
    Code,
    LoadPointContext,
    RunContext,
    StageFacts,
    StageFinding,
)
from benchrun.judge.thresholds import (
    JUDGE_VERSION,
    Thresholds,
    judge_of,
    thresholds_of,
)
from benchrun_client.contract import START_TIME, StageRecord
from hypothesis import given, settings, strategies as st
from kit.every_case import every
from unit.judge.found import example_of
from unit.judge.queues import Server, closed_loop, open_loop
from unit.judge.specs import spec
from unit.measure.records import edge, load_point, record, requests


def test_what_was_not_checked_names_every_rule_and_why() -> None:
    evidence = example_of(Code.NOT_CHECKED).evidence
    assert set(evidence) <= set(Code)
    assert all(isinstance(why, str) and len(why) > 10 for why in evidence.values())


# The lines that rules draw: what the spec sets, and a digest that tells two judgements apart.


def test_the_spec_sets_the_share_of_failed_requests() -> None:
    assert thresholds_of(spec(validity={"maxFailedPercent": "2.5"})) == Thresholds(
        max_failed_percent=2.5
    )


def test_a_spec_that_sets_nothing_gets_the_defaults() -> None:
    assert thresholds_of(spec()) == Thresholds()


@every("name", [field.name for field in fields(Thresholds)])
def test_every_number_is_in_the_digest(name: str) -> None:
    assert replace(Thresholds(), **{name: 77.0}).digest() != Thresholds().digest()


def test_equal_numbers_have_equal_digests() -> None:
    assert Thresholds(max_failed_percent=1.0).digest() == Thresholds().digest()


def test_the_status_names_version_and_digest() -> None:
    judge = judge_of(spec())
    assert (judge.version, judge.thresholds_digest) == (
        JUDGE_VERSION,
        f"sha256:{Thresholds().digest()}",
    )


# Clean stages draw no suspicion, over loads of every kind, from idle to nearly full.
#
# The queue is simulated, the seeds are fixed: these are measurements of the rules, not of luck.
# Stages are as long as WindowTooShort wants them, and each is one of four repeats of a load point, which
# is judged as a run of its own.

REPEATS = 4
SERVERS = (
    Server(slots=1, prefill_seconds=0.02, decode_seconds=0.2),
    Server(slots=8, prefill_seconds=0.01),
    Server(slots=8, prefill_seconds=0.01, lengths_vary=True),
    Server(slots=64, prefill_seconds=0.005),
    Server(slots=64, prefill_seconds=0.005, lengths_vary=True),
)
LOADS = (0.3, 0.6, 0.8, 0.9)
"""Shares of the capacity."""
USERS = (1, 4, 16, 48)
ROUNDS = 2


_Measure = Callable[..., StageFacts]
"""A clean stage, given a seed."""


def measures() -> Iterator[tuple[str, _Measure]]:
    """Every server under every load, long enough for ten seconds and for ten times what is under
    way."""
    for place, server in enumerate(SERVERS):
        for share in LOADS:
            rate = share * server.capacity
            count = round(max(150, 14 * rate, 16 * min(server.slots, rate * 1.1)))
            yield (
                f"{place}/{share:g}",
                partial(open_loop, server, rate=rate, count=count),
            )
        for users in USERS:
            count = round(
                max(
                    40,
                    12 * users,
                    14 * min(users, server.slots) / server.decode_seconds,
                )
            )
            yield (
                f"{place}/{users}",
                partial(closed_loop, server, concurrency=users, count=count),
            )


def measured_load_point(
    value: str, measure: _Measure, *, seed: int
) -> LoadPointContext:
    point = load_point(repeats=REPEATS)
    ids = tuple(f"chat/{value}/r{repeat}" for repeat in range(1, REPEATS + 1))
    planned = replace(point, id=f"chat/{value}", stage_ids=ids)
    stages = []
    for place, stage_id in enumerate(planned.stage_ids):
        stage = measure(seed=seed + place)
        stages.append(
            replace(
                stage,
                record=stage.record.model_copy(
                    update={"stage_id": stage_id, "sequence": place}
                ),
            )
        )
    return LoadPointContext(
        planned, Thresholds(), stages[0].expected, ("50",), tuple(stages)
    )


def found_in_round(number: int) -> Iterator[StageFinding]:
    """What is found in forty load points."""
    for place, (value, measure) in enumerate(measures()):
        context = measured_load_point(
            value, measure, seed=100_000 * number + 100 * place
        )
        yield from judge_load_point(context)
        yield from judge_run(
            RunContext(Thresholds(), {context.load_point.id: context.summary()})
        )


def test_clean_stages_draw_no_suspicion() -> None:
    """Of stages and load points together: at most one in a hundred stages, and nothing Invalid."""
    found = [
        finding for number in range(ROUNDS) for finding in found_in_round(number)
    ]
    stages = ROUNDS * REPEATS * len(list(measures()))
    suspicions = Counter(
        (f.code, f.severity) for f in found if f.severity != "Note"
    )
    assert stages == 320
    assert sum(suspicions.values()) <= stages / 100, suspicions
    assert not [f for f in found if f.severity == "Invalid"]
    # They only say what could not be checked, or is too short.
    notes = {f.code for f in found if f.severity == "Note"}
    assert notes <= {Code.NOT_CHECKED, Code.TOO_FEW_SAMPLES}


# Judging has no surprises: order does not matter, and worse input never has a better verdict.

RANK: dict[Verdict, int] = {"Unknown": -1, "Valid": 0, "Suspect": 1, "Invalid": 2}
LOAD_POINTS = [load_point(value=value, repeats=2) for value in ("1", "2", "inf")]
STAGES = [stage for each in LOAD_POINTS for stage in each.stage_ids]
FEW_RECORDS = settings(max_examples=25)
"""Every example is a run that is judged, twice in most tests."""
FINDINGS = st.lists(
    st.builds(
        StageFinding,
        code=st.sampled_from(Code),
        severity=st.sampled_from(["Note", "Suspect", "Invalid"]),
        stage_id=st.sampled_from(STAGES),
    ),
    max_size=8,
)


def judge(records: Sequence[StageRecord]) -> Judged:
    return results(LOAD_POINTS, records, [], spec=spec())


@st.composite
def measured(draw: st.DrawFn) -> list[StageRecord]:
    """Some of the stages, good and bad ones."""
    found = []
    for stage in draw(st.lists(st.sampled_from(STAGES), unique=True, min_size=1)):
        hits = float(draw(st.integers(0, 30)))
        servers = (
            edge(
                rises={
                    "prefix_cache_hits_total": hits,
                    "prefix_cache_queries_total": 100.0,
                }
            ),
            *([edge("b", after={START_TIME: 5.0})] if draw(st.booleans()) else []),
        )
        ok = draw(st.sampled_from([(1, 1), (1, 0), (0, 0)]))
        found.append(record(stage, requests=requests(ok=ok), servers=servers))
    return found


@FEW_RECORDS
@given(measured(), st.data())
def test_the_order_of_records_does_not_matter(
    records: list[StageRecord], data: st.DataObject
) -> None:
    assert judge(data.draw(st.permutations(records))) == judge(records)


@FEW_RECORDS
@given(measured())
def test_a_row_tells_the_codes_of_the_findings_and_no_others(
    records: list[StageRecord],
) -> None:
    judged = judge(records)
    assert {code for row in judged.results for code in row.findings} == {
        finding.code for finding in judged.findings
    }


@FEW_RECORDS
@given(measured())
def test_losing_a_record_never_makes_a_load_point_better(
    records: list[StageRecord],
) -> None:
    whole = {row.load_point: row.verdict for row in judge(records).results}
    for row in judge(records[1:]).results:
        assert RANK[row.verdict] >= RANK[whole[row.load_point]]


@given(FINDINGS, FINDINGS)
def test_one_finding_more_never_makes_a_verdict_better(
    few: list[StageFinding], more: list[StageFinding]
) -> None:
    assert RANK[verdict_of_findings(few + more)] >= RANK[verdict_of_findings(few)]


@FEW_RECORDS
@given(st.integers(0, 100), st.integers(0, 100))
def test_more_hits_never_make_a_verdict_better(one: int, other: int) -> None:
    def verdict(hits: int) -> Verdict:
        rises = {
            "prefix_cache_hits_total": float(hits),
            "prefix_cache_queries_total": 100.0,
        }
        return judge(
            [record(stage, servers=(edge(rises=rises),)) for stage in STAGES]
        ).verdict

    assert RANK[verdict(max(one, other))] >= RANK[verdict(min(one, other))]


@FEW_RECORDS
@given(st.integers(1, 60), st.data())
def test_more_failures_never_make_a_verdict_better(
    sent: int, data: st.DataObject
) -> None:
    def verdict(failed: int) -> Verdict:
        columns = requests(
            ttft_us=[1] * sent,
            e2el_us=[2] * sent,
            output_tokens=[3] * sent,
            ok=[0] * failed + [1] * (sent - failed),
        )
        return judge([record(stage, requests=columns) for stage in STAGES]).verdict

    one = data.draw(st.integers(0, sent))
    other = data.draw(st.integers(0, sent))
    assert RANK[verdict(max(one, other))] >= RANK[verdict(min(one, other))]
