"""Two real vLLM servers, one for prompts and one for answers, behind the real proxy: are blocks
really handed over?

The blocks go through a folder (ExampleConnector), which works without a GPU. Decode looks for them
by way of a link, which a test can turn aside."""

import json
import os
import random
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from client.processes import CLIENT_PYTHON, CLIENT_ROOT, TINY_MODEL
from client.real_servers import START_SECONDS, VllmServer, vllm_server
from kit.polling import polling

pytestmark = pytest.mark.timeout(900)
BLOCK = 128
PROMPT_TOKENS = 1000
FETCHED_TOKENS = 896
"""Whole blocks of it."""
AT_ONCE = 4
FLAGS = (
    *(
        "--served-model-name=tiny",
        "--dtype=float32",
        "--max-model-len=4096",
        f"--block-size={BLOCK}",
    ),
    *("--no-enable-prefix-caching", "--kv-cache-memory-bytes=300000000"),
    # A prompt that is prefilled in pieces would be stored in part, and the server that loads it
    # would die.
    *("--no-enable-chunked-prefill", "--max-num-batched-tokens=4096"),
)


@dataclass(frozen=True, slots=True)
class Split:
    """A server split in two, and the way to it."""

    url: str
    prefill: VllmServer
    decode: VllmServer
    link: Path
    folder: Path

    def lead_aside(self, folder: Path) -> None:
        """Have decode look elsewhere."""
        self.link.unlink()
        self.link.symlink_to(folder)


def transfer(role: str, folder: Path) -> str:
    found = {"kv_connector": "ExampleConnector", "kv_role": role}
    return f"--kv-transfer-config={json.dumps(found | {'kv_connector_extra_config': {'shared_storage_path': str(folder)}})}"


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Split]:
    folder = tmp_path_factory.mktemp("split")
    blocks = folder / "blocks"
    link = folder / "decode"
    blocks.mkdir()
    link.symlink_to(blocks)
    with ExitStack() as stack:
        roles = {
            "prefill": transfer("kv_producer", blocks),
            "decode": transfer("kv_consumer", link),
        }
        servers = {
            role: stack.enter_context(
                vllm_server(TINY_MODEL, [*FLAGS, flag], folder / f"{role}.log")
            )
            for role, flag in roles.items()
        }
        url = stack.enter_context(
            proxy(servers["prefill"].url, servers["decode"].url)
        )
        # Nobody waits for the servers but the proxy.
        for _ in polling("the proxy is ready", seconds=START_SECONDS):
            for server in servers.values():
                assert server.process.poll() is None, server.log.read_text()[-3000:]
            if health(url) == 200:
                break
        yield Split(url, servers["prefill"], servers["decode"], link, blocks)


