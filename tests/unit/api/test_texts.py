"""Texts of a form of their own (amounts, rates, names, addresses): what they may look like, each at
its bounds.

The API server reads the same patterns as RE2, where a line break or a digit of another script is no
exception."""

import re
import time
from decimal import Decimal as Exact
from typing import Annotated, Any

import pytest
from benchrun.api import (
    Endpoint,
    EnvVar,
    HttpUrl,
    Quantity,
    S3File,
    base,
    plain_text,
)
from benchrun.api.sweep import SettingName, VariantName
from benchrun_client.contract.datasets import HuggingFaceData
from hypothesis import given, strategies as st
from kit.every_case import every
from pydantic import TypeAdapter, ValidationError


def takes(kind: Any, value: object) -> bool:
    """Whether a type takes the value; of a model, its other fields and the name of one, whether
    that field does."""
    if isinstance(kind, tuple):
        model, others, field = kind
        kind = model
        value = {**others, field: value}
    try:
        TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _store(field: str) -> object:
    return S3File, {"bucket": "data", "key": "k"}, field


FORMS: dict[str, tuple[Any, list[object], list[object]]] = {
    "decimal": (
        base.Decimal,
        ["0", "0.0", "1", "007", "0.123456", "9" * 12, "9" * 12 + ".999999"],
        [
            "",
            ".5",
            "5.",
            "-1",
            "+1",
            "1e3",
            "inf",
            "nan",
            " 1",
            "1 ",
            "1\n",
            "1,5",
            "0.1234567",
            "9" * 13,
            "١",
            1,
            0.5,
        ],
    ),
    "decimal above 0": (
        base.PositiveDecimal,
        ["0.000001", "1"],
        ["0", "0.0", "000.000000"],
    ),
    "rate": (
        base.Rate,
        ["inf", "0.000001", "4", "9" * 9],
        ["Inf", "infinity", "0", "0.0", "9" * 10, "1e3", "-1", "inf\n", "1.", 4],
    ),
    "percentile": (
        base.Percentile,
        ["0.001", "1", "50", "99", "99.999", "09"],
        ["0", "0.000", "100", "99.9999", "p99", "-1", "inf", "", 99],
    ),
    "quantity": (
        Quantity,
        [
            0,
            1,
            "0",
            "1",
            "500m",
            "1k",
            "1Ki",
            "6Gi",
            "0.5",
            "1.5Gi",
            "2M",
            "1e3",
            "10e12",
            "1Pi",
            "1E",
            "1Ei",
        ],
        [
            -1,
            "-1",
            "1gb",
            "1GiB",
            "1 Gi",
            "1K",
            "two",
            "",
            ".5",
            "5.",
            "1e",
            "1e123",
            "1n",
            "1Gi\n",
            1.5,
            True,
            "9" * 25,
        ],
    ),
    "DNS label": (
        base.DnsLabel,
        ["a", "a-b", "0", "a" * 63, "a--b"],
        ["", "-a", "a-", "A", "a.b", "a_b", "ä", "a" * 64, "a\n", 1],
    ),
    "object name": (
        base.ObjectName,
        ["a", "a.b", "a-b.c", "0", "a" * 253],
        ["", "-a", "a.", "A", "a_b", "a/b", "a" * 254],
    ),
    "key": (
        base.Key,
        ["a", "ca.crt", "A_b-c.9", ".hidden", "k" * 253],
        ["", "a/b", "a b", "ä", "k" * 254],
    ),
    "text": (base.Text, ["a", " ", "ä\n", "t" * 1024], ["", "t" * 1025, 1]),
    "setting": (
        SettingName,
        ["64", "a", "FP8_e4m3", "0.9", "s" * 24],
        ["", "a,b", "a=b", "-a", "a-", "s" * 25, 64],
    ),
    "variant": (
        VariantName,
        ["base", "a.b-c_d", "v" * 60],
        ["", "a,b", "a=b", ".a", "v" * 61],
    ),
    "variable": (
        (EnvVar, {"value": "x"}, "name"),
        ["A", "_a", "a.b-c", "."],
        ["1a", "a b", "a=b", ""],
    ),
    "URL of a file": (
        HttpUrl,
        [
            "http://d",
            "https://d/x",
            "https://d:8443/x?y=1",
            "https://d?x=1",
            "http://d/a@b",
        ],
        [
            "",
            "ftp://d/x",
            "d/x",
            "http://",
            "http:///x",
            "https://u:p@d/x",
            "https://d/x#y",
            "https://d/a b",
            "HTTP://d",
        ],
    ),
    "endpoint": (
        (Endpoint, {}, "url"),
        [
            "http://llm",
            "https://llm.example.com:8443",
            "https://llm/base/path/",
            "http://[fd00::1]:8000",
        ],
        [
            "http://llm?key=x",
            "http://llm#x",
            "http://u@llm",
            "http://u:p@llm/x",
            "llm:8000",
            "file:///x",
            "http://l\n",
            "http://l /",
        ],
    ),
    "bucket": (
        _store("bucket"),
        ["abc", "a" * 63, "a.b-c"],
        ["ab", "a" * 64, "-abc", "Abc"],
    ),
    "key of an object": (_store("key"), ["a/b c/ü.jsonl"], ["/a", ""]),
    "store": (
        _store("endpoint"),
        ["http://minio:9000", "http://minio:9000/"],
        ["http://minio/path", "http://key:secret@minio", "minio"],
    ),
    "region": (_store("region"), ["eu-central-1"], ["EU", ""]),
    "hub dataset": (
        (HuggingFaceData, {"column": "c", "output_tokens": 1}, "repository"),
        ["gsm8k", "openai/gsm8k"],
        ["a/b/c", "/a", "a/", "https://x/y"],
    ),
}


