"""The timeline: samples of all servers over a run, thinned out and packed for a ConfigMap.

Also the live figures. The packed form is gzip of JSON, with one object a server and one column a
figure. Instants are whole milliseconds, each given as the difference to the one before, which
compresses very well.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate, takewhile
from statistics import fmean
from typing import Any, Literal

from benchrun_client.contract import unpacked

from benchrun.api import SAMPLE_FIGURES, Live, Sample, timestamp
from benchrun.measure.request_figures import (
    is_believable,
    known,
    risen,
    sum_of_known,
)

SCHEMA: Literal["benchrun.timeline/1"] = "benchrun.timeline/1"
# Samples of a run that are kept unmerged: 34 minutes at one a second.
FULL_DETAIL_SAMPLES = 2048
# Most bytes of a timeline after decompression.
MAX_TIMELINE_BYTES = 4 * 1024 * 1024
# Samples, or buckets of them, in one packed form: a minute of 136 servers at one a second.
MAX_SAMPLES = 8192
MAX_SERVER_CHARS = 253
STALE_SECONDS = 60.0
"""Seconds without a scrape after which a server is left out of live figures: twice the longest time
of a scrape with its retry."""
# Decimals of a percentage: a cache of a million tokens with 100 in use must not show 0.
KV_CACHE_DECIMALS = 3

_WITH_ENDS = ("running", "waiting", "kv_cache", "generation_tokens")
"""Figures of which a bucket also keeps the least and the greatest value."""
_DECIMALS = 6
_MAX_VALUES = 3 * MAX_SAMPLES * (len(SAMPLE_FIGURES) + 1)
_MAX_CONTAINERS = 65_536  # Most brackets of all sorts: a small text may be large once it is parsed.
_LAST_MS = 253_402_300_799_000  # End of the year 9999 in Unix milliseconds: no instant is later.


def bucket_size(taken: int) -> int:
    """Return how many samples of a server are merged into one bucket after `taken` samples.

    It is 1 up to 2,048 samples of the run, then 16, and doubles whenever the run doubles in length;
    each time there are 128 buckets more. After 8.4 million samples (13 servers for a week) there
    are 3,584.
    """
    return (
        1
        if taken < FULL_DETAIL_SAMPLES
        else 16 << (taken // FULL_DETAIL_SAMPLES).bit_length() - 1
    )


def bucketed(samples: Iterable[Sample], size: int) -> tuple[Sample, ...]:
    """Merge each `size` successive samples of a server into one, oldest first.

    The size is raised if there would be more than 8,192 buckets.
    """
    ordered = sorted(samples, key=_order)
    while len(ordered) > MAX_SAMPLES * size:
        size *= 2
    if size <= 1:
        return tuple(ordered)
    servers = by_server(ordered).values()
    parts = [
        pods[i : i + size] for pods in servers for i in range(0, len(pods), size)
    ][:MAX_SAMPLES]
    return tuple(sorted(map(_bucket, parts), key=_order))


def encode(samples: Sequence[Sample]) -> bytes:
    """Pack samples; the same samples always give the same bytes."""
    document: dict[str, Any] = {"schema": SCHEMA, "servers": _columns(samples)}
    if any(sample.high for sample in samples):
        document |= {
            "low": _columns([s.low or s for s in samples]),
            "high": _columns([s.high or s for s in samples]),
        }
    return gzip.compress(
        json.dumps(document, separators=(",", ":")).encode(), mtime=0
    )


def decode(data: bytes) -> tuple[Sample, ...]:
    """Unpack samples.

    Raises ValueError for other data, and never unpacks more than the size limit.
    """
    try:
        document = _document(data)
        samples, low, high = (
            _samples(document.get(key, [])) for key in ("servers", "low", "high")
        )
        if low or high:
            samples = tuple(
                replace(s, low=a, high=b)
                for s, a, b in zip(samples, low, high, strict=True)
            )
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise ValueError(f"not a timeline: {str(error)[:200]}") from error
    return samples


def _document(data: bytes) -> Mapping[str, Any]:
    text = unpacked(data, max_bytes=MAX_TIMELINE_BYTES)
    if (
        text.count(b",") > _MAX_VALUES
        or text.count(b"[") + text.count(b"{") > _MAX_CONTAINERS
    ):
        raise ValueError(f"more than {MAX_SAMPLES} samples")
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(
            f"it must have the schema {SCHEMA}, but begins with {text[:60]!r}; "
            "another version of benchrun may have written it"
        )
    return document


def once(samples: Iterable[Sample]) -> list[Sample]:
    """Drop duplicate samples and sort the rest, oldest first.

    Samples whose writing was not confirmed may have been stored twice.
    """
    found = {
        (sample.role, sample.pod, round(sample.at, 3)): sample for sample in samples
    }
    return sorted(found.values(), key=lambda sample: sample.at)


def live(samples: Sequence[Sample], now: datetime) -> Live | None:
    """Return the latest figures, summed over servers; None if no server was scraped lately.

    The KV cache usage is that of the server with the highest. Rates come from each server's last
    two samples.
    """
    moment = now.timestamp()
    # Read from the newest back, so that a long timeline costs nothing.
    fresh = list(
        takewhile(lambda s: moment - s.at <= STALE_SECONDS, reversed(samples))
    )[::-1]
    pairs = [
        (pods[-2] if len(pods) > 1 else None, pods[-1])
        for pods in by_server(fresh).values()
    ]
    if not pairs:
        return None
    latest = [last for _, last in pairs]
    usage = known(s.kv_cache for s in latest)
    return Live(
        at=timestamp(datetime.fromtimestamp(max(s.at for s in latest), tz=UTC)),
        running=sum_of_known(s.running for s in latest),
        waiting=sum_of_known(s.waiting for s in latest),
        kv_cache_percent=round(100 * max(usage), KV_CACHE_DECIMALS)
        if usage
        else None,
        generation_tokens_per_second=sum_of_known(
            _rate(a, b, "generation_tokens") for a, b in pairs
        ),
        prompt_tokens_per_second=sum_of_known(
            _rate(a, b, "prompt_tokens") for a, b in pairs
        ),
        preemptions=sum_of_known(s.preemptions for s in latest),
    )


def _order(sample: Sample) -> tuple[float, str, str]:
    return sample.at, sample.role, sample.pod


def by_server(samples: Iterable[Sample]) -> Mapping[tuple[str, str], list[Sample]]:
    """Group samples by role and pod, in order of each server's first sample."""
    servers: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        servers[sample.role, sample.pod].append(sample)
    return servers


