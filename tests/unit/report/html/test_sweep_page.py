"""The page of a sweep."""

import re
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import yaml
from benchrun.api.sweep import MAX_NAME, BenchmarkSweepSpec, BenchmarkSweepStatus
from benchrun.cli.html_page import draw
from benchrun.observe import Sweep, untrusted_json as raw
from benchrun.report.html import FactList, ReportedSweep, Section, Verdict
from benchrun.report.html.sections.comparison import (
    MAX_DRAWN_LOAD_POINTS,
    Point,
    changes_section,
    front_chart,
    front_section,
)
from benchrun.report.html.sections.provenance import (
    manifest,
    sweep_provenance_section,
)
from benchrun.report.html.sections.results import (
    sweep_limits_section,
    sweep_results_section,
)
from benchrun.report.html.sections.verdict import HOLES, sweep_verdict_section
from unit.plan.specs import concurrencies, spec_body, workload
from unit.report.finished_sweeps import Measured, batches, finished_sweep
from unit.report.html.reported_runs import charts_of, data_of, prose_of, tables_of
from unit.report.html.reported_sweeps import hostile, page_of, several
from unit.report.html.test_page import ALLOWED, Elements

SECTIONS = [
    "verdict",
    "best",
    "front",
    "results",
    "changes",
    "limits",
    "provenance",
    "repeat",
]


def facts_of(section: Section) -> FactList:
    return next(each for each in section.elements if isinstance(each, FactList))


def made(section: Section | None) -> Section:
    assert section is not None
    return section


def with_status(sweep: ReportedSweep, **changes: Any) -> ReportedSweep:
    return replace(sweep, status=sweep.status.model_copy(update=changes))


# ---- the page
# --------------------------------------------------------------------------------------------------------


def test_sections_come_in_the_order_in_which_they_are_read() -> None:
    page = page_of(batches().reported)
    assert re.findall(r'<section id="([a-z]+)"', page) == SECTIONS
    assert re.findall(r'<li><a href="#([a-z]+)">', page) == SECTIONS


@cache
def drawn() -> str:
    """The page of several variants with its charts, which take a second to draw."""
    return page_of(several(), draw)


def test_the_same_sweep_gives_the_same_page() -> None:
    assert page_of(several(), draw) == drawn()


def test_nothing_is_fetched_and_nothing_runs() -> None:
    for tag, attributes in Elements(drawn()).found:
        assert tag in ALLOWED
        assert not any(
            name.startswith("on") or name in ("src", "srcset", "style", "action")
            for name in attributes
        )
        assert (attributes.get("href") or "#").startswith("#")


def test_strings_of_others_stay_strings() -> None:
    page = page_of(hostile(), draw)
    elements = Elements(page)
    assert {tag for tag, _ in elements.found} <= ALLOWED
    assert elements.open == []
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_headings_do_not_leave_out_a_level() -> None:
    levels = [
        int(tag[1])
        for tag, _ in Elements(page_of(several())).found
        if re.fullmatch(r"h[1-6]", tag)
    ]
    assert levels[0] == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


@pytest.mark.parametrize(
    "sweep",
    [
        pytest.param(
            ReportedSweep(Sweep("lab", "s", "u", 1), BenchmarkSweepStatus()),
            id="nothing is known",
        ),
        pytest.param(
            finished_sweep({"base": None, "wide": None}).reported,
            id="nothing was measured",
        ),
        pytest.param(
            finished_sweep({"base": Measured(), "wide": None}).reported,
            id="one was measured",
        ),
        pytest.param(
            finished_sweep({"base": Measured(verdict="Invalid")}).reported,
            id="what was measured is invalid",
        ),
    ],
)
def test_however_little_there_is_it_makes_a_page(sweep: ReportedSweep) -> None:
    page = page_of(sweep, draw)
    assert {"verdict", "results", "provenance", "repeat"} <= set(
        re.findall(r'<section id="([a-z]+)"', page)
    )
    assert Elements(page).open == []


# ---- verdict
# ---------------------------------------------------------------------------------------------------------


def test_the_verdict_comes_first_and_names_the_best() -> None:
    section = sweep_verdict_section(several())
    first = section.elements[0]
    facts = facts_of(section)
    assert isinstance(first, Verdict)
    assert (first.word, first.meaning.endswith(HOLES)) == ("Suspect", True)
    assert (
        dict(facts.pairs)["Most throughput per GPU"]
        == "everything at chat/concurrency=64"
    )
    assert dict(facts.pairs)["Runs"] == "15 measured, 3 failed"


def test_without_gpus_the_most_throughput_is_that_of_a_server() -> None:
    sweep = several()
    variants = [
        each.model_copy(update={"gpus": 0}) for each in sweep.status.variants
    ]
    facts = facts_of(sweep_verdict_section(with_status(sweep, variants=variants)))
    assert (
        dict(facts.pairs)["Most throughput"] == "everything at chat/concurrency=64"
    )


