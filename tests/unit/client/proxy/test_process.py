"""The proxy as a process, and its flags."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import benchrun_client
import pytest
from benchrun_client.proxy.server import MAX_IN_FLIGHT, Arguments, parse
from benchrun_simulator.launch import Running, running
from kit.polling import polling

SOURCE_ROOT = Path(benchrun_client.__file__).parent.parent
COMMAND = [
    sys.executable,
    "-m",
    "benchrun_client.proxy",
    "--engine=VLLM",
    "--address=127.0.0.1",
]
OUTPUT_TOKENS = 20
NAMED = {"X-Request-Id": "same"}


@contextmanager
def proxy(*flags: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A proxy process, from its port on; its URL."""
    process = subprocess.Popen(
        [*COMMAND, "--port=0", *flags],
        env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield f"http://127.0.0.1:{int(line.rpartition(' ')[2])}", process
    finally:
        process.kill()
        process.communicate()


def transfer(role: str) -> str:
    return f"--kv-transfer-config={json.dumps({'kv_connector': 'NixlConnector', 'kv_role': role})}"


@contextmanager
def split(
    stack: ExitStack, *decode_flags: str
) -> Iterator[tuple[str, Running, Running]]:
    """A proxy between two simulated servers, ready."""
    prefill = stack.enter_context(
        running("tiny", "--sim-ttft-ms=20", transfer("kv_producer"))
    )
    decode = stack.enter_context(
        running("tiny", "--sim-tpot-ms=2", transfer("kv_consumer"), *decode_flags)
    )
    url, _ = stack.enter_context(
        proxy(f"--prefill={prefill.url}", f"--decode={decode.url}")
    )
    wait_for(url, 200)
    yield url, prefill, decode


def wait_for(url: str, status: int) -> None:
    for _ in polling(f"/health answers {status}", seconds=30):
        if health(url) == status:
            return


def health(url: str) -> int:
    try:
        with urllib.request.urlopen(f"{url}/health") as response:
            return int(response.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def complete(url: str, **more: object) -> bytes:
    body = {
        "model": "tiny",
        "prompt": "a prompt of some words",
        "max_tokens": OUTPUT_TOKENS,
        "ignore_eos": True,
    } | more
    headers = {"Content-Type": "application/json", **NAMED}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), headers
    )
    with urllib.request.urlopen(request) as response:
        response_body: bytes = response.read()
        return response_body


