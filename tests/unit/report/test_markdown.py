"""A result as Markdown, and what its strings can't do."""

import html
import re

import pytest
from benchrun.api import (
    Change,
    ComparedLoadPoint,
    ComparedRun,
    Comparison,
    Finding,
    ObjectiveResult,
    Phase,
)
from benchrun.report.markdown import escaped, markdown, part, table
from benchrun.report.tables import Rows
from hypothesis import given, strategies as st
from unit.report.statuses import result, status

HOSTILE = "x | y\n<script>alert(1)</script> @everyone #77 [a](http://e) `b` www.e"


def test_the_verdict_comes_first() -> None:
    assert (
        markdown("nightly", status(result())).splitlines()[0] == "## nightly: Valid"
    )


@pytest.mark.parametrize("phase", ["Cancelled", "Failed"])
def test_how_it_ended_comes_before_what_was_measured(phase: Phase) -> None:
    ended = status(result()).model_copy(update={"phase": phase})
    assert markdown("nightly", ended).splitlines()[0] == f"## nightly: {phase}"


def test_tables_have_one_line_a_load_point() -> None:
    lines = markdown(
        "run", status(result(), result("chat/concurrency=16"))
    ).splitlines()
    assert (
        sum(
            line.startswith("| chat/concurrency=") and "3.46" in line
            for line in lines
        )
        == 2
    )
    assert all(line.count("|") == lines[6].count("|") for line in lines[6:10])


def test_an_uncertain_figure_keeps_its_mark_and_its_note() -> None:
    text = markdown("run", status(result()))
    assert "118?" in text
    assert "? means: too few requests" in text


def test_intervals_are_there_when_requested() -> None:
    assert "83.25" not in markdown("run", status(result()))
    assert "83.25" in markdown("run", status(result()), wide=True)


def test_there_is_room_for_every_figure() -> None:
    metrics = {
        "request_throughput": 20.3,
        "output_throughput": 81.2,
        "total_token_throughput": 25_400.0,
    }
    text = markdown(
        "run",
        status(result("packed/rate=inf", metrics=metrics)),
        texts_per_prompt={"packed": 4},
    )
    assert "| load point | req/s | texts/s | tok/s | total tok/s |" in text
    assert "| packed/rate=inf | 20.3 | 81.2 | 81.2 | 25400 |" in text


def test_markdown_has_a_row_per_objective() -> None:
    kept = ObjectiveResult(
        metric="TTFT",
        percentile="99",
        max_milliseconds=200,
        measured_milliseconds=118.4,
        outcome="Met",
    )
    assert (
        "| chat/concurrency=8 | TTFT p99 at most 200 ms | 118.4 | Met |"
        in markdown("run", status(result(objectives=[kept])))
    )


def test_a_comparison_is_reported_with_its_intervals() -> None:
    change = Change(
        metric="MeanTTFT",
        baseline=100,
        value=90,
        change_percent=-10,
        low_percent=-12,
        high_percent=-8,
        word="Better",
    )
    found = Comparison(
        baseline=ComparedRun(name="before"),
        outcome="Better",
        message="It is faster.",
        load_points=[
            ComparedLoadPoint(load_point="chat/rate=4", changes=[change]),
            ComparedLoadPoint(load_point="chat/rate=8", reason="another GPU"),
        ],
    )
    text = markdown(
        "run", status(result()).model_copy(update={"comparison": found})
    )
    assert "### Against before: Better" in text
    assert "-12.0 to -8.0" in text
    assert "- not compared: chat/rate=8: another GPU" in text


def test_the_log_is_no_markup() -> None:
    text = markdown(
        "run", status().model_copy(update={"log_tail": "```\n# not a heading\n<b>"})
    )
    assert "    ```\n    # not a heading\n    <b>" in text


@pytest.mark.parametrize(
    "live",
    ["<script", " | y", "@everyone", "#77", "[a]", "http://", " `b` ", "www.e"],
)
def test_strings_of_others_do_nothing(live: str) -> None:
    finding = Finding(
        code="X",
        severity="Note",
        count=1,
        worst_stage="s",
        sentence=HOSTILE,
        remedy=HOSTILE,
    )
    shown = status(result()).model_copy(
        update={"findings": [finding], "message": HOSTILE}
    )
    assert live not in markdown(HOSTILE, shown)


def test_escaped_text_is_one_line() -> None:
    assert escaped("a\n\n| b") == "a &#124; b"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (
            "plain words, 1.5 (a) - b + c = d! e? f: g; h/i %",
            "plain words, 1.5 (a) - b + c = d! e? f: g; h/i %",
        ),
        ("&amp;", "&"),
        ("&lt;b&gt;", "<b>"),
        ("&#124;", "|"),
        ("&#64;everyone", "@everyone"),
        ("&#35;77", "#77"),
        ("http&#58;//a", "http://a"),
        ("www&#46;a.b", "www.a.b"),
        ("www&#46;a.b", "WWW.a.b"),
        ("\\`", "`"),
        ("\\*a\\*", "*a*"),
        ("\\_a\\_", "_a_"),
        ("\\[a\\](b)", "[a](b)"),
        ("\\~\\~a\\~\\~", "~~a~~"),
        ("\\\\", "\\"),
        ("\\\\&#124;", "\\|"),
        ("a b c", " a\n\nb\t c\r\n"),
        ("", ""),
        ("&amp;lt;", "&lt;"),
        ("grüße ▁▂█ 中", "grüße ▁▂█ 中"),
    ],
)
def test_markdown_characters_are_escaped(written: str, text: str) -> None:
    assert escaped(text) == written


@given(
    st.text(st.characters(exclude_categories=("C", "Z")), max_size=60).filter(
        lambda text: "www." not in text.lower()
    )
)
def test_escaped_text_renders_as_the_original(text: str) -> None:
    assert html.unescape(re.sub(r"\\([\\`*_\[\]~])", r"\1", escaped(text))) == text


@given(st.text(max_size=60))
def test_nothing_of_it_is_alive(text: str) -> None:
    written = escaped(text)
    assert not re.search(r"[<>|@]|://|\n", written)
    assert not re.search(r"(?<!&)#", written)
    assert not re.search(r"&(?!amp;|lt;|gt;|#124;|#64;|#35;|#58;|#46;)", written)


ROWS = Rows(("a|b", "c"), (("1", "<2>"), ("x", "")))
WRITTEN = "| a&#124;b | c |\n| --- | --- |\n| 1 | &lt;2&gt; |\n| x |  |"


def test_a_table_has_a_head_a_line_and_its_rows() -> None:
    assert table(ROWS) == WRITTEN


def test_a_part_has_a_heading_over_its_table() -> None:
    assert part("What limits", ROWS) == f"### What limits\n\n{WRITTEN}"


def test_without_rows_there_is_neither() -> None:
    assert table(Rows(("a",), ())) == part("What limits", Rows(("a",), ())) == ""