def _rate(before: Sample | None, after: Sample, counter: str) -> float | None:
    """Return the rise of a counter a second; None with one sample, or if the counter fell."""
    rise = risen(getattr(before, counter, None), getattr(after, counter))
    return (
        None
        if before is None or rise is None or after.at <= before.at
        else round(rise / (after.at - before.at), 1)
    )


def _bucket(samples: Sequence[Sample]) -> Sample:
    low = _merged([s.low or s for s in samples], min, _WITH_ENDS)
    high = _merged([s.high or s for s in samples], max, _WITH_ENDS)
    return replace(_merged(samples, fmean), low=low, high=high)


def _merged(
    samples: Sequence[Sample],
    merge: Callable[[list[float]], float],
    names: Collection[str] = tuple(SAMPLE_FIGURES),
) -> Sample:
    """Merge samples into one with these figures, at their mean instant.

    Start time and XID, which can't be averaged, are taken from the last sample.
    """
    columns = {name: known(getattr(s, name) for s in samples) for name in names}
    merged: dict[str, Any] = dict.fromkeys(SAMPLE_FIGURES)
    merged |= {
        name: merge(values) if values else None for name, values in columns.items()
    }
    xids = known(s.gpu_xid for s in samples)
    merged |= {
        "at": fmean([s.at for s in samples]),
        "start_time": samples[-1].start_time,
        "low": None,
        "high": None,
    }
    merged |= {"gpu_xid": xids[-1] if xids else None}
    return replace(samples[0], **merged)


def _columns(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    def short(value: float | None) -> float | int | None:
        """Shorten a number for JSON: whole numbers without a point, others with six decimals."""
        return (
            None
            if value is None
            else int(value)
            if value == int(value)
            else round(value, _DECIMALS)
        )

    servers = []
    for (role, pod), rows in by_server(samples).items():
        instants = [round(s.at * 1000) for s in rows]
        steps = [
            instant - before
            for before, instant in zip((0, *instants), instants, strict=False)
        ]
        columns = {
            name: [short(getattr(s, name)) for s in rows] for name in SAMPLE_FIGURES
        }
        kept = {
            name: column
            for name, column in columns.items()
            if any(v is not None for v in column)
        }
        servers.append({"role": role, "pod": pod, "at": steps, **kept})
    return servers


def _samples(servers: Sequence[Mapping[str, Any]]) -> tuple[Sample, ...]:
    found: list[Sample] = []
    for server in servers:
        role = server["role"]
        pod = server["pod"]
        if not all(
            isinstance(name, str) and len(name) <= MAX_SERVER_CHARS
            for name in (role, pod)
        ):
            raise ValueError("a server's role or pod is not a valid name")
        instants = _instants(server["at"], most=MAX_SAMPLES - len(found))
        columns = {
            name: _column(server.get(name), len(instants))
            for name in SAMPLE_FIGURES
        }
        for row, instant in enumerate(instants):
            values: dict[str, Any] = {
                name: column[row] for name, column in columns.items()
            }
            found.append(Sample(at=instant / 1000, role=role, pod=pod, **values))
    return tuple(sorted(found, key=_order))


def _instants(steps: object, *, most: int) -> list[int]:
    if (
        not isinstance(steps, list)
        or len(steps) > most
        or not all(type(step) is int for step in steps)
    ):
        raise ValueError(f"instants must be whole numbers, {MAX_SAMPLES} at most")
    instants = list(accumulate(steps))
    if not all(0 <= instant <= _LAST_MS for instant in instants):
        raise ValueError(f"instants must be from 0 to {_LAST_MS} ms")
    return instants


def _column(stored: object, length: int) -> list[float | None]:
    if stored is None:
        return [None] * length
    if not isinstance(stored, list) or len(stored) != length:
        raise ValueError(
            f"a column must have {length} values, as many as there are instants"
        )
    if not all(
        value is None or (type(value) in (int, float) and is_believable(value))
        for value in stored
    ):
        raise ValueError("a figure is not a number from 0 to 1e15")
    return [None if value is None else float(value) for value in stored]
