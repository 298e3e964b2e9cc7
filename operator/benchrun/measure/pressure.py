"""What held requests back in a server, sample by sample, and the server's own limits."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from benchrun.measure.exposition import Sample
from benchrun.measure.windows import Window, figures, is_busy

# ---- server limits ----------------------------------------------------------------------------------------------------
# The server's own limits on how much it does at once, as far as its arguments or its own words tell them.

_NUMBER = re.compile(r"(?P<digits>\d+(?:\.\d+)?)(?P<suffix>[kKmMgG]?)")
_MULTIPLIERS: Mapping[str, int] = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
"""As vLLM reads them: 8k is 8000 tokens, 8K is 8192."""
DEFAULT_SEQUENCES_STEP = 128
"""vLLM's defaults of max-num-seqs are multiples of it: 128 on a CPU, 256 or 1024 on GPUs."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Of one server, all its engines together. None: not known; vLLM's defaults depend on version and GPU."""

    sequences: int | None = None
    """Most requests that run at once (--max-num-seqs)."""
    sequences_are_default: bool = False
    """Whether it is vLLM's own default: all arguments are known, and none sets it."""
    step_tokens: int | None = None
    """Most tokens of one step (--max-num-batched-tokens)."""
    kv_cache_tokens: int | None = None


def server_limits(
    args: Sequence[str] | None, reported: Mapping[str, str] | None = None, *, kv_cache_tokens: int | None = None
) -> ServerLimits:
    """From the arguments of `vllm serve` (None: not known), else from the settings that the server reports."""
    said = {_flag_name(name): value for name, value in (reported or {}).items()}
    engines = _setting("data-parallel-size", args, said) or 1

    def of_all_engines(flag: str) -> int | None:
        value = _setting(flag, args, said)
        return None if value is None else value * engines

    sequences = of_all_engines("max-num-seqs")
    all_known = args is not None and _argument("config", args) is None
    return ServerLimits(
        sequences=sequences,
        sequences_are_default=all_known and sequences is None,
        step_tokens=of_all_engines("max-num-batched-tokens"),
        kv_cache_tokens=kv_cache_tokens or _setting("kv-cache-size-tokens", (), said),
    )


def _setting(flag: str, args: Sequence[str] | None, reported: Mapping[str, str]) -> int | None:
    """The last of several holds, as on the command line. Nothing for what is no positive number."""
    given = _argument(flag, args or ()) or reported.get(flag)
    number = _NUMBER.fullmatch(given.strip()) if given is not None else None
    return None if number is None else int(float(number["digits"]) * _MULTIPLIERS[number["suffix"]]) or None


def _argument(flag: str, args: Sequence[str]) -> str | None:
    found = None
    for place, argument in enumerate(args):
        name, equals, value = argument.partition("=")
        if not name.startswith("--") or _flag_name(name[2:]) != flag:
            continue
        if equals:
            found = value
        elif place + 1 < len(args):
            found = args[place + 1]
    return found


def _flag_name(text: str) -> str:
    """vLLM takes a flag with dashes or underscores."""
    return text.replace("_", "-")


# ---- pressure ---------------------------------------------------------------------------------------------------------
# What held requests back in a server, reading by reading.
#
# vLLM's scheduler lets a waiting request run once three things allow it: fewer requests run than max-num-seqs, the KV cache
# has blocks for its prompt, and the tokens of the step are not used up. So whoever waits although there is room in the
# first two waits for the third.

MIN_WAITING_SHARE = 0.05
"""Of those running: fewer are on their way in, seen between two steps, and wait for nothing."""
KV_FULL = 0.95
"""In use. Blocks are given out whole, and one more prompt seldom fits into the last twentieth."""
MIN_KV_FULL = 0.5
"""With long prompts a cache is full earlier: as soon as the next one does not fit."""
PREEMPTED_KV = 0.9
"""A server that preempts has run out of KV cache, though a reading a moment later finds some of it free."""
MIN_CEILING_READINGS = 5
CEILING_SHARE = 0.8
"""Of the readings with a queue: where so many show exactly the same number running, a limit on that number holds."""

STEP_TOLERANCE = 0.3
"""How near what runs comes to what the tokens of a step allow; prompts differ in length."""


MIN_FULL_SHARE = 0.1
"""Of the readings with a queue: where so many show all places taken, places are what is waited for."""


class Hold(Enum):
    """What a waiting request waited for."""

    SEQUENCES = "a place among the running"
    KV_CACHE = "KV cache"
    STEP = "tokens of a step"