def test_a_best_that_is_not_certain_is_no_fact() -> None:
    sweep = several()
    none = [
        each.model_copy(update={"variant": None, "load_point": None})
        for each in sweep.status.best
    ]
    facts = facts_of(sweep_verdict_section(with_status(sweep, best=none)))
    assert not any(name.startswith("Most throughput") for name, _ in facts.pairs)


def test_the_best_of_many_workloads_stand_in_their_table_alone() -> None:
    sweep = several()
    [best] = [each for each in sweep.status.best if each.objective == "throughput"]
    many = [
        best.model_copy(update={"workload": f"w{number}"}) for number in range(5)
    ]
    for status, shown in ((many[:4], 4), (many, 0)):
        given = replace(
            sweep, status=sweep.status.model_copy(update={"best": status})
        )
        facts = facts_of(sweep_verdict_section(given))
        assert (
            sum(name.startswith("Most throughput") for name, _ in facts.pairs)
            == shown
        )


def test_each_variant_has_a_row_with_its_outcome_and_why_it_failed() -> None:
    [table] = tables_of(sweep_verdict_section(several()))
    rows = {row[0]: row for row in table.rows.rows}
    assert (rows["baseline"][1], rows["prefix-caching"][1], rows["eager"][1]) == (
        "baseline",
        "Better",
        "Worse",
    )
    assert rows["chunked-8192"][1] == "not detected"
    assert (
        rows["long-context-with-a-long-name"][-1]
        == "OutOfGPUMemory in seqs-v6-r1: CUDA out of memory"
    )


def test_how_it_ended_comes_before_what_was_measured() -> None:
    [first, *_] = sweep_verdict_section(
        with_status(several(), phase="Cancelled")
    ).elements
    assert isinstance(first, Verdict)
    assert first.word == "Cancelled"


# ---- front
# -----------------------------------------------------------------------------------------------------------


def test_every_load_point_is_a_point_and_those_of_the_front_stand_out() -> None:
    [chart] = charts_of(made(front_section(several())))
    points = {
        row["text"]: row["on_front"] for row in data_of(chart.spec) if "text" in row
    }
    assert len(points) == 10, "five variants were measured at two load points"
    front = {label.split(":")[0] for label, on_front in points.items() if on_front}
    assert front == {
        f"{point.variant} at {point.load_point}" for point in several().status.front
    }
    assert "eager at chat/concurrency=16" not in front


def test_an_invalid_row_is_no_point() -> None:
    fast = Measured({"OutputThroughput": 9e9}, verdict="Invalid")
    found = finished_sweep(
        {"base": Measured(), "slow": Measured({"MeanTPOT": 20.0}), "wide": fast}
    ).reported
    [chart] = charts_of(made(front_section(found)))
    assert {row["variant"] for row in data_of(chart.spec) if "text" in row} == {
        "base",
        "slow",
    }


def test_a_single_point_is_reported_and_not_drawn() -> None:
    section = made(front_section(finished_sweep({"base": Measured()}).reported))
    assert charts_of(section) == []
    assert len(tables_of(section)[0].rows.rows) == 1


@pytest.mark.parametrize(
    ("tpots", "noise", "least"),
    [
        pytest.param((9.9971, 9.9994, 10.0), 0.0, 1.0, id="a tenth of its value"),
        pytest.param((9.9971, 9.9994, 10.0), 0.5, 4.9, id="its noise"),
        pytest.param(
            (5.0, 15.0), 0.5, None, id="its values, which are farther apart"
        ),
    ],
)
def test_the_axis_of_tpot_is_not_narrower_than_its_noise(
    tpots: tuple[float, ...], noise: float, least: float | None
) -> None:
    points = [Point(f"v{n}", tpot, 1.0, n == 0, "") for n, tpot in enumerate(tpots)]
    spec = front_chart(points, unit="tokens/s", tpot_noise=noise)
    scale, *others = scales_of(spec, "tpot_ms")
    assert all(other == scale for other in others)
    if least is None:
        assert "domain" not in scale
    else:
        low, high = scale["domain"]
        assert low < min(tpots) <= max(tpots) < high
        assert least == pytest.approx(high - low, rel=0.03)


def scales_of(spec: Any, field: str) -> list[Any]:
    """The scales of a field, wherever it stands."""
    found = (
        [spec["scale"]] if spec.get("field") == field and "scale" in spec else []
    )
    parts = [
        each
        for value in spec.values()
        for each in (value if isinstance(value, list) else [value])
    ]
    return found + [
        s
        for part in parts
        if isinstance(part, dict)
        for s in scales_of(part, field)
    ]


@pytest.mark.parametrize(
    ("ends", "share"), [((-20.0, 20.0), 0.4), ((-90.0, 900.0), 1.0)]
)
def test_the_noise_of_tpot_is_that_of_its_changes(
    ends: tuple[float, float], share: float
) -> None:
    measured = {"base": Measured(), "wide": Measured({"OutputThroughput": 2000.0})}
    sweep = finished_sweep(measured).reported
    by = {"low_percent": ends[0], "high_percent": ends[1]}
    rows = [
        row.model_copy(
            update={
                "changes": [
                    change.model_copy(update=by)
                    if change.metric == "MeanTPOT"
                    else change
                    for change in row.changes
                ]
            }
        )
        for row in sweep.status.results
    ]
    [chart] = charts_of(made(front_section(with_status(sweep, results=rows))))
    low, high = scales_of(chart.spec, "tpot_ms")[0]["domain"]
    assert (high - low) / ((low + high) / 2) == pytest.approx(share)


