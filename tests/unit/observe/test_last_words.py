"""The one sentence that names the cause, out of real ends of vLLM 0.32's log."""

import sys
import time
from itertools import count
from pathlib import Path

import pytest
from benchrun.observe.last_words import (
    MAX_CHARS,
    MAX_LINES,
    MAX_READ_CHARS,
    last_words,
)
from benchrun_client.engines import ENGINES
from hypothesis import given, strategies as st

VLLM = ENGINES["VLLM"]

LOGS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in (Path(__file__).parent / "logs").glob("*.txt")
}
TERMINATION_MESSAGE_BYTES = 2048


@pytest.mark.parametrize(
    ("words", "log"),
    [
        pytest.param(
            "unrecognized arguments: --disable-log-requests",
            "unknown-flag",
            id="a flag it does not know",
        ),
        pytest.param(
            "argument --max-num-seqs: invalid int value: 'abc'",
            "bad-int",
            id="a word for a number",
        ),
        pytest.param(
            "argument --kv-transfer-config: 1 validation error for KVTransferConfig Invalid JSON: "
            "key must be a string at line 1 column 2 (got '{bad')",
            "bad-json",
            id="broken JSON",
        ),
        pytest.param(
            "tensor_parallel_size Input should be greater than or equal to 1 (got 0)",
            "tp0",
            id="a value too small",
        ),
        pytest.param(
            "gpu_memory_utilization Input should be less than or equal to 1 (got 1.5)",
            "util",
            id="a value too large",
        ),
        pytest.param(
            "HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
            "'/models/none'. "
            "Use `repo_type` argument if needed.",
            "no-model",
            id="a directory that is not there",
        ),
        pytest.param(
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core "
            "proc(s): {'EngineCore': 1}",
            "kv-small",
            id="an engine that failed: the cause is out of sight",
        ),
    ],
)
def test_a_termination_message_gives_the_last_words(words: str, log: str) -> None:
    assert last_words(LOGS[log][-TERMINATION_MESSAGE_BYTES:], VLLM) == words


def test_the_root_cause_in_a_longer_tail_is_reported() -> None:
    words = last_words(LOGS["kv-small"], VLLM)
    assert words.startswith(
        "ValueError: To serve at least one request with the model's max seq len (8192), (0.01 GiB "
        "KV cache"
    )
    assert "the estimated maximum model length is 896" in words


@pytest.mark.parametrize("log", sorted(LOGS))
def test_no_traceback_and_no_path_of_source_gets_through(log: str) -> None:
    words = last_words(LOGS[log], VLLM)
    assert words
    assert len(words) <= MAX_CHARS
    for noise in (
        "Traceback",
        'File "',
        "^^^",
        ".py",
        "pid=",
        "errors.pydantic.dev",
        "input_type",
        "resource_tracker",
    ):
        assert noise not in words


@pytest.mark.parametrize(
    ("words", "log"),
    [
        pytest.param("", "", id="an empty log"),
        pytest.param("", "\n  \n", id="nothing but space"),
        pytest.param(
            "",
            'Traceback (most recent call last):\n  File "/x.py", line 1, in <module>',
            id="a bare traceback",
        ),
        pytest.param(
            "Killed", "loading weights\nKilled\n\n", id="no error: the last line"
        ),
        pytest.param(
            "Application shutdown complete.",
            "INFO 11-21 11:26:30 [launcher.py:3] Application shutdown complete.",
            id="its prefix",
        ),
        pytest.param(
            "KeyboardInterrupt: terminated",
            "KeyboardInterrupt: terminated",
            id="a probe that lost patience",
        ),
        pytest.param(
            "AssertionError", "x\nAssertionError\n", id="an error without words"
        ),
        pytest.param(
            "OSError: second",
            "ValueError: first\nOSError: second\n",
            id="the last of two errors",
        ),
        pytest.param(
            "ValueError: cause",
            "(EngineCore pid=7) ERROR 11-21 11:25:19 [core.py:1510] ValueError: cause\n"
            "(EngineCore pid=7) ERROR 11-21 11:25:22 [multiproc_executor.py:315] Worker proc "
            "died\n",
            id="the next message of the log is not part of it",
        ),
        pytest.param(
            "ValueError: a b",
            'E ValueError\nValueError: a\nb\nTraceback (most recent call last):\n  File "x"\n',
            id="its second line is",
        ),
        pytest.param(
            "OSError: 401 for https://***@hub/x with Bearer *** and ***",
            "OSError: 401 for https://me:secret@hub/x with Bearer abc.def and hf_abcdefghijklmnop",
            id="credentials are taken out",
        ),
    ],
)
def test_a_short_log_gives_the_last_words(words: str, log: str) -> None:
    assert last_words(log, VLLM) == words


def test_a_long_error_is_cut_with_a_mark() -> None:
    words = last_words("ValueError: " + "word " * 1000, VLLM)
    assert len(words) <= MAX_CHARS
    assert words.endswith("wo…")


@given(st.text(max_size=400))
def test_any_log_gives_one_bounded_line(log: str) -> None:
    words = last_words(log, VLLM)
    assert len(words) <= MAX_CHARS
    assert "\n" not in words


@given(st.integers(1, 9500))
def test_wherever_the_log_is_cut_no_traceback_gets_through(length: int) -> None:
    words = last_words(LOGS["kv-small"][-length:], VLLM)
    assert "Traceback" not in words
    assert '", line ' not in words


SERIAL = count()


def cost(log: str) -> float:
    """CPU seconds of reading it, the least of three, each time with a beginning that is new."""
    seconds = []
    for _ in range(3):
        began = time.thread_time()
        last_words(f"{next(SERIAL)}\n{log}", VLLM)
        seconds.append(time.thread_time() - began)
    return min(seconds)


@pytest.mark.parametrize(
    "repeated",
    [
        " ",
        "[type=a, input_value=",
        "a.",
        "~",
        "^ ",
        '", line 1',
        "[a:1",
        "://a",
        "hf_",
    ],
)
def test_no_line_costs_more_than_many_short_ones(repeated: str) -> None:
    lines = "ValueError: x\n" * (MAX_READ_CHARS // 14)
    one = f"FooError: x{repeated * (MAX_READ_CHARS // len(repeated))}"[
        : MAX_READ_CHARS - 20
    ]
    assert cost(f"{one}y") < 5 * cost(lines)


def test_a_log_is_read_once_and_so_many_lines_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    # the package has the function by its name
    module = sys.modules["benchrun.observe.last_words"]

    def usage(lines: list[object]) -> str:
        read.append(len(lines))
        return ""

    monkeypatch.setattr(module, "_usage", usage)
    log = f"{next(SERIAL)} once{chr(13) * MAX_READ_CHARS}"
    assert last_words(log, VLLM) == last_words(log, VLLM)
    assert read == [MAX_LINES]