@dataclass(frozen=True, slots=True)
class Pressure:
    """The busy readings of a cell. Means and maxima are over readings of single servers."""

    readings: int
    """With something running or waiting, and both known."""
    queued: int
    """Of these, with requests that waited."""
    running_mean: float
    running_max: float
    queued_running: float | None
    """Running on average while others waited."""
    waiting_mean: float
    waiting_max: float
    waiting_first: float | None
    """Of the first reading with a queue, and of the last: how the queue went."""
    waiting_last: float | None
    kv_mean_percent: float | None
    kv_max_percent: float | None
    preemptions: float | None
    prefix_hit_percent: float | None
    hold: Hold | None
    """What held back in most readings with a queue; None: nothing waited, or it can't be told."""
    sequence_limit: float | None
    """How many may run: the setting, else the ceiling that the readings show, else None."""
    sequence_limit_is_set: bool


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of a request, on average."""

    prompt: float
    output: float
    """Above 0."""


def pressure(windows: Sequence[Window], limits: ServerLimits, lengths: Lengths | None) -> Pressure | None:
    """Of the windows of one role; without `lengths` no request was answered. None without a busy reading."""
    busy = [s for s in _samples(windows) if is_busy(s) and s.running is not None and s.waiting is not None]
    if not busy:
        return None
    found, full = figures(windows), _full_share(limits, lengths)
    ceiling = limits.sequences if limits.sequences is not None else _ceiling(busy, full, limits, lengths)
    queued = [s for s in busy if _is_queued(s, ceiling, full)]
    preempting = bool(found.preemptions)
    holds = Counter(hold for s in queued if (hold := _hold(s, ceiling, full, preempting=preempting)) is not None)
    if holds[Hold.SEQUENCES] >= MIN_FULL_SHARE * len(queued):
        # Requests that began together end together, and until the next step is over the server tells of the few that are left.
        # Those places are not free: whoever waited has them already.
        del holds[Hold.STEP]
    hold = holds.most_common(1)[0][0] if holds else None
    running, waiting = [s.running or 0.0 for s in busy], [s.waiting or 0.0 for s in busy]
    return Pressure(
        readings=len(busy),
        queued=len(queued),
        running_mean=_mean(running),
        running_max=max(running),
        queued_running=_mean([s.running or 0.0 for s in queued]) if queued else None,
        waiting_mean=_mean(waiting),
        waiting_max=max(waiting),
        waiting_first=queued[0].waiting if queued else None,
        waiting_last=queued[-1].waiting if queued else None,
        kv_mean_percent=found.kv_cache_mean_percent,
        kv_max_percent=found.kv_cache_max_percent,
        preemptions=found.preemptions,
        prefix_hit_percent=found.prefix_hit_percent,
        hold=hold,
        sequence_limit=ceiling,
        sequence_limit_is_set=limits.sequences is not None,
    )


def _samples(windows: Iterable[Window]) -> Iterable[Sample]:
    return (sample for window in windows for sample in window.samples)


def running_by_step(limits: ServerLimits, lengths: Lengths | None) -> float | None:
    """How many requests run when every step is full of prompts: those that fit one step, each for as many steps as it
    has output tokens. None where the limit is not known."""
    if limits.step_tokens is None or lengths is None:
        return None
    return max(1.0, limits.step_tokens / max(1.0, lengths.prompt)) * lengths.output


def _full_share(limits: ServerLimits, lengths: Lengths | None) -> float:
    """KV cache in use (0 to 1) from which on the next prompt finds no room."""
    if limits.kv_cache_tokens is None or lengths is None:
        return KV_FULL
    return max(MIN_KV_FULL, min(KV_FULL, 1 - lengths.prompt / limits.kv_cache_tokens))


def _ceiling(busy: Sequence[Sample], full: float, limits: ServerLimits, lengths: Lengths | None) -> float | None:
    """The number running that most readings with a queue show, if it is the highest of all, KV cache was free, and it is
    neither a number that no default is nor what the tokens of a step make it."""
    queued = [s for s in busy if s.waiting and (s.kv_cache is None or s.kv_cache < full)]
    highest = max(s.running or 0.0 for s in busy)
    if sum(s.running == highest for s in queued) < max(MIN_CEILING_READINGS, CEILING_SHARE * len(queued)):
        return None
    by_step = running_by_step(limits, lengths)
    explained = by_step is not None and abs(highest - by_step) <= STEP_TOLERANCE * by_step
    is_no_default = limits.sequences_are_default and highest % DEFAULT_SEQUENCES_STEP != 0
    return None if explained or is_no_default else highest


def _is_queued(sample: Sample, ceiling: float | None, full: float) -> bool:
    running, waiting = sample.running or 0.0, sample.waiting or 0.0
    held = (ceiling is not None and running >= ceiling) or (sample.kv_cache or 0.0) >= full
    return waiting >= 1 and (held or waiting >= MIN_WAITING_SHARE * running)


def _hold(sample: Sample, ceiling: float | None, full: float, *, preempting: bool) -> Hold | None:
    """In the order in which the scheduler asks. None: whether the KV cache had room is not known."""
    if ceiling is not None and (sample.running or 0.0) >= ceiling:
        return Hold.SEQUENCES
    if sample.kv_cache is None:
        return None
    if sample.kv_cache >= full or (preempting and sample.kv_cache >= PREEMPTED_KV):
        return Hold.KV_CACHE
    return Hold.STEP


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
