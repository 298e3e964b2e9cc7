"""Reading a metrics page at every tick, and telling only what a decision may turn on. Time
jumps."""

import asyncio
from collections.abc import Callable
from itertools import count, pairwise

import pytest
from benchrun.decide import MAX_SERVERS, Collected, ScrapeTarget
from benchrun.effects import FetchError
from benchrun.measure import ServerFacts
from benchrun.runtime import scrapers
from benchrun.runtime.scrapers import Scraper
from benchrun.runtime.telemetry import Telemetry
from benchrun_client.engines import ENGINES
from unit.runtime.fakes import PAGE, Web, loop_now
from unit.runtime.fast_time import in_fast_time, passing, run_fast

VLLM = ENGINES["VLLM"]

TARGET = ScrapeTarget(
    role="server",
    pod="p",
    url="http://10.0.0.1:8000/metrics",
    interval_seconds=2,
    engine=VLLM,
)
VERSION = '{"version": "0.32.0"}'


class Scene:
    """A scraper, and what came of it."""

    def __init__(
        self, web: Web, target: ScrapeTarget = TARGET, *, beside: int = 1
    ) -> None:
        self.web = web
        self.collected = Collected()
        self.telemetry = Telemetry()
        self.news = 0
        self._scraper = Scraper(
            target,
            self.collected,
            fetcher=web,
            now=loop_now,
            telemetry=self.telemetry,
            news=self._tell,
            servers=beside,
        )

    async def go_on(self, seconds: float) -> None:
        task = asyncio.create_task(self._scraper.run())
        await passing(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def count(self, result: str) -> float:
        return (
            self.telemetry.registry.get_sample_value(
                "benchrun_scrapes_total", {"result": result}
            )
            or 0.0
        )

    def _tell(self) -> None:
        self.news += 1


def after(seconds: float, web: Web) -> Scene:
    scene = Scene(web)
    run_fast(scene.go_on(seconds))
    return scene


def changing(*pages: str) -> Callable[[], str]:
    """One page after the other; the last one stays. An empty one is an error."""
    left = list(pages)

    def page() -> str:
        text = left.pop(0) if len(left) > 1 else left[0]
        if not text:
            raise FetchError("HTTP 503")
        return text

    return page


def test_page_is_read_at_every_tick_without_drift() -> None:
    web = Web(metrics=PAGE, version=VERSION)
    web.takes_seconds = 0.25
    times = after(100, web).web.times_of("/metrics")
    assert len(times) == 50
    assert {round(b - a, 6) for a, b in pairwise(times)} == {2.0}


def test_slow_page_never_overlaps_and_its_missed_ticks_are_skipped() -> None:
    web = Web(metrics=PAGE, version=VERSION)
    web.takes_seconds = 3.0
    times = after(100, web).web.times_of("/metrics")
    assert web.most_at_once == 1
    assert {round(b - a, 6) for a, b in pairwise(times[1:])} == {4.0}


@in_fast_time
async def test_runs_do_not_all_read_at_the_same_instant() -> None:
    webs = [Web(metrics=PAGE, version=VERSION) for _ in range(20)]
    targets = [
        ScrapeTarget(
            role="server",
            pod=str(n),
            url=f"http://10.0.0.{n}:8000/metrics",
            interval_seconds=1,
            engine=VLLM,
        )
        for n in range(20)
    ]
    await asyncio.gather(
        *(Scene(w, t).go_on(1.5) for w, t in zip(webs, targets, strict=True))
    )
    first = [w.times_of("/metrics")[0] for w in webs]
    assert len(set(first)) > 15
    assert all(0 <= at < 1 for at in first)


def test_samples_carry_role_pod_and_the_instant_of_the_answer() -> None:
    scene = after(7, Web(metrics=PAGE, version=VERSION))
    first = scene.collected.samples.unstored[0]
    assert (first.role, first.pod, first.running, first.generation_tokens) == (
        "server",
        "p",
        3.0,
        100.0,
    )
    assert first.at >= 1_000_000
    assert [
        round(s.at - first.at, 3) for s in scene.collected.samples.unstored
    ] == [0, 2, 4, 6]
    assert scene.count("success") == 4


def test_first_page_is_news_and_those_after_are_not() -> None:
    assert after(100, Web(metrics=PAGE, version=VERSION)).news == 1


def test_server_facts_are_requested_once() -> None:
    scene = after(100, Web(metrics=PAGE, version=VERSION))
    assert scene.collected.server_facts["p"].version == "0.32.0"
    assert len(scene.web.times_of("/version")) == 1


def test_facts_that_cannot_be_read_are_asked_for_again_and_the_samples_go_on() -> (
    None
):
    page = (
        PAGE + 'vllm:cache_config_info{engine="0",odd="' + "x" * 9000 + '"} 1.0\n'
    )
    scene = after(10, Web(metrics=page, version=VERSION))
    assert scene.collected.server_facts == {}
    assert len(scene.collected.samples.unstored) >= 4


def test_server_that_does_not_tell_its_version_is_measured_all_the_same() -> None:
    for answer in (FetchError("HTTP 404"), "not json", "[]", "{}"):
        scene = after(10, Web(metrics=PAGE, version=answer))
        assert scene.collected.server_facts["p"].version is None
        assert len(scene.collected.samples.unstored) >= 4


def test_page_that_cannot_be_read_is_counted_and_logged_once() -> None:
    scene = after(100, Web(metrics=FetchError("refused")))
    assert (
        scene.news,
        scene.count("failure"),
        scene.collected.samples.unstored,
    ) == (1, 50, [])


BAD_FACTS = 'vllm:cache_config_info{block_size="16" 1\n'


def test_a_page_whose_settings_cannot_be_read_has_figures() -> None:
    scene = after(10, Web(metrics=PAGE + BAD_FACTS, version=VERSION))
    assert (scene.count("failure"), len(scene.collected.samples.unstored)) == (0, 5)


def costing(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the processor's clock finds it so much further."""
    clock = count(0, seconds)
    monkeypatch.setattr(scrapers, "thread_time", lambda: next(clock))


def test_a_page_that_costs_much_is_read_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costing(1.01, monkeypatch)
    times = after(100, Web(metrics=PAGE, version=VERSION)).web.times_of("/metrics")
    assert min(b - a for a, b in pairwise(times)) >= 20
    assert len(times) >= 4


def test_servers_of_one_run_share_what_their_pages_may_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costing(0.11, monkeypatch)
    scene = Scene(Web(metrics=PAGE, version=VERSION), beside=10)
    run_fast(scene.go_on(100))
    assert min(b - a for a, b in pairwise(scene.web.times_of("/metrics"))) >= 20


def test_answer_that_is_no_metrics_page_is_a_failure() -> None:
    scene = after(10, Web(metrics="<html>login</html>"))
    assert scene.collected.samples.unstored == []
    assert scene.count("failure") == 5


def test_page_that_comes_back_is_news() -> None:
    assert (
        after(
            100, Web(metrics=changing(PAGE, PAGE, "", "", PAGE), version=VERSION)
        ).news
        == 3
    )


def test_server_that_started_anew_is_news() -> None:
    anew = PAGE.replace("start_time_seconds 1000.0", "start_time_seconds 2000.0")
    assert (
        after(100, Web(metrics=changing(PAGE, PAGE, anew), version=VERSION)).news
        == 2
    )


# The version that a server says of itself, and every way in which it may say none.

TARGET_SCRAPING_VERSIONS = ScrapeTarget(
    role="server",
    pod="p",
    url="http://10.0.0.1:8000/metrics",
    interval_seconds=2,
    engine=VLLM,
)


def scraped(web: Web, *, seconds: float = 9) -> Collected:
    """What is remembered after that time."""
    collected = Collected()
    scraper = Scraper(
        TARGET_SCRAPING_VERSIONS,
        collected,
        fetcher=web,
        now=loop_now,
        telemetry=Telemetry(),
        news=lambda: None,
    )

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
        ("1red", '{"version": "1\\ud800\\u001b[31mred"}'),
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
def test_a_version_is_known_or_not_and_the_samples_go_on(
    version: str | None, answer: str | Exception
) -> None:
    collected = scraped(Web(metrics=PAGE, version=answer))
    assert collected.server_facts["p"].version == version
    assert len(collected.samples.unstored) == 5, "one every two seconds"


def test_it_is_requested_once_beside_the_page() -> None:
    web = Web(metrics=PAGE, version='{"version": "1"}')
    scraped(web)
    assert [url for url, _ in web.requests if url.endswith("/version")] == [
        "http://10.0.0.1:8000/version"
    ]


def test_of_a_page_that_was_never_read_nothing_is_known() -> None:
    web = Web(metrics=FetchError("HTTP 503"), version='{"version": "1"}')
    assert scraped(web).server_facts == {}
    assert web.times_of("/version") == []


def test_what_replicas_said_that_have_gone_is_forgotten() -> None:
    collected = Collected()
    collected.server_facts |= {str(n): ServerFacts() for n in range(MAX_SERVERS)}
    web = Web(metrics=PAGE, version=VERSION)
    scraper = Scraper(
        TARGET,
        collected,
        fetcher=web,
        now=loop_now,
        telemetry=Telemetry(),
        news=lambda: None,
    )

    async def go_on() -> None:
        task = asyncio.create_task(scraper.run())
        await passing(9)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_fast(go_on())
    assert len(collected.server_facts) == MAX_SERVERS
    assert "0" not in collected.server_facts
    assert collected.server_facts["p"].version == "0.32.0"
