"""Stand-ins for the network and the clock."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from benchrun.effects import Fetcher, FetchError
from unit.runtime.fast_time import passing

Page = str | bytes | Exception | Callable[[], str | bytes]

PAGE = """# HELP vllm:num_requests_running Requests running.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 100.0
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1000.0
"""


def loop_now() -> datetime:
    """Return the event loop's time as wall-clock time."""
    return datetime.fromtimestamp(
        1_000_000 + asyncio.get_running_loop().time(), UTC
    )


class Web(Fetcher):
    """Pages by the end of their URL: a text, bytes, an error, or a function that gives either."""

    def __init__(self, **pages: Page) -> None:
        self.pages = {"/" + name: page for name, page in pages.items()}
        self.requests: list[tuple[str, float]] = []
        self.posted: list[tuple[str, str]] = []
        self.headers: list[Mapping[str, str]] = []
        self.takes_seconds = 0.0
        self.at_once = 0
        self.most_at_once = 0

    def times_of(self, end: str) -> list[float]:
        """Return the loop times at which pages with this end were requested."""
        return [at for url, at in self.requests if url.endswith(end)]

    async def fetch_bytes(
        self,
        url: str,
        *,
        limit_bytes: int,
        timeout_seconds: float,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        self.requests.append((url, asyncio.get_running_loop().time()))
        self.headers.append(headers or {})
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await passing(min(self.takes_seconds, timeout_seconds))
        finally:
            self.at_once -= 1
        if self.takes_seconds > timeout_seconds:
            raise FetchError("too slow")
        page = next(
            (
                page
                for end, page in self.pages.items()
                if url.partition("?")[0].endswith(end)
            ),
            None,
        )
        if page is None:
            raise FetchError("HTTP 404", status=404)
        if isinstance(page, Exception):
            raise page
        found = page() if callable(page) else page
        return found.encode() if isinstance(found, str) else found

    async def post(
        self,
        url: str,
        body: str,
        *,
        timeout_seconds: float,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.posted.append((url, body))
        self.headers.append(headers or {})