@contextmanager
def proxy(prefill: str, decode: str) -> Iterator[str]:
    """The proxy with the Python of the image."""
    words = [
        "-m",
        "benchrun_client.proxy",
        "--engine=VLLM",
        f"--prefill={prefill}",
        f"--decode={decode}",
    ]
    process = subprocess.Popen(
        [CLIENT_PYTHON, *words, "--address=127.0.0.1", "--port=0"],
        env={**os.environ, "PYTHONPATH": str(CLIENT_ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline().rpartition(' ')[2])}"
    finally:
        process.kill()
        process.communicate()


def health(url: str) -> int:
    try:
        with urllib.request.urlopen(f"{url}/health") as response:
            return int(response.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def prompt(seed: int, tokens: int = PROMPT_TOKENS) -> list[int]:
    draw = random.Random(seed)
    return [draw.randrange(300, 1500) for _ in range(tokens)]


def post(url: str, **body: object) -> bytes:
    asked = {
        "model": "tiny",
        "max_tokens": 8,
        "temperature": 0,
        "ignore_eos": True,
    } | body
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(asked).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        said: bytes = response.read()
        return said


def text(url: str, seed: int) -> str:
    said: dict[str, Any] = json.loads(post(url, prompt=prompt(seed)))
    answer: str = said["choices"][0]["text"]
    return answer


def counters(server: VllmServer) -> dict[str, float]:
    """What tells where prompts came from."""
    with urllib.request.urlopen(f"{server.url}/metrics") as response:
        lines = response.read().decode().splitlines()
    pairs = (
        line.removeprefix("vllm:").rsplit(" ", 1)
        for line in lines
        if line.startswith("vllm:")
    )
    found = {name: float(value) for name, value in pairs}
    wanted = {
        "hits": 'external_prefix_cache_hits_total{engine="0",model_name="tiny"}',
        "queries": 'external_prefix_cache_queries_total{engine="0",model_name="tiny"}',
        "fetched": 'prompt_tokens_by_source_total{engine="0",model_name="tiny",source="external_kv_transfer"}',
        "computed": 'prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_compute"}',
    }
    return {short: found[name] for short, name in wanted.items()}


@contextmanager
def rising(server: VllmServer) -> Iterator[dict[str, float]]:
    """By what the counters rise within the block."""
    before = counters(server)
    risen = dict[str, float]()
    yield risen
    risen |= {
        name: value - before[name] for name, value in counters(server).items()
    }


def test_decode_fetches_what_prefill_has_computed(split: Split) -> None:
    with rising(split.prefill) as at_prefill, rising(split.decode) as at_decode:
        text(split.url, seed=1)
    assert at_prefill == {
        "queries": 1000,
        "hits": 0,
        "fetched": 0,
        "computed": 1000,
    }
    assert at_decode == {
        "queries": 1000,
        "hits": 896,
        "fetched": 896,
        "computed": 104,
    }


def test_prompts_at_once_are_fetched_too(split: Split) -> None:
    with rising(split.decode) as risen, ThreadPoolExecutor(AT_ONCE) as pool:
        assert all(
            pool.map(lambda seed: text(split.url, seed), range(100, 100 + AT_ONCE))
        )
    assert risen["fetched"] == AT_ONCE * FETCHED_TOKENS


def test_a_stream_is_that_of_decode(split: Split) -> None:
    through, past = (
        post(url, prompt=prompt(2), stream=True)
        for url in (split.url, split.decode.url)
    )
    texts = []
    for said in (through, past):
        assert said.endswith(b"data: [DONE]\n\n")
        events = [
            line for line in said.split(b"\n\n") if line.startswith(b"data: {")
        ]
        texts.append(
            [
                json.loads(event.removeprefix(b"data: "))["choices"]
                for event in events
            ]
        )
    assert texts[0] == texts[1]
    assert len(texts[0]) == 8


def test_a_broken_transfer_shows_in_the_counters_and_nowhere_else(
    split: Split, tmp_path: Path
) -> None:
    split.lead_aside(tmp_path)
    with rising(split.decode) as risen:
        recomputed = text(split.url, seed=3)
    split.lead_aside(split.folder)
    assert risen == {"queries": 1000, "hits": 0, "fetched": 0, "computed": 1000}
    with rising(split.decode) as risen:
        assert text(split.url, seed=3) == recomputed
    assert risen["fetched"] == FETCHED_TOKENS


def test_the_caches_of_both_are_emptied_at_once_or_the_answer_says_what_is_missing(
    split: Split,
) -> None:
    with urllib.request.urlopen(
        urllib.request.Request(f"{split.url}/reset_prefix_cache", method="POST")
    ) as response:
        answer = json.load(response)
    assert answer["success"] is False
    assert "VLLM_SERVER_DEV_MODE=1" in answer["answer"]


def test_a_prefill_server_that_dies_is_named(split: Split) -> None:
    split.prefill.kill()
    with pytest.raises(urllib.error.HTTPError) as refused:
        text(split.url, seed=4)
    assert refused.value.code == 502
    assert "proxy: prefill: " in json.load(refused.value)["error"]["message"]
    for _ in polling("the proxy is no longer ready", seconds=30):
        if health(split.url) == 503:
            break
