"""Compute how servers queue requests, from their samples (Pressure), and read their limits."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean

from benchrun_client.engines import Engine, EngineSetting

from benchrun.api import Sample
from benchrun.measure.windows import Window, figures, is_busy
from benchrun.sizing import ServeArgs, tokens_of


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of one server, for all its engines together unless a field says otherwise.

    None means not known, because an engine's defaults depend on its version and the GPU.
    """

    sequences: int | None = None  # Most requests that run at once.
    sequences_name: str = (
        EngineSetting.MAX_RUNNING.value
    )  # What sets it, if it is set.
    default_sequences_step: int | None = None
    """A number that divides `sequences` if it is the engine's default, that is, if all arguments
    are known and none sets it. None: `sequences` may be any number."""
    step_tokens: int | None = None  # Most tokens of one step of one engine process.
    kv_cache_tokens: int | None = None
    block_tokens: int | None = None  # Tokens of a block of the KV cache.
    engines: int = 1
    """Number of engine processes. `kv_cache_tokens` is the sum of their caches, but a request must
    fit in one of them."""


def server_limits(
    args: Sequence[str] | None,
    engine: Engine,
    reported: Mapping[str, str] | None = None,
    *,
    kv_cache_tokens: int | None = None,
) -> ServerLimits:
    """Read the limits from a server's arguments, else from the settings that it reports.

    `args` is None if the arguments are not known.
    """
    given = ServeArgs.of(args or (), engine)

    def number(setting: EngineSetting) -> int | None:
        reported_text = engine.reported(setting, reported or {})
        if setting in engine.computed_settings and reported_text:
            return _number(reported_text)
        return _number(given.text(setting) or reported_text)

    engines = number(EngineSetting.DATA_PARALLEL) or 1
    of_one = number(EngineSetting.MAX_RUNNING)
    is_default = (
        args is not None
        and given.text(EngineSetting.CONFIG_FILE) is None
        and of_one is None
    )
    flag = None if of_one is None else given.flag(EngineSetting.MAX_RUNNING)
    return ServerLimits(
        sequences=None if of_one is None else of_one * engines,
        sequences_name=flag or EngineSetting.MAX_RUNNING.value,
        default_sequences_step=engine.default_running_step if is_default else None,
        step_tokens=number(EngineSetting.STEP_TOKENS),
        kv_cache_tokens=kv_cache_tokens or number(EngineSetting.KV_CACHE_TOKENS),
        block_tokens=number(EngineSetting.BLOCK_TOKENS),
        engines=engines,
    )


def _number(text: str | None) -> int | None:
    """Parse a number of tokens; None if the text is not a number above 0."""
    try:
        return tokens_of(text or "") or None
    except ValueError:
        return None


# A scheduler lets a waiting request run once three things allow it: fewer requests run than may,
# the KV cache has blocks for its prompt, and the tokens of the step are not used up. So a request
# that waits although there is room in the first two waits for the third.

IN_A_BUCKET = 0.5
"""A bucket of samples counts as at a limit if its mean is below it by less than so many requests:
in some of its samples one request may be missing."""
MIN_WAITING_SHARE = 0.05
"""Fewest waiting requests that count as a queue, as a share of those that run. Fewer have just
come, and run from the next step on."""
KV_FULL = 0.95
"""Share of the KV cache in use from which it counts as full. Blocks are given out whole, and one
more prompt seldom fits into the last twentieth."""
MIN_KV_FULL = 0.5
"""Smallest share in use at which a cache can count as full. With long prompts a cache is full
before KV_FULL, as soon as the next prompt does not fit."""
PREEMPTED_KV = 0.9
"""Share of the KV cache in use from which it counts as full if requests are preempted: it was full,
although a sample a moment later finds some blocks free."""
MIN_CEILING_SAMPLES = 5
CEILING_SHARE = 0.8
"""If at least this share of the samples with a queue show the same number of running requests, that
number is a limit."""
STEP_TOLERANCE = 0.3
"""Largest relative difference at which a number of running requests is explained by the tokens of a
step; it is not 0 because prompts differ in length."""
NEARLY_ALL = 0.9
"""If on average this share of the limit runs, all running requests allowed may have been there; it
is not 1 because prompts and answers differ in length."""
MIN_FULL_SHARE = 0.1
"""If at least this share of the samples with a queue show the limit on running requests reached,
requests wait for that limit and not for the tokens of a step."""


