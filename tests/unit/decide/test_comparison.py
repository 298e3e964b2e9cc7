"""A run with a baseline: a regression is a condition of its own, and takes nothing from the
measurement."""

from collections.abc import Sequence
from typing import Any

import pytest
from benchrun.api import BenchmarkRunStatus, ConditionType, find_condition
from benchrun.judge import judged_run
from benchrun.judge.comparison.comparability import measured_run, results_digest
from benchrun.observe import Run
from benchrun.report.exit_codes import exit_code
from unit.decide.scenes import TWO_STAGES, Scene
from unit.decide.summaries import standing
from unit.golden_messages import golden
from unit.measure.records import requests
from unit.plan.specs import Json

BASELINE = {"name": "before", "maxRegressionPercent": "5", "metrics": ["MeanTTFT"]}
ENOUGH = {**BASELINE, "oneServerIsEnough": True}
ROW: tuple[ConditionType, ...] = (
    "Complete",
    "Succeeded",
    "Valid",
    "Ready",
    "Stalled",
)


def a_run(
    name: str = "before", *, ttft_ms: float | None = None, **changes: Any
) -> Run:
    """The same measured before, with another mean TTFT if so told."""
    scene = Scene().with_spec(repeats=2).measuring().arrived(0, 1, 2, 3)
    status = scene.ended().status.model_dump(mode="json", by_alias=True)
    for row in status["results"]:
        if ttft_ms is not None:
            row["metrics"]["mean_ttft_ms"] = row["steady"]["mean_ttft_ms"] = ttft_ms
    spec = {**TWO_STAGES, "repeats": 2}
    return Run(
        "lab", name, f"uid-{name}", 1, **{"spec": spec, "status": status, **changes}
    )


def ended(
    before: Run | None,
    *,
    baseline: Json = BASELINE,
    objectives: Sequence[Json] = (),
    **measured: Any,
) -> BenchmarkRunStatus:
    """The last status, once the baseline was looked up."""
    scene = Scene().with_spec(
        baseline=baseline, repeats=2, objectives=list(objectives)
    )
    return scene.measuring().arrived(0, 1, 2, 3, **measured).ended(before).status


def message(status: BenchmarkRunStatus) -> str:
    assert status.comparison is not None
    return status.comparison.message


def test_a_run_without_a_baseline_compares_nothing() -> None:
    status = Scene().measuring().arrived(0, 1).ended().status
    assert status.comparison is None
    assert standing(status, "NotRegressed") == {"NotRegressed": "absent"}


def test_what_a_status_has_no_room_for_is_compared_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = a_run()
    monkeypatch.setattr(judged_run, "MAX_BYTES", 0)
    status = ended(before)
    assert status.results == []
    assert standing(status, "NotRegressed") == {
        "NotRegressed": "Unknown (OneServerASide)"
    }


@pytest.mark.parametrize("end", [{"cancel": True}, {"runDeadlineSeconds": 1}])
def test_a_run_that_ended_early_is_compared_with_nothing(
    end: dict[str, Any],
) -> None:
    scene = (
        Scene()
        .with_spec(baseline=BASELINE, repeats=2, **end)
        .measuring()
        .arrived(0, 1, 2)
        .at(10_000)
    )
    assert scene.ended(a_run()).status.comparison is None


def test_what_it_was_compared_with_stays_to_be_seen() -> None:
    before = a_run()
    comparison = ended(before).comparison
    assert comparison is not None
    assert (comparison.baseline.name, comparison.baseline.uid) == (
        "before",
        "uid-before",
    )
    assert comparison.baseline.digest == results_digest(measured_run(before))
    assert (comparison.scope, comparison.outcome, comparison.gate) == (
        "WithinOneServer",
        "Equivalent",
        "NotRegressedHere",
    )
    assert comparison.detectable_percent is not None
    assert 0 < comparison.detectable_percent < 0.1
    assert [
        (load_point.load_point, load_point.paired)
        for load_point in comparison.load_points
    ] == [
        ("chat/rate=1", True),
        ("chat/rate=4", True),
    ]


def test_servers_that_were_not_alike_are_told_before_the_outcome_and_found() -> (
    None
):
    alike = ended(a_run())
    other: Any = a_run().status
    other["servers"][0] |= {"engine": "SGLang"}
    status = ended(a_run(status=other))
    codes = [each.code for each in status.findings]
    assert "EnginesUnequal" in codes
    assert "EnginesUnequal" not in [each.code for each in alike.findings]
    assert status.verdict == alike.verdict
    assert message(status).startswith(
        "The engines differ: SGLang in before, vLLM in "
    )
    assert status.comparison is not None
    told = {each.setting: each.word for each in status.comparison.settings}
    assert told["engine"] == "Differs"
    assert "Same" not in told.values(), "these are in the document"


@pytest.mark.parametrize(
    ("condition", "code", "answer", "before"),
    [
        pytest.param(
            "Unknown (OneServerASide)", 6, "Undecided", a_run(), id="the same"
        ),
        pytest.param(
            "Unknown (OneServerASide)",
            6,
            "Undecided",
            a_run(ttft_ms=40.0),
            id="better",
        ),
        pytest.param(
            "False (RegressedHere)",
            3,
            "RegressedHere",
            a_run(ttft_ms=15.0),
            id="worse",
        ),
        pytest.param(
            "Unknown (Inconclusive)",
            6,
            "Undecided",
            None,
            id="there is no baseline",
        ),
    ],
)
def test_condition_and_exit_code(
    condition: str, code: int, answer: str, before: Run | None
) -> None:
    """A regression is a result: the run is measured, valid and ready all the same."""
    status = ended(before)
    assert standing(status, "NotRegressed") == {"NotRegressed": condition}
    assert status.answer == answer
    assert [text.split()[0] for text in standing(status, *ROW).values()] == [
        "True",
        "True",
        "True",
        "True",
        "False",
    ]
    assert (status.phase, exit_code(status)) == ("Completed", code)


