"""What is exported, what is left out and why, and the order of it all."""

from datetime import UTC, datetime

import pytest
from benchrun.api import BenchmarkRunSpec, BenchmarkRunStatus
from benchrun.report.export.csv_parquet import request_table
from benchrun.report.export.formats import (
    engine_figures,
    only,
    server_version,
    trusted,
)
from benchrun_client.contract import Probe
from unit.measure.records import edge, load_at
from unit.report.export.runs import (
    CAPPED,
    CHAT,
    CHAT_AGAIN,
    FIRST,
    LOAD_POINTS,
    STAGES,
    failing,
    measured,
    row,
    run,
    spec,
    stage,
    status,
)


def test_stages_stand_in_order_of_measurement_and_load_points_by_repeat() -> None:
    whole = run()
    assert [each.id for each in whole.stages] == list(STAGES)
    assert [
        (load_point, [each.repeat for each in stages])
        for load_point, stages in whole.load_points()
    ] == [
        (LOAD_POINTS[0], [1, 2]),
        (LOAD_POINTS[1], [1]),
        (LOAD_POINTS[2], [1]),
    ]


def test_a_stage_tells_its_place_its_load_and_its_time() -> None:
    capped = stage(CAPPED)
    assert (capped.load_point, capped.repeat, capped.workload.name) == (
        LOAD_POINTS[1],
        1,
        "capped",
    )
    assert (capped.request_rate, capped.max_concurrency) == (40.0, 2)
    assert (stage(CHAT).request_rate, stage(CHAT).max_concurrency) == (None, 4)
    assert stage(CHAT).began == datetime(2027, 1, 15, 8, 0, 0, 250_000, tzinfo=UTC)
    assert (stage(CHAT).ended - stage(CHAT).began).total_seconds() == 2.5


@pytest.mark.parametrize(
    ("verdict", "kept"),
    [("Valid", True), ("Suspect", True), ("Invalid", False), ("Unknown", False)],
)
def test_untrusted_figures_are_left_out(verdict: str, kept: bool) -> None:
    rows = [row(LOAD_POINTS[0], verdict), row(LOAD_POINTS[1]), row(LOAD_POINTS[2])]  # type: ignore[arg-type]
    left_run, left_out = trusted(run(of_status=status(rows)))
    assert (CHAT in {each.id for each in left_run.stages}) is kept
    assert (LOAD_POINTS[0] in left_out) is not kept


def test_the_reason_of_what_is_left_out_names_its_findings() -> None:
    rows = [
        row(
            LOAD_POINTS[0], "Invalid", ["PrefixCacheContaminated", "TooFewSamples"]
        ),
        row(LOAD_POINTS[1]),
    ]
    kept, left_out = trusted(run(of_status=status(rows)))
    assert left_out == {
        LOAD_POINTS[0]: "Invalid (PrefixCacheContaminated, TooFewSamples)",
        LOAD_POINTS[2]: "not judged",
    }
    assert [each.id for each in kept.stages] == [CAPPED]


def test_only_requested_stages_are_exported() -> None:
    assert [each.id for each in only(run(), [CHAT_AGAIN, FIRST]).stages] == [
        FIRST,
        CHAT_AGAIN,
    ]


def test_a_record_of_no_workload_of_the_spec_is_passed_over() -> None:
    stranger = measured(CHAT).model_copy(update={"stage_id": "other/rate=1/r1"})
    assert run(stranger).stages == ()


def test_a_latency_that_was_not_measured_has_no_distribution() -> None:
    assert set(stage(CHAT).latencies) == {"ttft", "tpot", "itl", "e2el"}
    assert set(stage(FIRST).latencies) == {"ttft", "e2el"}
    assert run(failing(CHAT, failed=24)).stages[0].latencies == {}


