"""Failures and other texts of bounded length; the plan file."""

import json
from pathlib import Path
from typing import get_args

import pytest
from benchrun_client import failures
from benchrun_client.contract import Failure
from benchrun_client.failures import (
    MAX_MESSAGE_CHARACTERS,
    MAX_TERMINATION_BYTES,
    TERMINATION_LOG_VARIABLE,
    BadInput,
    Reason,
    RunFailure,
    as_failure,
    first_line,
    leave_termination_message,
    shorten,
)
from benchrun_client.http_session import HttpAnswer
from benchrun_client.load.client_cost import lost_segments, throttled_periods
from benchrun_client.record_process import MAX_HEADLINE_BYTES, headline
from benchrun_client.run import (
    MAX_PLAN_BYTES,
    SHOWN_ERRORS,
    peek_run_uid,
    read_plan,
)
from benchrun_client.server.readiness import pinned
from hypothesis import given, strategies as st
from unit.client.plans import TOKEN, TOKEN_DIGEST, plan, stage
from unit.golden_messages import golden
from unit.measure.records import record


def test_an_unexpected_error_becomes_its_first_line() -> None:
    failure = as_failure(
        ValueError("\nno such flag\nTraceback (most recent call last):\n  ...")
    )
    assert failure.reason == "ClientError"
    golden(failure.message)


def test_an_error_without_words_keeps_its_name() -> None:
    assert as_failure(TimeoutError()).message == "TimeoutError"


def test_bad_input_exits_2_and_everything_else_1() -> None:
    codes = {
        reason: RunFailure(reason, "").exit_code for reason in get_args(Reason)
    }
    assert {reason for reason, code in codes.items() if code == 2} == set(
        get_args(BadInput)
    )
    assert set(codes.values()) == {1, 2}


@pytest.mark.parametrize("character", ["x", "é", "語", '"', "\x01"])
def test_a_termination_message_fits_whatever_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, character: str
) -> None:
    file = tmp_path / "termination-log"
    monkeypatch.setenv(TERMINATION_LOG_VARIABLE, str(file))
    leave_termination_message(
        RunFailure("CanaryFailed", character * 100_000).to_message()
    )
    assert file.stat().st_size <= MAX_TERMINATION_BYTES
    shown = Failure.model_validate_json(file.read_bytes())
    assert shown.reason == "CanaryFailed"
    assert shown.message.startswith(character * 100)
    assert shown.message.endswith("…")


def test_a_termination_message_that_cannot_be_written_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        TERMINATION_LOG_VARIABLE, str(tmp_path / "no" / "such" / "folder")
    )
    leave_termination_message(Failure(reason="ClientError", message="x"))
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=50), st.integers(1, 60))
def test_a_cut_is_seen_and_only_made_where_it_must_be(
    text: str, characters: int
) -> None:
    cut = shorten(text, characters)
    assert len(cut) <= characters
    assert cut == text or (
        len(text) > characters and cut == text[: characters - 1] + "…"
    )


@pytest.mark.parametrize(
    ("text", "characters", "cut"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("ab", 1, "…"), ("", 1, "")],
)
def test_at_the_edge(text: str, characters: int, cut: str) -> None:
    assert shorten(text, characters) == cut


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("a", "a\nb"),
        ("a", "\n \n\ta \nb"),
        ("", ""),
        ("", "\n \n"),
        ("a", "a\r\nb"),
        ("a", "a\x0bb"),
    ],
)
def test_the_first_line_that_says_something(line: str, text: str) -> None:
    assert first_line(text) == line
    assert first_line(ValueError(text)) == line