@pytest.mark.parametrize(
    ("condition", "code", "answer", "before"),
    [
        pytest.param(
            "True (NotRegressedHere)", 0, "NotRegressedHere", a_run(), id="the same"
        ),
        pytest.param(
            "False (RegressedHere)",
            3,
            "RegressedHere",
            a_run(ttft_ms=15.0),
            id="worse",
        ),
        pytest.param(
            "Unknown (Inconclusive)",
            6,
            "Undecided",
            None,
            id="there is no baseline",
        ),
    ],
)
def test_one_server_a_side_is_enough_if_the_spec_says_so(
    condition: str, code: int, answer: str, before: Run | None
) -> None:
    status = ended(before, baseline=ENOUGH)
    assert standing(status, "NotRegressed") == {"NotRegressed": condition}
    assert (exit_code(status), status.answer) == (code, answer)


SLOW = {"metric": "TTFT", "percentile": "99", "maxMilliseconds": 1}
EASY = {"metric": "TTFT", "percentile": "50", "maxMilliseconds": 1000}


@pytest.mark.parametrize(
    ("answer", "objectives", "before", "baseline"),
    [
        ("Undecided, RegressedHere", [SLOW], a_run(ttft_ms=15.0), BASELINE),
        ("Undecided", [SLOW], a_run(), BASELINE),
        ("Undecided", [EASY], a_run(), BASELINE),
        ("Undecided, NotRegressedHere", [EASY], a_run(), ENOUGH),
    ],
    ids=["regressed", "one-server", "undecided", "enough"],
)
def test_the_answers_come_first(
    answer: str, objectives: list[Json], before: Run, baseline: Json
) -> None:
    """In the column, in the messages of status and conditions, and in the event."""
    status = ended(before, baseline=baseline, objectives=objectives)
    assert status.answer == answer
    for condition in ("ObjectivesMet", "NotRegressed", "Complete"):
        found = find_condition(status.conditions, condition)
        golden(found.message if found is not None else None)


def test_the_event_is_the_message() -> None:
    scene = (
        Scene()
        .with_spec(baseline=BASELINE, repeats=2)
        .measuring()
        .arrived(0, 1, 2, 3)
    )
    decision = scene.ended(a_run(ttft_ms=15.0))
    (event,) = decision.events
    assert event.message == decision.status.message
    assert event.message.startswith(
        "regressed on these two servers: MeanTTFT at chat/rate="
    )


def test_a_run_that_was_not_measured_to_its_end_has_no_answer() -> None:
    scene = Scene().with_spec(baseline=BASELINE, objectives=[SLOW])
    assert scene.measuring().decide().status.answer is None
    assert (
        scene.with_spec(cancel=True)
        .measuring()
        .arrived(0)
        .ended(a_run())
        .status.answer
        is None
    )


@pytest.mark.parametrize(
    ("reason", "before"),
    [
        pytest.param(
            "spec.baseline.name: no run before exists in the namespace",
            None,
            id="no such run",
        ),
        pytest.param(
            "before has not finished", a_run(status={}), id="still measuring"
        ),
        pytest.param(
            "before was written by another version of benchrun",
            a_run(spec={"what": 1}),
            id="unreadable",
        ),
        pytest.param(
            "model: Qwen/Qwen3-8B in before, Qwen/Qwen3-4B in qwen",
            a_run(spec={**TWO_STAGES, "model": {"name": "Qwen/Qwen3-8B"}}),
            id="model",
        ),
    ],
)
def test_a_baseline_that_reports_nothing_is_not_a_regression(
    reason: str, before: Run | None
) -> None:
    status = ended(before)
    assert status.comparison is not None
    assert status.comparison.outcome == "NotComparable"
    assert reason in message(status)
    assert standing(status, "NotRegressed") == {
        "NotRegressed": "Unknown (Inconclusive)"
    }


def test_a_run_is_not_its_own_baseline() -> None:
    itself = Run(
        "lab", "qwen", Scene().facts().run.uid, 1, spec=dict(TWO_STAGES), status={}
    )
    assert "named twice" in message(ended(itself))


def test_a_load_point_with_failed_requests_can_pass_no_gate() -> None:
    status = ended(a_run(), requests=requests(ok=(1, 0)))
    assert "Invalid in qwen" in message(status)
    assert standing(status, "NotRegressed") == {
        "NotRegressed": "Unknown (Inconclusive)"
    }
    assert exit_code(status) == 4


@pytest.mark.parametrize("scene", [Scene(), Scene().measuring()])
def test_the_condition_is_there_from_the_first_pass_on(scene: Scene) -> None:
    status = scene.with_spec(baseline=BASELINE).decide().status
    assert standing(status, "NotRegressed")["NotRegressed"].startswith("Unknown")
    found = find_condition(status.conditions, "NotRegressed")
    assert found is not None
    assert "one value a side does not show the noise" in found.message
    # A percentile takes several servers: it is asked of no pair of runs.
    asked = {**BASELINE, "metrics": ["MeanTTFT", "P99TTFT"]}
    repeated = scene.with_spec(baseline=asked, repeats=5).decide().status
    found = find_condition(repeated.conditions, "NotRegressed")
    assert found is not None
    assert (
        "5 repeats a side and 2 figures detect a change of 3.7 % in one figure with 80 % "
        "probability" in found.message
    )


def test_the_load_generator_is_shown() -> None:
    client = ended(a_run()).client
    assert client is not None
    assert (client.engine, client.engine_version) == ("vllm", "0.32.0")
