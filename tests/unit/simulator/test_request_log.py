"""The server's own account of each request."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from benchrun_simulator.launch import Running

Serve = Callable[..., Running]
Truth = Callable[[Path, int], list[dict[str, Any]]]
LINE = {
    *(
        "request_id",
        "model",
        "number",
        "arrived_at",
        "scheduled_at",
        "first_sent_at",
        "last_sent_at",
        "prompt_tokens",
    ),
    *(
        "cached_tokens",
        "fetched_tokens",
        "output_tokens",
        "sent_tokens",
        "chunks",
        "preemptions",
        "gaps_us",
    ),
}


async def stream(
    http: aiohttp.ClientSession,
    url: str,
    *,
    tokens: int = 10,
    request_id: str | None = None,
) -> None:
    headers = {} if request_id is None else {"X-Request-Id": request_id}
    body = {
        "prompt": "x" * 40,
        "max_tokens": tokens,
        "stream": True,
        "ignore_eos": True,
    }
    async with http.post(
        f"{url}/v1/completions", json=body, headers=headers
    ) as response:
        text = await response.text()
    assert request_id is None or f'"id":"cmpl-{request_id}"' in text


async def test_a_line_says_what_was_sent_and_when(
    serve: Serve, http: aiohttp.ClientSession, truth: Truth, tmp_path: Path
) -> None:
    log = tmp_path / "truth.jsonl"
    url = serve(
        "--sim-ttft-ms=20", "--sim-tpot-ms=5", f"--sim-log-requests={log}"
    ).url
    before = time.perf_counter()
    await stream(http, url, request_id="mine")
    await stream(http, url)
    first, second = truth(log, 2)
    # An instant is taken after its write, when the client may have read what was written: only the
    # log's end is later.
    after = time.perf_counter()
    assert first.keys() == LINE
    assert (first["request_id"], first["number"], second["number"]) == (
        "mine",
        1,
        2,
    )
    assert before < first["arrived_at"] == first["scheduled_at"]
    assert first["first_sent_at"] >= first["arrived_at"] + 0.020
    assert first["last_sent_at"] >= first["first_sent_at"]
    assert first["last_sent_at"] >= first["arrived_at"] + 0.020 + 9 * 0.005
    assert second["last_sent_at"] < after
    assert (
        first["prompt_tokens"],
        first["output_tokens"],
        first["sent_tokens"],
        first["chunks"],
    ) == (40, 10, 10, 10)
    assert (first["cached_tokens"], second["cached_tokens"]) == (0, 32)
    assert len(first["gaps_us"]) == 9
    assert sum(first["gaps_us"]) == pytest.approx(
        1e6 * (first["last_sent_at"] - first["first_sent_at"]), abs=9
    )


@pytest.mark.parametrize(
    ("flags", "sent", "chunks"),
    [
        (("--stream-interval=4",), 10, 4),
        (("--sim-drop-end-percent=100",), 9, 9),
        ((), 10, 10),
    ],
)
async def test_what_did_not_leave_is_not_called_sent(
    serve: Serve,
    http: aiohttp.ClientSession,
    truth: Truth,
    tmp_path: Path,
    flags: tuple[str, ...],
    sent: int,
    chunks: int,
) -> None:
    log = tmp_path / "truth.jsonl"
    url = serve(
        "--sim-ttft-ms=1", "--sim-tpot-ms=1", f"--sim-log-requests={log}", *flags
    ).url
    await stream(http, url)
    (line,) = truth(log, 1)
    assert (line["output_tokens"], line["sent_tokens"], line["chunks"]) == (
        10,
        sent,
        chunks,
    )


@pytest.mark.parametrize("ending", ["sigterm", "death"])
async def test_nothing_is_lost_at_the_end(
    serve: Serve, http: aiohttp.ClientSession, tmp_path: Path, ending: str
) -> None:
    log = tmp_path / "truth.jsonl"
    flags = ("--sim-ttft-ms=1", "--sim-tpot-ms=1", f"--sim-log-requests={log}")
    server = serve(
        *flags, *(["--sim-die-after-requests=3"] if ending == "death" else [])
    )
    for _ in range(3):
        await stream(http, server.url)
    if ending == "sigterm":
        server.process.send_signal(signal.SIGTERM)
    server.process.wait(timeout=10)
    assert len(log.read_text().splitlines()) == 3
