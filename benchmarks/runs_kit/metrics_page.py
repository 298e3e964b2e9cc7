"""A metrics page like vLLM 0.32's: 630 lines, 52 kB; a dozen move, the rest are histograms."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass

from benchrun_client.contract import START_TIME

PORT = 8000
_LABELS = '{engine="0",model_name="scale/model"}'
_BOUNDS = (
    "0.001",
    "0.005",
    "0.01",
    "0.02",
    "0.04",
    "0.06",
    "0.08",
    "0.1",
    "0.25",
    "0.5",
    "0.75",
    "1.0",
    "2.5",
    "5.0",
    "7.5",
    "10.0",
    "20.0",
    "40.0",
    "80.0",
    "+Inf",
)
_HISTOGRAMS = 25


@dataclass(frozen=True, slots=True)
class Work:
    """The load a stage puts on a server, spread evenly over its time.

    It must be no more than the stage's own, or the excess would count as foreign load.
    """

    requests: int = 0
    input_tokens: int = 0
    """Input tokens of each request; `output_tokens` is per request as well."""
    output_tokens: int = 0
    began: float = 0.0
    """Start of the work in Unix seconds."""
    ends: float = 0.0

    def done(self, now: float) -> int:
        """Return how many requests have been answered by `now`, in Unix seconds."""
        share = (
            1.0
            if now >= self.ends
            else max(0.0, now - self.began) / (self.ends - self.began)
        )
        return int(share * self.requests)


class Server:
    """The counters of one run's server since it started."""

    def __init__(self) -> None:
        self._started = time.time()
        self._before: Counter[str] = Counter()
        self._work = Work()

    def begin(self, work: Work) -> None:
        """Begin the next stage; the rest of the previous one counts as done."""
        self._before = self._counted(self._work.ends)
        self._work = work

    def counters(self) -> dict[str, float]:
        """Return the counters by name, without the `vllm:` prefix, like the client's snapshots."""
        counted = {
            name: float(value) for name, value in self._counted(time.time()).items()
        }
        return {
            **counted,
            "prefix_cache_hits_total": 0.0,
            "num_preemptions_total": 0.0,
            START_TIME: round(self._started, 2),
        }

    def _counted(self, now: float) -> Counter[str]:
        done = self._work.done(now)
        found = Counter(self._before)
        found["request_success_total"] += done
        found["generation_tokens_total"] += done * self._work.output_tokens
        for of_prompts in ("prompt_tokens_total", "prefix_cache_queries_total"):
            found[of_prompts] += done * self._work.input_tokens
        return found

    def page(self) -> bytes:
        """Return the whole metrics page."""
        now = time.time()
        counters = self.counters()
        lines = [
            f"{START_TIME} {counters.pop(START_TIME)}",
            f"vllm:num_requests_running{_LABELS} {int(now) % 16}.0",
            f"vllm:num_requests_waiting{_LABELS} {int(now) % 3}.0",
            f"vllm:kv_cache_usage_perc{_LABELS} {now % 60 / 100:.6f}",
            (
                'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="27632",'
                'kv_cache_size_tokens="442112"} 1.0'
            ),
            *(f"vllm:{name}{_LABELS} {value}" for name, value in counters.items()),
        ]
        return "\n".join(lines).encode() + b"\n" + _HISTOGRAM_LINES


def _histogram(number: int) -> list[str]:
    name = f"vllm:request_phase_{number:02d}_time_seconds"
    head = [
        f"# HELP {name} Histogram of time spent in one phase of a request, in seconds.",
        f"# TYPE {name} histogram",
    ]
    buckets = [
        f'{name}_bucket{{engine="0",le="{bound}",model_name="scale/model"}} {7 * i}.0'
        for i, bound in enumerate(_BOUNDS)
    ]
    return [
        *head,
        *buckets,
        f"{name}_count{_LABELS} 140.0",
        f"{name}_sum{_LABELS} 77.70000000000001",
    ]


_HISTOGRAM_LINES = (
    "\n".join(
        line for number in range(_HISTOGRAMS) for line in _histogram(number)
    ).encode()
    + b"\n"
)


class MetricsServer:
    """A server of GET /metrics and /version on many loopback addresses, one per played server.

    It speaks one small protocol, since the benchmark shares the machine's cores with what it
    measures.
    """

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        """Servers by address; an address without one answers 503, as a loading server would."""
        self.readings: Counter[str] = Counter()
        """Number of pages read, by address."""
        self._listener: asyncio.Server | None = None

    async def start(self, addresses: list[str]) -> None:
        """Listen on port 8000 of each address."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: _Connection(self), addresses, PORT
        )

    def stop(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.close()

    def answer(self, address: str, path: str) -> tuple[int, bytes]:
        """Return HTTP status and body for a path; count readings of the page."""
        server = self.servers.get(address)
        if server is None:
            return 503, b"loading\n"
        if path == "/version":
            return 200, b'{"version":"0.32.0"}'
        self.readings[address] += 1
        return 200, server.page()


class _Connection(asyncio.Protocol):
    def __init__(self, owner: MetricsServer) -> None:
        self._owner = owner
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._address = str(transport.get_extra_info("sockname")[0])

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, self._buffer = self._buffer.split(b"\r\n\r\n", 1)
            status, body = self._owner.answer(
                self._address, head.split(b" ", 2)[1].decode()
            )
            self._transport.write(
                b"HTTP/1.1 %d .\r\nContent-Type: text/plain; version=1.0.0; "
                b"charset=utf-8\r\nContent-Length: %d\r\n\r\n"
                % (status, len(body))
                + body
            )
