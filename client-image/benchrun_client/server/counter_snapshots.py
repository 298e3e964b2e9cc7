"""What a server reports of itself: its counters at one instant, and version, settings and models.

A snapshot of the counters is taken between two stages, when the server is idle; it serves as the
end of one stage and the beginning of the next. Metrics that are missing, endless or garbage give
None, never an error: the measurement does not depend on them.
"""

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from typing import Any

import aiohttp

from benchrun_client import contract
from benchrun_client.engines import ENGINES, Engine
from benchrun_client.engines.metrics_text import EXEMPLAR, is_whole, number
from benchrun_client.failures import shorten
from benchrun_client.http_session import (
    MODELS_PATH,
    NETWORK_ERRORS,
    answer_of,
    host_and_port,
    read_bounded,
)

MAX_METRICS_BYTES = 4 * 1024 * 1024
METRICS_SECONDS = 2.0
SETTLE_SECONDS = 2.0
SETTLE_POLL_SECONDS = 0.01
GONE_SECONDS = 15.0
"""Longest wait, in seconds, for a server whose metrics can no longer be read, most likely because
its process has ended. Without this wait the run could end before the server's restart is seen."""
_FINISHED = "request_success_total"
_OF_PROXY = "benchrun_proxy_requests_total"
_RUNNING = "running"  # A name that no counter has.


@cache
def _spellings(engine: Engine) -> Mapping[str, tuple[str, ...]]:
    """Return the series' names, newest first, for each value of a snapshot."""
    others = (*contract.PROXY_COUNTERS, contract.START_TIME)
    return {
        **engine.counter_series,
        _RUNNING: engine.sample_series["running"],
        **{name: (name,) for name in others},
    }


@cache
def _known(engine: Engine) -> frozenset[str]:
    names = (*_spellings(engine).values(), *engine.counter_sums.values())
    return frozenset(series for each in names for series in each)