class Hold(Enum):
    """What a waiting request waited for."""

    SEQUENCES = "a place among the running requests"
    KV_CACHE = "KV cache"
    STEP = "the tokens of a step"


@dataclass(frozen=True, slots=True)
class Pressure:
    """Figures of the busy samples of a load point; each sample is of a single server."""

    samples: (
        int  # Samples with a request running or waiting, and both numbers known.
    )
    queued: int  # Samples among these in which requests waited.
    running_mean: float
    running_max: float
    queued_running: float | None  # Mean of running requests while others waited.
    waiting_mean: float
    waiting_max: float
    kv_mean_percent: float | None
    kv_max_percent: float | None
    preemptions: float | None
    prefix_hit_percent: float | None
    # The cause in most samples with a queue; None if nothing waited, or it can't be told.
    hold: Hold | None
    # How many may run: the setting, else the ceiling that the samples show, else None.
    sequence_limit: float | None
    sequence_limit_is_set: bool
    # What sets it, if it is set.
    sequence_limit_name: str = EngineSetting.MAX_RUNNING.value
    engines: int = 1


@dataclass(frozen=True, slots=True)
class MeanLengths:
    """The mean tokens of a request: prompt and answer."""

    prompt: float
    output: float  # Output tokens, above 0.


def pressure(
    windows: Sequence[Window], limits: ServerLimits, lengths: MeanLengths | None
) -> Pressure | None:
    """Compute the pressure over the windows of one role; None without a busy sample.

    `lengths` is None if no request was answered.
    """
    busy = [
        s
        for w in windows
        for s in w.samples
        if is_busy(s) and s.running is not None and s.waiting is not None
    ]
    if not busy:
        return None
    found = figures(windows)
    full = _full_share(limits, lengths)
    ceiling = (
        limits.sequences
        if limits.sequences is not None
        else _ceiling(busy, full, limits, lengths)
    )
    queued = [s for s in busy if _is_queued(s, ceiling, full)]
    holds = Counter(
        _hold(s, ceiling, full, preempting=bool(found.preemptions)) for s in queued
    )
    del holds[None]
    are_at_limit = holds[Hold.SEQUENCES] >= MIN_FULL_SHARE * len(queued)
    if are_at_limit or _places_may_be_taken(queued, ceiling, limits, lengths):
        # Requests that began together end together. Until the next step is over, the server counts
        # only the few that are left, although waiting requests have the other places already.
        del holds[Hold.STEP]
    running = [s.running or 0.0 for s in busy]
    waiting = [s.waiting or 0.0 for s in busy]
    return Pressure(
        samples=len(busy),
        queued=len(queued),
        running_mean=fmean(running),
        running_max=max((s.high or s).running or 0.0 for s in busy),
        queued_running=fmean(s.running or 0.0 for s in queued) if queued else None,
        waiting_mean=fmean(waiting),
        waiting_max=max((s.high or s).waiting or 0.0 for s in busy),
        kv_mean_percent=found.kv_cache_mean_percent,
        kv_max_percent=found.kv_cache_max_percent,
        preemptions=found.preemptions,
        prefix_hit_percent=found.prefix_hit_percent,
        hold=holds.most_common(1)[0][0] if holds else None,
        sequence_limit=ceiling,
        sequence_limit_is_set=limits.sequences is not None,
        sequence_limit_name=limits.sequences_name,
        engines=limits.engines,
    )