def test_a_failure_stays_what_it_is() -> None:
    failure = RunFailure("ModelGated", "x" * 2000)
    assert as_failure(failure) is failure
    assert (len(failure.message), failure.message[-1]) == (
        MAX_MESSAGE_CHARACTERS,
        "…",
    )
    assert failure.to_message() == Failure(
        reason="ModelGated", message=failure.message
    )


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (ValueError(""), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
def test_any_other_error_is_ours_with_its_name(
    error: BaseException, words: str
) -> None:
    assert (as_failure(error).reason, as_failure(error).message) == (
        "ClientError",
        words,
    )


def test_without_a_place_for_a_termination_message_none_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = tmp_path / "termination-log"
    monkeypatch.delenv(TERMINATION_LOG_VARIABLE, raising=False)
    monkeypatch.setattr(failures, "DEFAULT_TERMINATION_LOG", default)
    leave_termination_message(Failure(reason="ClientError", message="x"))
    assert not default.exists()
    default.touch()
    leave_termination_message(Failure(reason="ClientError", message="x"))
    assert Failure.model_validate_json(default.read_bytes()).message == "x"


@given(st.integers(0, 150), st.integers(3, 80))
def test_a_headline_fits_and_keeps_the_first_figures(
    count: int, width: int
) -> None:
    scalars = {f"{n:0{width}d}": float(n) for n in range(count)}
    line = headline(record(scalars=scalars), digest="d" * 64)
    assert len(line) <= MAX_HEADLINE_BYTES
    assert "\n" not in line
    shown = json.loads(line)
    kept = list(shown["scalars"])
    assert kept == list(scalars)[: len(kept)]
    assert (shown["schema"], shown["digest"], shown["stage"]) == (
        "benchrun.headline/1",
        "d" * 64,
        record().stage_id,
    )


def test_a_short_one_has_every_figure() -> None:
    line = json.loads(
        headline(record(scalars={"a": 1.5, "b": None}), digest="d" * 64)
    )
    assert (line["scalars"], line["run_uid"], line["sequence"]) == (
        {"a": 1.5, "b": None},
        "uid-1",
        0,
    )


def plan_error(folder: Path, text: str | bytes) -> str:
    path = folder / "plan.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(RunFailure) as failure:
        read_plan(path)
    assert failure.value.reason == "InvalidPlan"
    return failure.value.message.removeprefix(f"{path}: ")


def body(**changes: object) -> str:
    return json.dumps({**json.loads(plan().to_json()), **changes})


def test_each_wrong_field_is_named_and_many_are_counted(tmp_path: Path) -> None:
    two = plan_error(tmp_path, body(health_deadline_seconds=-1, percentiles="all"))
    assert [each.partition(":")[0] for each in two.split("; ")] == [
        "percentiles",
        "health_deadline_seconds",
    ]
    broken = [{**json.loads(stage().model_dump_json()), "requests": 0}]
    assert "more" not in plan_error(tmp_path, body(stages=broken * SHOWN_ERRORS))
    golden(plan_error(tmp_path, body(stages=broken * (SHOWN_ERRORS + 1))))


def test_a_field_within_a_stage_is_named_with_its_place(tmp_path: Path) -> None:
    broken = {**json.loads(stage().model_dump_json()), "requests": 0}
    assert plan_error(tmp_path, body(stages=[broken])).startswith(
        "stages.0.requests: "
    )


@pytest.mark.parametrize("text", ["", "[]", "7", "null", b"\xff\xfe", "[" * 5000])
def test_a_plan_that_is_not_an_object_is_reported_as_a_whole(
    tmp_path: Path, text: str | bytes
) -> None:
    assert plan_error(tmp_path, text).startswith("plan: ")


def test_a_plan_may_be_as_large_as_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(plan().to_json().encode().ljust(MAX_PLAN_BYTES))
    assert read_plan(path) == plan()
    assert "larger than" in plan_error(
        tmp_path, plan().to_json().encode().ljust(MAX_PLAN_BYTES + 1)
    )


def test_a_folder_is_no_plan(tmp_path: Path) -> None:
    with pytest.raises(RunFailure, match="Is a directory"):
        read_plan(tmp_path)


def test_the_first_file_that_tells_counts(tmp_path: Path) -> None:
    files = [tmp_path / str(n) for n in range(4)]
    for file, text in zip(
        files[1:],
        ("usage_usec 5\n", "nr_throttled 7\n", "nr_throttled 8\n"),
        strict=True,
    ):
        file.write_text(text, encoding="utf-8")
    assert throttled_periods(files) == 7
    assert throttled_periods([]) is None


@pytest.mark.parametrize(
    ("snmp", "netstat", "count"),
    [
        (
            "Ip: A\nIp: 1\nTcp: InSegs RetransSegs\nTcp: 9 7\nUdp: In\nUdp: 4\n",
            "TcpExt: B TCPDSACKRecv\nTcpExt: 3 2\n",
            5,
        ),
        (
            "Tcp: InSegs RetransSegs\nTcp: 9\n",
            "TcpExt: TCPDSACKRecv\nTcpExt: 2\n",
            None,
        ),
        ("Tcp: RetransSegs\nTcp: x\n", "TcpExt: TCPDSACKRecv\nTcpExt: 2\n", None),
        ("Tcp: RetransSegs\nTcp: 7\n", "", None),
    ],
)
def test_segments_that_tcp_lost(
    tmp_path: Path, snmp: str, netstat: str, count: int | None
) -> None:
    assert lost_segments(tmp_path) is None
    (tmp_path / "snmp").write_text(snmp, encoding="utf-8")
    (tmp_path / "netstat").write_text(netstat, encoding="utf-8")
    assert lost_segments(tmp_path) == count


@pytest.mark.parametrize(
    ("page", "content_type", "body_text"),
    [
        (True, "text/html", "anything"),
        (True, "application/xhtml+xml", ""),
        (True, "text/plain", "  <html>"),
        (True, "application/json", "<"),
        (False, "text/plain", "a < b"),
        (False, "application/json", "{}"),
        (False, "", ""),
    ],
)
def test_a_page_is_known_by_what_it_is_called_or_how_it_begins(
    page: bool, content_type: str, body_text: str
) -> None:
    assert HttpAnswer(200, content_type, body_text).is_html is page


@pytest.mark.parametrize(
    ("expected", "url", "address"),
    [
        ("http://10.0.0.7:80", "http://name:80", "10.0.0.7"),
        ("http://[fd00::7]/a/b", "http://name/a/b/", "fd00::7"),
        ("http://10.0.0.7:8000/a?b=c", "http://name:8000/a?b=c", "10.0.0.7"),
    ],
)
def test_only_the_name_is_replaced(expected: str, url: str, address: str) -> None:
    assert pinned(url, address) == expected


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "plan.json"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param("Invalid JSON", "{", id="no-json"),
        pytest.param("stages", body(stages=[]), id="no-stages"),
        pytest.param(
            "health_deadline_seconds",
            body(health_deadline_seconds=-1),
            id="out-of-bounds",
        ),
        pytest.param("larger than", "x" * (MAX_PLAN_BYTES + 1), id="huge"),
    ],
)
def test_a_broken_plan_is_rejected_naming_what_is_wrong(
    tmp_path: Path, expected: str, text: str
) -> None:
    with pytest.raises(RunFailure, match=expected) as failure:
        read_plan(written(tmp_path, text))
    assert (failure.value.reason, failure.value.exit_code) == ("InvalidPlan", 2)


