"""How servers differ stands before the figures of a comparison, wherever people read one."""

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from benchrun.api import ComparedSetting, Comparison
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.cli.console_tables import show_comparison, show_sweep
from benchrun.report.comparison_rows import setting_rows, unknown_text
from benchrun.report.html import page_elements
from benchrun.report.html.sections.comparison import (
    changes_section,
    comparison_section,
)
from benchrun.report.markdown import markdown, sweep_markdown
from benchrun.report.sweep_rows import setting_rows as variant_setting_rows
from rich.console import Console
from unit.report.html.reported_runs import compared, reported, with_status
from unit.report.html.reported_sweeps import several
from unit.report.statuses import status

SETTINGS = [
    ComparedSetting(
        setting="engine",
        baseline="vLLM",
        value="llama.cpp",
        word="Differs",
        on_purpose=True,
        changes=["Answers", "Speed", "Memory"],
    ),
    ComparedSetting(
        setting="longest sequence", baseline="8", value="8", word="Same"
    ),
    ComparedSetting(setting="prefix cache", baseline="on", word="Unknown"),
    ComparedSetting(setting="speculation", word="Unknown"),
    ComparedSetting(
        setting="dtype",
        baseline="bfloat16",
        value="float32",
        word="Differs",
        changes=["Answers", "Speed"],
    ),
]


def comparison() -> Comparison:
    found = compared().status.comparison
    assert found is not None
    return found.model_copy(update={"settings": SETTINGS})


def sweep() -> BenchmarkSweepStatus:
    found = several().status
    variants = [
        each.model_copy(update={"settings": SETTINGS if place == 1 else []})
        for place, each in enumerate(found.variants)
    ]
    return found.model_copy(update={"variants": variants})


def test_what_nobody_asked_for_comes_first_and_what_is_the_same_is_counted() -> (
    None
):
    rows = setting_rows(SETTINGS)
    assert rows.headers == (
        "setting",
        "baseline",
        "value",
        "difference",
        "can change",
    )
    assert rows.rows == (
        ("dtype", "bfloat16", "float32", "not on purpose", "answers, speed"),
        ("engine", "vLLM", "llama.cpp", "on purpose", "answers, speed, memory"),
        ("prefix cache", "on", "-", "one side is not known", "-"),
    )
    text = unknown_text(SETTINGS)
    assert "the same: 1" in text
    assert text.endswith("known of neither side: speculation")
    assert unknown_text([]) == ""


def test_a_sweep_has_a_row_a_variant_and_setting() -> None:
    rows = variant_setting_rows(sweep()).rows
    assert [row[:2] for row in rows] == [
        ("prefix-caching", "dtype"),
        ("prefix-caching", "engine"),
        ("prefix-caching", "prefix cache"),
    ]


def on_terminal(show: Callable[[Console], None]) -> str:
    text = io.StringIO()
    show(Console(file=text, width=200))
    return text.getvalue()


SURFACES: dict[str, Callable[[], tuple[str, str]]] = {
    "compare": lambda: (
        on_terminal(
            lambda console: show_comparison(
                console, comparison(), before="a", after="b"
            )
        ),
        "a -> b",
    ),
    "sweep": lambda: (
        on_terminal(lambda console: show_sweep(console, "s", sweep())),
        "against baseline",
    ),
    "Markdown of a run": lambda: (
        markdown("r", status().model_copy(update={"comparison": comparison()})),
        "MeanTTFT",
    ),
    "Markdown of a sweep": lambda: (
        sweep_markdown("s", sweep()),
        "Side by side, against",
    ),
}


@pytest.mark.parametrize("name", SURFACES)
def test_how_servers_differ_stands_before_any_word(name: str) -> None:
    text, words = SURFACES[name]()
    assert text.index("not on purpose") < text.index(words)


def test_pages_begin_the_comparison_with_it() -> None:
    run = with_status(reported(compared()), comparison=comparison())
    swept = replace(several(), status=sweep())
    for section in (comparison_section(run), changes_section(swept)):
        assert section is not None
        first = section.elements[0]
        assert isinstance(first, page_elements.Table)
        assert first.caption == "How the servers differ"