def _full_share(limits: ServerLimits, lengths: MeanLengths | None) -> float:
    """Return the share of the KV cache in use from which the next prompt finds no room."""
    if limits.kv_cache_tokens is None or lengths is None:
        return KV_FULL
    of_a_prompt = lengths.prompt * limits.engines / limits.kv_cache_tokens
    return max(MIN_KV_FULL, min(KV_FULL, 1 - of_a_prompt))


def _places_may_be_taken(
    queued: Sequence[Sample],
    ceiling: float | None,
    limits: ServerLimits,
    lengths: MeanLengths | None,
) -> bool:
    """Return whether the requests that run may fill the ceiling while others wait.

    The samples may show a few fewer, because a request is no longer counted after the step that
    computes its last token. If answers have one token, the samples may show none. Return False if
    the token limit of a step keeps the number of running requests below the ceiling.
    """
    by_step = running_by_step(limits, lengths)
    if (
        ceiling is None
        or lengths is None
        or not queued
        or (by_step is not None and by_step < ceiling)
    ):
        return False
    return fmean(s.running or 0.0 for s in queued) >= NEARLY_ALL * ceiling * (
        1 - 1 / lengths.output
    )


def running_by_step(
    limits: ServerLimits, lengths: MeanLengths | None
) -> float | None:
    """Return how many requests run if every step is full of prompts; None if that is unknown.

    Each request runs for as many steps as it has output tokens.
    """
    if limits.step_tokens is None or lengths is None:
        return None
    return (
        limits.engines
        * max(1.0, limits.step_tokens / max(1.0, lengths.prompt))
        * lengths.output
    )


def _ceiling(
    busy: Sequence[Sample],
    full: float,
    limits: ServerLimits,
    lengths: MeanLengths | None,
) -> float | None:
    """Return the limit on running requests that the samples show, or None if they show none.

    They show one if, while requests wait, the number of running requests is mostly at its maximum.
    Return None also if the tokens of a step explain that maximum, or if the server has the engine's
    default limit and the maximum can't be that default.
    """
    queued = [
        s for s in busy if s.waiting and (s.kv_cache is None or s.kv_cache < full)
    ]
    highest = max((s.high or s).running or 0.0 for s in busy)
    at_highest = sum(highest - (s.running or 0.0) < IN_A_BUCKET for s in queued)
    if at_highest < max(MIN_CEILING_SAMPLES, CEILING_SHARE * len(queued)):
        return None
    by_step = running_by_step(limits, lengths)
    explained = (
        by_step is not None and abs(highest - by_step) <= STEP_TOLERANCE * by_step
    )
    step = limits.default_sequences_step
    is_no_default = step is not None and highest % step != 0
    return None if explained or is_no_default else highest


def _is_queued(sample: Sample, ceiling: float | None, full: float) -> bool:
    running = math.ceil(sample.running or 0.0)
    waiting = sample.waiting or 0.0
    held = (ceiling is not None and running >= ceiling) or (
        sample.kv_cache or 0.0
    ) >= full
    return waiting >= 1 and (held or waiting >= MIN_WAITING_SHARE * running)


def _hold(
    sample: Sample, ceiling: float | None, full: float, *, preempting: bool
) -> Hold | None:
    """Return what the waiting requests of a sample waited for.

    The causes are tested in the order in which vLLM's scheduler meets them. Return None if it is
    unknown whether the KV cache had room.
    """
    usage = sample.kv_cache
    running = sample.running or 0.0
    is_full = usage is not None and usage >= full
    # The mean of a bucket is below a limit if only some of its samples are at it: round it up. But
    # if the cache is full, most of them must be at the limit.
    at_once = round(running) if is_full else math.ceil(running)
    if ceiling is not None and at_once >= ceiling:
        return Hold.SEQUENCES
    if usage is None:
        return None
    if is_full or (preempting and usage >= PREEMPTED_KV):
        return Hold.KV_CACHE
    return Hold.STEP
