"""Text that others wrote: shown, never obeyed."""

import re
import time

import pytest
from benchrun.api import plain_text
from hypothesis import given, strategies as st

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        pytest.param("\x1b[31mERROR\x1b[0m at 3", "ERROR at 3", id="colours"),
        pytest.param("a\x1b]0;owned\x07b", "ab", id="the window's title"),
        pytest.param("a\x1b]52;c;cm0gLXJm\x1b\\b", "ab", id="the clipboard"),
        pytest.param("a\x1b]8;;http://x\x1b\\link", "alink", id="a link"),
        pytest.param("a\x1b]0;never ended", "a0;never ended", id="a command without an end hides nothing"),
        pytest.param("\x1b[2J\x1b[Hpassed", "passed", id="the screen cleared"),
        pytest.param("\x9b31mred \x9d", "31mred ", id="the same in one character"),
        pytest.param("50%\r100%\r\n", "50%\n100%\n", id="a bar that overwrites itself"),
        pytest.param("abc\b\b\bxyz\x00\x7f", "abcxyz", id="backspaces"),
        pytest.param("user\u202egnp.exe\u2069", "usergnp.exe", id="direction of writing"),
        pytest.param("half \ud800", "half ", id="half a character"),
        pytest.param("µs\t温度 😀\n", "µs\t温度 😀\n", id="words of any language"),
    ],
)
def test_plain(text: str, plain: str) -> None:
    assert plain_text(text) == plain


@given(st.text(st.characters() | st.sampled_from("\x1b[]0;m\x07\\\x9b\r\u202e\ud800"), max_size=60))
def test_nothing_that_is_obeyed_is_left_of_any_text(text: str) -> None:
    plain = plain_text(text)
    assert OBEYED.search(plain) is None
    assert plain_text(plain) == plain
    plain.encode()


@pytest.mark.parametrize("unit", ["\x1b", "\x1b]", "\x1b]a", "\x1b[", "\x1b[0", "\x1b[0;", "\x1b    ", "\x9d", "\r"])
def test_half_a_megabyte_of_them_takes_no_time(unit: str) -> None:
    began = time.process_time()
    plain_text(unit * (512 * 1024 // len(unit)))
    assert time.process_time() - began < 20, (
        "what grows with the square of the length takes minutes, not a part of a second"
    )