@cache
def _wanted(engine: Engine) -> tuple[str, ...]:
    return tuple(_known(engine))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The counters of one server, summed over its engines, and its running requests.

    The running requests are None if they are not known.
    """

    counters: dict[str, float]
    running: float | None


Snapshots = Sequence[Snapshot | None]
"""One snapshot per server; None if its metrics could not be read."""


def parse_metrics(text: str, engine: Engine) -> Snapshot | None:
    """Parse the series of a snapshot from a metrics text.

    Returns None if the text has no series of the engine or of the proxy, or was cut.
    """
    if not is_whole(text):
        return None
    sums: dict[str, float] = {}
    known = _known(engine)
    wanted = _wanted(engine)
    labelled: dict[str, float] = {}
    for line in text.splitlines():
        # Of some 800 lines 20 are wanted: this test is what makes reading them cheap.
        if not line.startswith(wanted):
            continue
        series, value = _sample(line)
        if series not in known or value is None:
            continue
        sums[series] = sums.get(series, 0.0) + value
        for name, (of, label) in engine.labelled_counters.items():
            if series in (of, of.removesuffix("_total")) and label in line:
                labelled[name] = labelled.get(name, 0.0) + value
    found = labelled | {
        name: sums[there]
        for name, names in _spellings(engine).items()
        if (there := next((series for series in names if series in sums), None))
        is not None
    }
    found |= {
        name: sum(sums[part] for part in parts)
        for name, parts in engine.counter_sums.items()
        if all(part in sums for part in parts)
    }
    if _FINISHED in found:
        found = dict.fromkeys(engine.counters_at_first_event, 0.0) | found
    others = (
        ()
        if _OF_PROXY in found
        else {*contract.PROXY_COUNTERS} - {contract.PROCESS_CPU}
    )
    # A sum may be out of bounds where none of its parts is, or one of its parts unknown; what a
    # record does not take is left out.
    found = {
        name: value
        for name, value in found.items()
        if name not in others and abs(value) <= contract.MOST
    }
    if not found.keys() - {contract.START_TIME, contract.PROCESS_CPU}:
        return None
    return Snapshot(running=found.pop(_RUNNING, None), counters=found)


def _sample(line: str) -> tuple[str, float | None]:
    """Parse name and value from a line of Prometheus text; label values may hold spaces and braces.

    A line that can't be parsed gives an empty name and None.
    """
    line = line.partition(EXEMPLAR)[0]
    name, brace, rest = line.partition("{")
    fields = rest.rpartition("}")[2].split() if brace else line.split()[1:]
    try:
        value = number(fields[0])
    except (IndexError, ValueError):
        return "", None
    return (name.strip() if brace else line.split(maxsplit=1)[0]), value


async def take(
    session: aiohttp.ClientSession, urls: Sequence[str], engine: Engine
) -> Snapshots:
    """Take one snapshot of every server, all at the same time."""
    texts = await asyncio.gather(*(read_metrics(session, url) for url in urls))
    return [None if text is None else parse_metrics(text, engine) for text in texts]


async def read_metrics(session: aiohttp.ClientSession, url: str) -> str | None:
    """Read a metrics endpoint's text within bounds of size and time.

    Return None if that fails, or if the text was cut.
    """
    try:
        async with session.get(
            url, timeout=aiohttp.ClientTimeout(total=METRICS_SECONDS)
        ) as response:
            page = await read_bounded(response, MAX_METRICS_BYTES)
            is_page = response.status == 200 and len(page) < MAX_METRICS_BYTES
            text = page.decode(errors="replace") if is_page else None
            return text if text is not None and is_whole(text) else None
    except NETWORK_ERRORS:
        return None


async def take_settled(
    session: aiohttp.ClientSession,
    urls: Sequence[str],
    engine: Engine,
    *,
    before: Snapshots,
    completed: int,
    answering: Sequence[bool],
) -> Snapshots:
    """Take snapshots once the servers have counted `completed` more requests and run none.

    `answering` says of each server whether it counts answers.

    A server updates its counters only one engine step (10 to 30 ms) after the last byte of an
    answer. After `SETTLE_SECONDS` the snapshots are taken as they are; a missing server is waited
    for up to `GONE_SECONDS`. Counts may be missing then, which the judge finds.
    """
    start = time.monotonic()
    while True:
        now = await take(session, urls, engine)
        gone = any(
            n is None for b, n in zip(before, now, strict=True) if b is not None
        )
        seconds = GONE_SECONDS if gone else SETTLE_SECONDS
        if (
            _settled(before, now, completed, answering)
            or time.monotonic() > start + seconds
        ):
            return now
        await asyncio.sleep(SETTLE_POLL_SECONDS)


async def take_idle(
    session: aiohttp.ClientSession, urls: Sequence[str], engine: Engine
) -> Snapshots:
    """Take snapshots when no server runs a request, at the latest after `SETTLE_SECONDS`."""
    end = time.monotonic() + SETTLE_SECONDS
    while True:
        now = await take(session, urls, engine)
        if (
            not any(snapshot and snapshot.running for snapshot in now)
            or time.monotonic() > end
        ):
            return now
        await asyncio.sleep(SETTLE_POLL_SECONDS)


def _settled(
    before: Snapshots, now: Snapshots, completed: int, answering: Sequence[bool]
) -> bool:
    pairs = list(compress(zip(before, now, strict=True), answering))
    if any(b is None or _FINISHED not in b.counters for b, _ in pairs):
        # A server that counts nothing, or could not be read before, would be waited for in vain.
        return True
    if any(
        n is None or n.running
        for b, n in zip(before, now, strict=True)
        if b is not None
    ):
        return False
    counted = sum(
        n.counters.get(_FINISHED, 0.0) - b.counters[_FINISHED]
        for b, n in pairs
        if b and n
    )
    return counted >= completed


ANSWER_SECONDS = 2.0
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
DIGEST_CHARACTERS = 32
MAX_VERSION_CHARACTERS = 100
_OF_A_MODEL = ("id", "root", "parent", "max_model_len")
MAX_MODELS_CHARACTERS = 300  # Largest length that a record accepts.


async def identify(
    session: aiohttp.ClientSession,
    metrics_url: str,
    engine: Engine,
    *,
    role: str,
    model: str,
) -> contract.ServerEdge:
    """Read what a server reports of itself, except its counters; never raises a network error.

    `model` is the model name of the requests.
    """
    metrics = await read_metrics(session, metrics_url)
    base = metrics_url.removesuffix(engine.metrics_path)
    answered = await _json(session, base + engine.version_path)
    listed = await _json(session, base + MODELS_PATH)
    known = answered if isinstance(answered, dict) else {}
    engines = speaking(metrics or "", engine.metrics_path)
    version = _text(known.get(engine.version_key))
    return contract.ServerEdge(
        address=host_and_port(metrics_url),
        role=role,
        before=None,
        after=None,
        version=None
        if version is None
        else shorten(version, MAX_VERSION_CHARACTERS),
        settings=settings_digest(
            metrics or "", engine, engine.answered_settings(known)
        ),
        models=models_text(listed),
        served=served_model(listed, model),
        engines=", ".join(each.name for each in engines) or None,
    )


def speaking(page: str, path: str) -> list[Engine]:
    """Return the engines that have their metrics at this path and whose series the page has."""
    here = [each for each in ENGINES.values() if each.metrics_path == path]
    beginnings = tuple(each.series_begin for each in here)
    own = [line for line in page.splitlines() if line.startswith(beginnings)]
    return [
        each
        for each in here
        if any(line.startswith(each.series_begin) for line in own)
    ]


async def _json(session: aiohttp.ClientSession, url: str) -> Any:
    try:
        async with session.get(
            url, timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        ) as response:
            answer = await answer_of(response)
        return answer.json() if answer.status == 200 else None
    except NETWORK_ERRORS:
        return None


def _text(value: Any) -> str | None:
    """Return a text in which characters that UTF-8 can't encode are replaced; None if not a text.

    JSON may contain halves of characters.
    """
    return (
        value.encode(errors="replace").decode() if isinstance(value, str) else None
    )


def _models(answer: Any) -> list[dict[str, Any]]:
    listed = answer.get("data") if isinstance(answer, dict) else None
    return (
        [model for model in listed if isinstance(model, dict)]
        if isinstance(listed, list)
        else []
    )


def served_model(answer: Any, name: str) -> contract.ServedModel | None:
    """Return the entry of /v1/models with that name, else the first; None if there is none.

    For an adapter, the root is that of its parent, the model that it adapts.
    """
    models = [
        model for model in _models(answer) if isinstance(model.get("id"), str)
    ]
    if not models:
        return None
    entry = next((model for model in models if model["id"] == name), models[0])
    parent = entry.get("parent")
    base = (
        next((model for model in models if model["id"] == parent), {})
        if parent
        else entry
    )
    root = _text(base.get("root"))
    too_long = root is not None and len(root) > contract.MAX_ROOT_CHARACTERS
    return contract.ServedModel(
        id=(_text(entry["id"]) or "")[: contract.MAX_ID_CHARACTERS],
        root=None if too_long else root,
    )


def models_text(answer: Any) -> str | None:
    """Return name, root, parent and max_model_len of each model as a text; None without models.

    A text that is too long is cut, and a digest of the whole is appended.
    """
    models = [
        " ".join(f"{name}={model[name]}" for name in _OF_A_MODEL if model.get(name))
        for model in _models(answer)
    ]
    text = _text("; ".join(sorted(models))) or ""
    if len(text) <= MAX_MODELS_CHARACTERS:
        return text or None
    return (
        f"{text[: MAX_MODELS_CHARACTERS - DIGEST_CHARACTERS - 3]}.. {_digest(text)}"
    )


def settings_digest(
    metrics: str, engine: Engine, answered: Mapping[str, str] | None = None
) -> str | None:
    """Return a digest of a server's settings; None if it reports none.

    The settings are labels of certain series or, for engines without such series, `answered`: those
    from an answer of the server. The digest is the first 32 hexadecimal digits of a SHA-256.
    Equally configured servers have the same digest.
    """
    if not engine.settings_series:
        return _digest(json.dumps(sorted(answered.items()))) if answered else None
    starts = tuple(f"{series}{{" for series in engine.settings_series)
    configurations = {
        tuple(
            sorted(
                label
                for label in _LABEL.findall(line)
                if label[0] not in engine.measured_settings
            )
        )
        for line in metrics.splitlines()
        if line.startswith(starts)
    }
    return _digest(json.dumps(sorted(configurations))) if configurations else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]