def test_a_stage_of_a_search_belongs_to_the_load_that_was_tried() -> None:
    search = {"search": {"axis": "Concurrency", "from": "1", "to": "64"}}
    limits = [{"metric": "TTFT", "percentile": "50", "maxMilliseconds": 500}]
    body = spec().model_dump(mode="json", by_alias=True, exclude_none=True)
    body |= {
        "workloads": [{**body["workloads"][0], "load": search}],
        "objectives": limits,
        "repeats": 1,
    }
    tried = [
        measured(CHAT).model_copy(
            update={
                "stage_id": f"chat/search-01/r{repeat}",
                "load": load_at("Concurrency", "4"),
                "probe": Probe(ends_search=repeat == 2),
            }
        )
        for repeat in (1, 2)
    ]
    whole = run(
        *tried,
        of_spec=BenchmarkRunSpec.model_validate(body),
        of_status=status([row(LOAD_POINTS[0], "Suspect")]),
    )
    assert [
        (each.id, each.load_point, each.repeat, each.verdict)
        for each in whole.stages
    ] == [
        ("chat/search-01/r1", "chat/concurrency=4", 1, "Suspect"),
        ("chat/search-01/r2", "chat/concurrency=4", 2, "Suspect"),
    ]


@pytest.mark.parametrize(
    ("reported", "in_status", "version"),
    [
        pytest.param(
            ("0.33.0",),
            "0.32.0",
            "0.33.0",
            id="the-server-itself-before-the-status",
        ),
        pytest.param((None,), "0.32.0", "0.32.0", id="else-the-status"),
        pytest.param(
            (None, "0.33.0"), None, "0.33.0", id="any-server-that-says-it"
        ),
        pytest.param((None,), None, None, id="nobody"),
        pytest.param((), "0.32.0", "0.32.0", id="no-servers"),
    ],
)
def test_the_version_is_what_the_server_said_of_itself(
    reported: tuple[str | None, ...], in_status: str | None, version: str | None
) -> None:
    edges = tuple(edge().model_copy(update={"version": each}) for each in reported)
    whole = run(measured(CHAT, servers=edges), of_status=status(version=in_status))
    assert server_version(whole.stages[0], whole.server) == version


def test_without_a_server_in_the_status_there_is_none() -> None:
    whole = run(of_status=BenchmarkRunStatus())
    assert whole.server is None
    assert {each.verdict for each in whole.stages} == {"Unknown"}
    assert trusted(whole)[1] == dict.fromkeys(LOAD_POINTS, "not judged")


def test_a_run_with_no_stage_left_has_no_load_points() -> None:
    assert only(run(), []).stages == ()
    assert list(only(run(), []).load_points()) == []


def test_a_load_point_stands_where_its_first_stage_does_whatever_comes_between() -> (
    None
):
    order = (CAPPED, CHAT_AGAIN, FIRST, CHAT)
    late = run(*(measured(each, sequence=n) for n, each in enumerate(order)))
    assert [
        (load_point, [each.id for each in stages])
        for load_point, stages in late.load_points()
    ] == [
        (LOAD_POINTS[1], [CAPPED]),
        (LOAD_POINTS[0], [CHAT, CHAT_AGAIN]),
        (LOAD_POINTS[2], [FIRST]),
    ]


def test_a_stage_without_a_limit_says_none() -> None:
    scalars = {
        name: value
        for name, value in measured(CHAT).scalars.items()
        if name != "max_concurrency"
    }
    (free,) = run(measured(CHAT, scalars=scalars)).stages
    assert (free.max_concurrency, free.request_rate) == (None, None)
    assert type(stage(CHAT).max_concurrency) is int, "the engine says 4.0"


def test_an_instant_keeps_its_microseconds() -> None:
    (odd,) = run(
        measured(
            CHAT,
            first_send_unix_us=1_800_000_000_000_001,
            last_receive_unix_us=1_800_000_001_999_999,
        )
    ).stages
    assert (odd.began.microsecond, odd.ended.microsecond) == (1, 999_999)


def test_the_engines_zeros_for_what_was_not_measured_are_not_passed_on() -> None:
    (gone,) = run(failing(CHAT, failed=24)).stages
    figures = engine_figures(gone)
    assert {value for name, value in figures.items() if name.endswith("_ms")} == {
        None
    }
    assert (
        figures["total_input_tokens"]
        == measured(CHAT).scalars["total_input_tokens"]
    )
    assert figures.keys() == measured(CHAT).scalars.keys()


def test_a_request_table_of_a_mixed_stage() -> None:
    table = request_table(run(failing(CHAT, failed=23)))
    ok = [
        values[[column.name for column in table.columns].index("ok")]
        for values in table.rows
    ]
    assert ok == [True] + [False] * 23