def page(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/metrics") as response:
        lines = response.read().decode().splitlines()
    return {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")
    }


def counted(url: str, name: str) -> float:
    return sum(
        value
        for key, value in page(url).items()
        if key.startswith(f"vllm:{name}{{")
    )


def without_time(answer: bytes) -> list[Any]:
    """The events of a stream, but for when each was created."""
    events = [
        line.removeprefix(b"data: ")
        for line in answer.split(b"\n\n")
        if line.startswith(b"data: {")
    ]
    return [
        {key: value for key, value in json.loads(event).items() if key != "created"}
        for event in events
    ]


def test_a_stream_through_it_is_that_of_the_server_and_its_blocks_were_handed_over() -> (
    None
):
    with ExitStack() as stack, split(stack) as (url, prefill, decode):
        before = counted(decode.url, "external_prefix_cache_hits_total")
        proofs = counted(prefill.url, "prompt_tokens_total")
        through = complete(
            url,
            stream=True,
            prompt="p" * 300,
            stream_options={"include_usage": True},
        )
        assert (
            counted(decode.url, "external_prefix_cache_hits_total") - before == 288
        )
        # The prefill server generated one token for it, the decode server all of them.
        assert counted(prefill.url, "prompt_tokens_total") - proofs == 300
        assert counted(prefill.url, "generation_tokens_total") == 2
        past = complete(
            decode.url,
            stream=True,
            prompt="p" * 300,
            stream_options={"include_usage": True},
        )
        assert without_time(through) == without_time(past)
        assert through.endswith(b"data: [DONE]\n\n")
        assert len(without_time(through)) == OUTPUT_TOKENS + 1


def test_a_server_that_is_killed_takes_readiness_away() -> None:
    with ExitStack() as stack, split(stack) as (url, prefill, _):
        prefill.process.kill()
        wait_for(url, 503)


def test_streams_that_its_server_cuts_are_cut() -> None:
    with (
        ExitStack() as stack,
        split(stack, "--sim-reset-after-tokens=5") as (url, _, _),
    ):
        with pytest.raises(http.client.IncompleteRead) as broken:
            complete(url, stream=True)
        assert len(without_time(broken.value.partial)) == 5
        assert page(url)['benchrun_proxy_requests_total{outcome="broken"}'] == 1


def test_its_figures_add_up() -> None:
    with ExitStack() as stack, split(stack) as (url, _, _):
        for _ in range(5):
            complete(url)
        found = page(url)
    assert found['benchrun_proxy_requests_total{outcome="ok"}'] == 5
    for name in ("added", "prefill", "queue", "time_to_first_token"):
        assert found[f"benchrun_proxy_{name}_seconds_count"] == 5
    assert found["benchrun_proxy_prefill_seconds_sum"] >= 5 * 0.02
    assert (
        found["benchrun_proxy_prefill_seconds_sum"]
        + found["benchrun_proxy_added_seconds_sum"]
        < found["benchrun_proxy_time_to_first_token_seconds_sum"]
    )
    assert (
        0
        < found["benchrun_proxy_added_seconds_sum"]
        < found["benchrun_proxy_prefill_seconds_sum"]
    )


def test_it_is_there_at_once_and_says_that_it_is_not_ready() -> None:
    started = time.monotonic()
    with proxy("--prefill=http://127.0.0.1:1", "--decode=http://127.0.0.1:1") as (
        url,
        process,
    ):
        took = time.monotonic() - started
        assert health(url) == 503
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("not ready: prefill: 127.0.0.1:1: "):
                break
    # A second on a machine that does nothing else; importing vLLM would be half a minute.
    assert took < 10


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once(number: signal.Signals) -> None:
    with proxy("--prefill=http://127.0.0.1:1", "--decode=http://127.0.0.1:1") as (
        _,
        process,
    ):
        process.send_signal(number)
        assert process.wait(timeout=10) == 128 + number


def test_a_port_that_is_taken_is_reported_without_a_traceback() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = subprocess.run(
            [*COMMAND, f"--port={port}", "--prefill=http://p", "--decode=http://d"],
            env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT)},
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
        )
    assert ended.returncode == 1
    assert f"port {port}: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_nothing_of_vllm_or_the_operator_is_imported() -> None:
    listing = (
        "import sys; import benchrun_client.proxy.server; print(*sorted({m.partition('.')[0] for "
        "m in sys.modules}))"
    )
    line = subprocess.run(
        [sys.executable, "-c", listing],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.split()
    assert not {
        "vllm",
        "torch",
        "numpy",
        "transformers",
        "benchrun",
        "kubernetes",
    } & set(line)


BOTH = ["--engine=VLLM", "--prefill=http://p:8000/", "--decode=http://d:8000"]


def test_two_names_are_enough() -> None:
    assert parse(BOTH) == Arguments(
        engine="VLLM",
        prefill="http://p:8000",
        decode="http://d:8000",
        prefill_replicas=None,
        decode_replicas=None,
        address="0.0.0.0",
        port=8000,
        max_in_flight=MAX_IN_FLIGHT,
    )


def test_every_option_is_parsed() -> None:
    body = [
        "--prefill-replicas=2",
        "--decode-replicas=3",
        "--address=::",
        "--port=1",
        "--max-in-flight=4",
    ]
    found = parse([*BOTH, *body])
    assert (found.prefill_replicas, found.decode_replicas) == (2, 3)
    assert (found.address, found.port, found.max_in_flight) == ("::", 1, 4)


@pytest.mark.parametrize(
    "words",
    [
        [],
        BOTH[:1],
        [*BOTH, "--max-in-flight=0"],
        [*BOTH, "--prefill-replicas=0"],
        [*BOTH, "--port=x"],
        [*BOTH, "--foo"],
        *(
            [BOTH[0], f"--decode={url}"]
            for url in (
                "d:8000",
                "https://d",
                "http://",
                "http://u:p@d",
                "http://d/x",
                "",
            )
        ),
    ],
)
def test_an_invalid_option_exits_with_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err
