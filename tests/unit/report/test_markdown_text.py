"""Text in Markdown: every sign that would do something, the whole of a table, and that nothing else is touched."""

from __future__ import annotations

import html
import re

import pytest
from benchrun.report.markdown import escaped, part, table
from benchrun.report.rows import Rows
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("plain words, 1.5 (a) - b + c = d! e? f: g; h/i %", "plain words, 1.5 (a) - b + c = d! e? f: g; h/i %"),
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
def test_what_is_written_for_a_text(written: str, text: str) -> None:
    assert escaped(text) == written


@given(
    st.text(st.characters(exclude_categories=("C", "Z")), max_size=60).filter(lambda text: "www." not in text.lower())
)
def test_it_reads_as_it_was_meant(text: str) -> None:
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
