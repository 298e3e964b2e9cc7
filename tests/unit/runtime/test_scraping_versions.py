"""The version that a server says of itself, and every way in which it may say none."""

import asyncio

import pytest
from benchrun.decide import Collected, ScrapeTarget
from benchrun.effects import FetchError
from benchrun.runtime.scrapers import Scraper
from benchrun.runtime.telemetry import Telemetry
from unit.runtime.fakes import PAGE, Web, loop_now
from unit.runtime.fast_time import passing, run_fast

TARGET = ScrapeTarget(role="server", pod="p", url="http://10.0.0.1:8000/metrics", interval_seconds=2)


def scraped(web: Web, *, seconds: float = 9) -> Collected:
    """What is remembered after that time."""
    collected = Collected()
    scraper = Scraper(TARGET, collected, fetcher=web, now=loop_now, telemetry=Telemetry(), news=lambda: None)

    async def go_on() -> None:
        task = asyncio.create_task(scraper.run())
        await passing(seconds)
        assert not task.done(), "a server must not end its own scraping"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_fast(go_on())
    return collected


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        ("0.32.0", '{"version": "0.32.0"}'),
        ("0.32.0", '{"version": "0.32.0", "more": [1]}'),
        ("7", '{"version": 7}'),
        ("v" * 100, f'{{"version": "{"v" * 3000}"}}'),
        (None, "{}"),
        (None, "[]"),
        (None, '["version"]'),
        (None, "null"),
        (None, "<html>"),
        (None, ""),
        (None, "[" * 4096),
        (None, '{"version":' * 400),
        (None, FetchError("HTTP 404")),
    ],
)
def test_a_version_is_known_or_not_and_the_samples_go_on(version: str | None, answer: str | Exception) -> None:
    collected = scraped(Web(metrics=PAGE, version=answer))
    assert collected.server_facts["p"].version == version
    assert len(collected.samples.unstored) == 5, "one every two seconds"


def test_it_is_requested_once_beside_the_page() -> None:
    web = Web(metrics=PAGE, version='{"version": "1"}')
    scraped(web)
    assert [url for url, _ in web.requests if url.endswith("/version")] == ["http://10.0.0.1:8000/version"]


def test_of_a_page_that_was_never_read_nothing_is_known() -> None:
    web = Web(metrics=FetchError("HTTP 503"), version='{"version": "1"}')
    assert scraped(web).server_facts == {}
    assert web.times_of("/version") == []