@every(
    ("form", "value", "good"),
    [
        pytest.param(kind, value, values is good, id=f"{form}: {value!r:.30}")
        for form, (kind, good, bad) in FORMS.items()
        for values in (good, bad)
        for value in values
    ],
)
def test_each_form_at_its_bounds(form: Any, value: object, good: bool) -> None:
    assert takes(form, value) is good


@given(st.from_regex(r"[0-9]{1,12}(\.[0-9]{1,6})?", fullmatch=True))
def test_crd_rules_agree_with_python_on_decimals(text: str) -> None:
    assert takes(base.Decimal, text)
    assert takes(base.PositiveDecimal, text) is (Exact(text) > 0)


@given(
    st.lists(
        st.sampled_from(["1", "1.0", "01", "2", "2.50", "2.5", "inf"]),
        min_size=1,
        max_size=4,
    )
)
def test_numbers_differ_as_numbers_and_not_as_texts(texts: list[str]) -> None:
    assert takes(Annotated[list[str], base.DIFFERENT_NUMBERS], texts) is (
        len({Exact(text) for text in texts}) == len(texts)
    )


# Text that others wrote: shown, never obeyed.

OBEYED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        pytest.param("\x1b[31mERROR\x1b[0m at 3", "ERROR at 3", id="colours"),
        pytest.param("a\x1b]0;owned\x07b", "ab", id="the window's title"),
        pytest.param("a\x1b]52;c;cm0gLXJm\x1b\\b", "ab", id="the clipboard"),
        pytest.param("a\x1b]8;;http://x\x1b\\link", "alink", id="a link"),
        pytest.param(
            "a\x1b]0;never ended",
            "a0;never ended",
            id="a command without an end hides nothing",
        ),
        pytest.param("\x1b[2J\x1b[Hpassed", "passed", id="the screen cleared"),
        pytest.param("\x9b31mred \x9d", "31mred ", id="the same in one character"),
        pytest.param(
            "50%\r100%\r\n", "50%\n100%\n", id="a bar that overwrites itself"
        ),
        pytest.param("abc\b\b\bxyz\x00\x7f", "abcxyz", id="backspaces"),
        pytest.param(
            "user\u202egnp.exe\u2069", "usergnp.exe", id="direction of writing"
        ),
        pytest.param("half \ud800", "half ", id="half a character"),
        pytest.param("µs\t温度 😀\n", "µs\t温度 😀\n", id="words of any language"),
    ],
)
def test_plain(text: str, plain: str) -> None:
    assert plain_text(text) == plain


@given(
    st.text(
        st.characters() | st.sampled_from("\x1b[]0;m\x07\\\x9b\r\u202e\ud800"),
        max_size=60,
    )
)
def test_nothing_that_is_obeyed_is_left_of_any_text(text: str) -> None:
    plain = plain_text(text)
    assert OBEYED.search(plain) is None
    assert plain_text(plain) == plain
    plain.encode()


@pytest.mark.parametrize(
    "unit",
    [
        "\x1b",
        "\x1b]",
        "\x1b]a",
        "\x1b[",
        "\x1b[0",
        "\x1b[0;",
        "\x1b    ",
        "\x9d",
        "\r",
    ],
)
def test_half_a_megabyte_of_them_takes_no_time(unit: str) -> None:
    began = time.process_time()
    plain_text(unit * (512 * 1024 // len(unit)))
    assert time.process_time() - began < 20, (
        "what grows with the square of the length takes minutes, not a part of a second"
    )