def test_each_workload_has_a_front_of_its_own() -> None:
    template = spec_body(workloads=[workload("chat"), workload("code")])
    measured = {"base": Measured(), "slow": Measured({"MeanTPOT": 20.0})}
    found = finished_sweep(
        measured, load_points=("chat/rate=4", "code/rate=4"), template=template
    )
    assert [
        chart.title for chart in charts_of(made(front_section(found.reported)))
    ] == [
        "chat",
        "code",
    ]


# ---- changes
# ---------------------------------------------------------------------------------------------------------


def test_each_load_point_has_bars_with_intervals_a_chart_a_figure() -> None:
    charts = charts_of(made(changes_section(several())))
    assert len(charts) == 2 * 5
    bars = {row["label"]: row for row in data_of(charts[0].spec) if "word" in row}
    assert set(bars) == {"prefix-caching", "chunked-8192", "eager", "everything"}
    best = bars["prefix-caching"]
    assert best["word"] == "Better"
    assert best["low"] < best["change"] < best["high"]


def test_many_load_points_are_thinned_in_charts_and_complete_in_tables() -> None:
    users = range(1, MAX_DRAWN_LOAD_POINTS + 3)
    load_points = [f"chat/concurrency={count}" for count in users]
    template = spec_body(workloads=[workload(load=concurrencies(*users))])
    found = finished_sweep(
        {"base": Measured(), "wide": Measured()},
        load_points=load_points,
        template=template,
    )
    section = made(changes_section(found.reported))
    assert len(charts_of(section)) == MAX_DRAWN_LOAD_POINTS * 5
    assert (
        f"{MAX_DRAWN_LOAD_POINTS} of {len(load_points)} load points are drawn"
        in prose_of(section)
    )
    # Before it stands what the servers differ in.
    [_, table] = tables_of(section)
    assert {row[1] for row in table.rows.rows} == set(load_points)


# ---- the rest
# --------------------------------------------------------------------------------------------------------


def test_the_bottleneck_is_explained_in_sentences() -> None:
    [table] = tables_of(made(sweep_limits_section(batches().reported)))
    assert [row[0] for row in table.rows.rows] == ["80000", "160000"]
    assert all("compute is the limit" in row[2] for row in table.rows.rows)


def test_the_table_has_every_figure() -> None:
    [table] = tables_of(sweep_results_section(batches().reported))
    assert {
        "texts/s",
        "total tok/s",
        "per GPU",
        "running",
        "waiting",
        "KV max",
        "hits",
    } <= set(table.rows.headers)


def test_provenance_says_what_each_variant_sets() -> None:
    [table] = tables_of(sweep_provenance_section(batches().reported))
    assert table.rows.rows[1] == ("2", "80000", "--max-num-batched-tokens=80000")


def test_the_manifest_measures_the_same_under_another_name() -> None:
    sweep = several()
    switches = {"cancel": True, "suspend": True}
    template = {**raw.mapping(sweep.declared.spec["template"]), **switches}
    written = dict(
        sorted({**sweep.declared.spec, **switches, "template": template}.items())
    )
    text = manifest(replace(sweep.declared, name="a" * MAX_NAME, spec=written))
    body = yaml.safe_load(text)
    assert body["kind"] == "BenchmarkSweep"
    assert len(body["metadata"]["name"]) <= MAX_NAME
    assert list(body["spec"])[:2] == ["template", "matrix"]
    assert list(body["spec"]["template"])[:3] == ["model", "server", "workloads"]
    assert not switches.keys() & (
        body["spec"].keys() | body["spec"]["template"].keys()
    )
    assert BenchmarkSweepSpec.model_validate(body["spec"]) == sweep.spec


def test_a_variant_says_all_that_it_sets_beyond_the_template() -> None:
    server = {"image": "vllm/vllm-openai:v0.32.0"}
    template = spec_body(workloads=[workload(load=concurrencies(4))], server=server)
    variants = [
        {"name": "two", "replicas": 2, "resources": {"requests": {"cpu": "2"}}},
        {
            "name": "split",
            "disaggregated": {
                "prefill": {"replicas": 3},
                "decode": {},
                "kvTransfer": {"connector": "NixlConnector"},
            },
        },
    ]
    body = {
        "template": template,
        "matrix": {"variants": variants},
        "replications": 1,
    }
    sweep = ReportedSweep(Sweep("lab", "s", "u", 1, body), BenchmarkSweepStatus())
    (table,) = tables_of(sweep_provenance_section(sweep))
    assert [row[2] for row in table.rows.rows] == [
        "requests cpu: 2 replicas: 2",
        "prefill: 3, decode: 1",
    ]
