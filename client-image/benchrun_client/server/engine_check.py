"""Whether a server is of the engine that the plan names, by the series of its metrics page.

Engines answer each other's health path, and requests too. A server of another engine than the one
that was named would be measured without its figures, so the run ends before any load.
"""

from collections.abc import Sequence

import aiohttp

from benchrun_client.engines import ENGINES, Engine, EngineName
from benchrun_client.failures import RunFailure
from benchrun_client.server.counter_snapshots import read_metrics, speaking


async def check_engines(
    session: aiohttp.ClientSession, metrics_urls: Sequence[str], engine: Engine
) -> None:
    """Raise RunFailure `EngineMismatch` if a server has the metrics of another engine only.

    A server is not judged if its metrics can't be read, or have the series of no engine.
    """
    for url in metrics_urls:
        page = await read_metrics(session, url)
        if page is not None and engine in speaking(page, engine.metrics_path):
            continue
        base = url.removesuffix(engine.metrics_path)
        pages = {engine.metrics_path: page}
        if base != url:
            for path in {each.metrics_path for each in ENGINES.values()} - {*pages}:
                pages[path] = await read_metrics(session, base + path)
        for path, text in pages.items():
            if others := speaking(text or "", path):
                raise _mismatch(base + path, engine, others[0])


def _mismatch(url: str, engine: Engine, other: Engine) -> RunFailure:
    name: EngineName = next(name for name, each in ENGINES.items() if each is other)
    return RunFailure(
        "EngineMismatch",
        f"{url} has series {other.series_begin}...: the server is {other.name}, not {engine.name}. "
        f"Set endpoint.engine, or server.engine with its image, to {name}.",
    )
