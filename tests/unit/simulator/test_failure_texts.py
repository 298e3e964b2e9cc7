"""The simulator's failed starts beside the logs of a real vLLM 0.32.0 that was started with the
same arguments."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from benchrun.observe import Diagnosis, diagnose_server
from benchrun.observe.last_words import last_words
from benchrun_client.engines import ENGINES
from benchrun_simulator.arguments import parse
from benchrun_simulator.launch import SOURCE_ROOT, environment
from pydantic_core import from_json
from unit.observe.bodies import ended
from unit.observe.test_last_words import LOGS, TERMINATION_MESSAGE_BYTES

VLLM = ENGINES["VLLM"]

CONFIG = {
    "max_position_embeddings": 8192,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 256,
}
"""What the model of the real servers says of itself."""
OWN_TO_A_PROCESS = re.compile(
    r"pid=\d+|\d\d-\d\d \d\d:\d\d:\d\d|input_value=ArgsKwargs\(.*\)(?=, input_type)"
)


@dataclass(frozen=True)
class Start:
    """How the real server was started, how it ended, and how many of its last lines matter to the
    word."""

    arguments: tuple[str, ...]
    code: int
    last_lines: int
    variables: Mapping[str, str] = field(default_factory=dict)


STARTS = {
    "unknown-flag": Start(("MODEL", "--disable-log-requests"), 2, 4),
    "bad-int": Start(("MODEL", "--max-num-seqs", "abc"), 2, 2),
    "bad-json": Start(("MODEL", "--kv-transfer-config", "{bad"), 2, 4),
    "no-model": Start(("/models/none",), 1, 1),
    "no-hub-model": Start(("nobody/none-such",), 1, 1, {"HF_HUB_OFFLINE": "1"}),
    "tp0": Start(("MODEL", "--tensor-parallel-size=0"), 1, 4),
    "util": Start(("MODEL", "--gpu-memory-utilization=1.5"), 1, 4),
    "len-too-big": Start(("MODEL", "--max-model-len=99999999"), 1, 3),
    # All of the API server's traceback: it hides the cause from a termination message.
    "kv-small": Start(("MODEL", "--sim-kv-tokens=896"), 1, 60),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real servers' model, and the simulator as a program of the same name, which argparse
    reports."""
    folder = tmp_path_factory.mktemp("simulator")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    shutil.copy(SOURCE_ROOT / "vllm", folder / "main.py")
    return folder


def diagnosis(code: int, log: str) -> Diagnosis | None:
    return diagnose_server([ended(code, log)], None, VLLM)


def test_every_real_log_has_its_start() -> None:
    assert STARTS.keys() == LOGS.keys()


@pytest.mark.parametrize("log", sorted(LOGS))
def test_a_failed_start_reads_and_is_diagnosed_as_on_a_real_server(
    folder: Path, log: str
) -> None:
    start = STARTS[log]
    real = LOGS[log]
    done = subprocess.run(
        [
            sys.executable,
            folder / "main.py",
            "serve",
            *(str(folder) if a == "MODEL" else a for a in start.arguments),
        ],
        env=environment({"HF_HOME": str(folder), **start.variables}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == start.code
    ours, theirs = (
        [OWN_TO_A_PROCESS.sub("", line) for line in text.splitlines()]
        for text in (done.stdout, real)
    )
    assert ours[-start.last_lines :] == theirs[-start.last_lines :]
    assert last_words(done.stdout, VLLM) == last_words(real, VLLM)
    for length in (len(real), TERMINATION_MESSAGE_BYTES):
        assert diagnosis(start.code, done.stdout[-length:]) == diagnosis(
            start.code, real[-length:]
        )


@pytest.mark.parametrize(
    "text",
    [
        "{bad",
        "",
        "{",
        '{"a"',
        '{"a":',
        '{"a": 1',
        '{"a" 1}',
        '{"a": 1 "b"}',
        "{} x",
    ],
)
def test_broken_json_is_reported_in_the_words_of_pydantic(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    with pytest.raises(ValueError, match=r".") as real:
        from_json(text)
    with pytest.raises(SystemExit):
        parse(["m", "--kv-transfer-config", text], environment={})
    assert (
        f"Invalid JSON: {real.value} [type=json_invalid" in capsys.readouterr().err
    )
