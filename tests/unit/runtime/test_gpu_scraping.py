"""An exporter's page is read beside a server's, and never in its way. Time jumps, but for the one
over real HTTP."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from aiohttp import web
from aiohttp.test_utils import TestServer
from benchrun.decide import Collected, ExporterEndpoint, ExporterKind, ScrapeTarget
from benchrun.effects import Fetcher, FetchError
from benchrun.measure.metrics_page import Sample
from benchrun.runtime.scrapers import Scraper
from benchrun.runtime.telemetry import Telemetry
from benchrun_client.engines import ENGINES
from unit.measure.cadvisor_pages import cadvisor_page
from unit.measure.gpu_pages import Gpu, gpu_page
from unit.runtime.fakes import PAGE, Web, loop_now
from unit.runtime.fast_time import passing, run_fast

VLLM = ENGINES["VLLM"]

TARGET = ScrapeTarget(
    role="server",
    pod="chat-server-x",
    url="http://10.0.0.1:8000/metrics",
    interval_seconds=1,
    exporters=(
        ExporterEndpoint("gpu", "http://10.1.0.7:9400/exporter", namespace="lab"),
    ),
    engine=VLLM,
)


class Scene:
    """A scraper with an exporter beside it, and what came of it."""

    def __init__(
        self,
        exporter: str | Exception | Callable[[], str],
        *,
        target: ScrapeTarget = TARGET,
    ) -> None:
        self.web = Web(metrics=PAGE, exporter=exporter, version='{"version": "1"}')
        self.collected = Collected()
        self.news: list[dict[tuple[ExporterKind, str], str]] = []
        self.scraper = Scraper(
            target,
            self.collected,
            fetcher=self.web,
            now=loop_now,
            telemetry=Telemetry(),
            news=lambda: self.news.append(dict(self.collected.exporter_troubles)),
        )

    def after(self, seconds: float) -> list[Sample]:
        async def go_on() -> None:
            task = asyncio.create_task(self.scraper.run())
            await passing(seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        run_fast(go_on())
        return self.collected.samples.unstored


def with_gpu_figures(samples: list[Sample]) -> list[Sample]:
    return [sample for sample in samples if sample.gpu_watts is not None]


def test_every_fifth_sample_has_gpu_figures() -> None:
    scene = Scene(gpu_page(Gpu()))
    samples = scene.after(100.0)
    assert (len(samples), len(with_gpu_figures(samples))) == (100, 20)
    assert {
        (s.running, s.gpu_watts, s.gpu_memory_mib, s.sm_clock_mhz)
        for s in with_gpu_figures(samples)
    } == {(3.0, 412.5, 71_234.0, 1980.0)}
    assert scene.collected.exporter_troubles == {}


def test_each_exporter_sample_counts_once() -> None:
    energies = iter(range(1000, 10**9, 1000))
    samples = with_gpu_figures(
        Scene(lambda: gpu_page(Gpu(millijoules=next(energies)))).after(60.0)
    )
    assert [sample.gpu_joules for sample in samples] == [
        float(n) for n in range(1, len(samples) + 1)
    ]


def test_an_exporter_that_hangs_does_not_hold_up_the_server() -> None:
    scene = Scene(FetchError("too slow"))
    fetch = scene.web.fetch

    async def hanging(url: str, *, limit_bytes: int, timeout_seconds: float) -> str:
        if url.endswith("/exporter"):
            await passing(timeout_seconds)
        return await fetch(
            url, limit_bytes=limit_bytes, timeout_seconds=timeout_seconds
        )

    scene.web.fetch = hanging  # type: ignore[method-assign]
    samples = scene.after(100.0)
    assert (len(samples), with_gpu_figures(samples)) == (100, [])


def test_the_reason_for_no_figures_is_known_until_there_are_some() -> None:
    pages = iter([gpu_page(Gpu(pod=None))] * 2 + [gpu_page(Gpu())] * 99)
    scene = Scene(lambda: next(pages))
    samples = scene.after(60.0)
    why = "the exporter does not say which pod uses which GPU (set DCGM_EXPORTER_KUBERNETES=true)"
    assert {("gpu", "chat-server-x"): why} in scene.news
    assert scene.collected.exporter_troubles == {}
    assert len(with_gpu_figures(samples)) == 10


def test_an_exporter_that_is_gone_is_reported_once() -> None:
    scene = Scene(FetchError("HTTP 503"))
    scene.after(100.0)
    assert scene.collected.exporter_troubles == {
        ("gpu", "chat-server-x"): "the exporter's metrics can't be read: HTTP 503"
    }
    assert len(scene.news) == 2, (
        "of the server that answers, and of the exporter that does not"
    )


def test_without_an_exporter_none_is_queried() -> None:
    scene = Scene(gpu_page(Gpu()), target=replace(TARGET, exporters=()))
    assert with_gpu_figures(scene.after(20.0)) == []
    assert scene.web.times_of("/exporter") == []


def test_cadvisor_is_read_beside_the_gpu_exporter() -> None:
    cadvisor = ExporterEndpoint(
        "cpu", "http://10.1.0.8:8080/cadvisor", namespace="lab"
    )
    scene = Scene(
        gpu_page(Gpu()),
        target=replace(TARGET, exporters=(*TARGET.exporters, cadvisor)),
    )
    scene.web.pages["/cadvisor"] = cadvisor_page(periods=200, throttled=30)
    read = [s for s in scene.after(100.0) if s.cpu_periods is not None]
    assert len(read) == 20
    assert {
        (s.cpu_periods, s.cpu_throttled_periods, s.gpu_watts) for s in read
    } == {(200.0, 30.0, 412.5)}


class UnstoredSamples(list[Sample]):
    """Those of a server; says when one comes that has its GPUs beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.with_gpus = asyncio.Event()

    def append(self, sample: Sample) -> None:
        super().append(sample)
        if sample.gpu_watts is not None:
            self.with_gpus.set()


async def test_over_real_http_what_the_exporter_serves_is_what_is_kept() -> None:
    page = gpu_page(Gpu(), Gpu(number=1, watts=100.0), Gpu(number=2, pod="another"))

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=page if request.path == "/exporter" else PAGE)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    collected = Collected()
    fetcher = Fetcher()
    server = TestServer(app)
    async with server:
        url = str(server.make_url("/"))
        target = replace(
            TARGET,
            url=f"{url}metrics",
            exporters=(ExporterEndpoint("gpu", f"{url}exporter", namespace="lab"),),
        )
        collected.samples.unstored = samples = UnstoredSamples()
        scraper = Scraper(
            target,
            collected,
            fetcher=fetcher,
            now=loop_now,
            telemetry=Telemetry(),
            news=lambda: None,
        )
        task = asyncio.create_task(scraper.run())
        async with asyncio.timeout(10):
            await samples.with_gpus.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await fetcher.close()
    assert with_gpu_figures(collected.samples.unstored)[0].gpu_watts == 512.5
