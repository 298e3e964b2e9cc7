"""The client's side of the offline engine.

The engine gets a whole load. Its result has the form of a load whose requests were sent one by one.
"""

import importlib.metadata
import time
from statistics import fmean
from typing import Any

import aiohttp
from pydantic import ValidationError

from benchrun_client.contract import LoadEngineVersion
from benchrun_client.failures import shorten, type_and_text
from benchrun_client.http_session import NETWORK_ERRORS
from benchrun_client.load.vllm_benchmark import EngineCall
from benchrun_client.offline.engine_server import (
    LOAD_PATH,
    OfflineAnswer,
    OfflineLoad,
    OfflineTimes,
)
from benchrun_client.server.readiness import Servers
from benchrun_client.stage_record import MAX_ERROR_CHARACTERS, Instants

SILENCE_SECONDS = 60.0
"""Longest silence of the engine. It sends a heartbeat every few seconds, so after a longer silence
it has ended."""


class OfflineEngine:
    """A load engine (`vllm_benchmark.LoadEngine`) that calls vLLM's engine in another pod."""

    def __init__(self, *, chat_template: str | None = None) -> None:
        """Create the engine's client; `chat_template` replaces the model's own."""
        self._chat_template = chat_template
        self.name = LoadEngineVersion(
            name="vllm-offline",
            version=importlib.metadata.version("vllm"),
            trust_env=False,
        )
        # Instants of the current load, or of the last one.
        self.instants = Instants()

    async def run(self, call: EngineCall, servers: Servers) -> dict[str, Any]:
        """Send one load to the engine and return its result.

        If the engine refuses the load, nothing is raised: every request counts as failed.
        """
        self.instants = Instants()
        start = time.perf_counter()
        call.on_send()
        answer = await _generate(servers.urls[0], call, self._chat_template)
        answered = time.perf_counter()
        requests = len(call.samples)
        for _ in range(requests):
            call.on_answer()
        if answer.times is None or len(answer.times.sent) != requests:
            sent = [start] * requests
            ends = [answered] * requests
            ok = False
            result = _failed(
                call,
                answer.error
                or "the engine's answer does not have one time for each request",
            )
        else:
            # The engine's clock is another: the instant of its answer is the same on both.
            begun = answered - answer.times.took_seconds
            sent = [begun + offset for offset in answer.times.sent]
            ends = [
                at + e2el for at, e2el in zip(sent, answer.times.e2el, strict=True)
            ]
            ok = True
            result = _result(call, answer.times)
        self.instants = Instants(
            list(sent), sent, ends, [ok] * requests, [ok] * requests
        )
        return result


async def _generate(
    url: str, call: EngineCall, chat_template: str | None
) -> OfflineAnswer:
    body = OfflineLoad(
        prompts=tuple(sample.prompt for sample in call.samples),
        output_tokens=tuple(sample.output_tokens for sample in call.samples),
        batch_size=call.load.batch_size,
        api=call.api,
        ignore_eos=call.ignore_eos,
        sampling=call.sampling,
        chat_template=chat_template,
    )
    timeout = aiohttp.ClientTimeout(total=None, sock_read=SILENCE_SECONDS)
    headers = {"Content-Type": "application/json"}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                url + LOAD_PATH, data=body.model_dump_json(), headers=headers
            ) as response,
        ):
            text = (await response.read()).strip()
            if response.status != 200:
                return OfflineAnswer(
                    error=f"HTTP {response.status}: {text.decode(errors='replace')}"
                )
        return OfflineAnswer.model_validate_json(text)
    except ValidationError:
        return OfflineAnswer(error="the engine ended in the middle of the load")
    except NETWORK_ERRORS as error:
        return OfflineAnswer(error=type_and_text(error))


def _result(call: EngineCall, times: OfflineTimes) -> dict[str, Any]:
    """Build the load engine's result.

    It has the values that records need, under their names in `vllm bench serve`, and the figures of
    vLLM's offline commands, under their names there.
    """
    input_tokens = [sample.input_tokens for sample in call.samples]
    whole = sum(times.call_seconds)
    tokens = sum(input_tokens) + sum(times.output_tokens)
    result: dict[str, Any] = {
        "duration": whole,
        "ttfts": list(times.ttft),
        "itls": [[] for _ in times.sent],
        "decodes": [
            e2el - ttft for e2el, ttft in zip(times.e2el, times.ttft, strict=True)
        ],
        "input_lens": input_tokens,
        "output_lens": list(times.output_tokens),
        "errors": ["" for _ in times.sent],
    }
    if call.load.batch_size is not None:
        return result | {"avg_latency": fmean(times.call_seconds)}
    return result | {
        "elapsed_time": whole,
        "num_requests": len(times.sent),
        "total_num_tokens": tokens,
        "requests_per_second": len(times.sent) / whole if whole else None,
        "tokens_per_second": tokens / whole if whole else None,
    }


def _failed(call: EngineCall, error: str) -> dict[str, Any]:
    requests = len(call.samples)
    return {
        **{name: [0] * requests for name in ("ttfts", "decodes", "output_lens")},
        "itls": [[] for _ in range(requests)],
        "input_lens": [sample.input_tokens for sample in call.samples],
        "errors": [shorten(error, MAX_ERROR_CHARACTERS)] * requests,
    }