def test_a_rejected_plan_does_not_print_values(tmp_path: Path) -> None:
    with pytest.raises(RunFailure) as failure:
        read_plan(
            written(
                tmp_path, body(token_digest=TOKEN_DIGEST * 10, target=TOKEN_DIGEST)
            )
        )
    assert TOKEN_DIGEST not in failure.value.message


def test_a_plan_holds_the_digest_of_the_token_and_not_the_token() -> None:
    text = plan().to_json()
    assert TOKEN_DIGEST in text
    assert TOKEN not in text


def test_a_missing_plan_is_rejected_naming_the_file(tmp_path: Path) -> None:
    with pytest.raises(RunFailure) as raised:
        read_plan(tmp_path / "nowhere.json")
    golden(str(raised.value))


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param("run-1", body(stages=[]), id="broken-elsewhere"),
        pytest.param("x" * 64, body(run_uid="x" * 64, stages=[]), id="longest"),
        pytest.param("", body(run_uid=7), id="no-text"),
        pytest.param("", body(run_uid=None), id="null"),
        pytest.param("", body(run_uid=["a"]), id="list"),
        pytest.param("", body(run_uid="x" * 65), id="too-long"),
        pytest.param("", "[]", id="no-object"),
        pytest.param("", "{", id="no-json"),
        pytest.param("", 50_000 * "[", id="nested"),
    ],
)
def test_the_run_uid_is_found_in_a_broken_plan_where_it_can_be(
    tmp_path: Path, expected: str, text: str
) -> None:
    assert peek_run_uid(written(tmp_path, text)) == expected
    assert peek_run_uid(tmp_path / "nowhere") == ""
