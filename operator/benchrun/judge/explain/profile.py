"""Explain what a profile shows: kernels compute, wait for memory, or wait for the host.

The answer is a rule of thumb, given with its numbers. If no kernel ran in a large share of the
time, the GPU waited for the host. Otherwise the roofline model (Williams, Waterman, Patterson 2009)
decides between compute and memory. A matrix of weights is read once a step and used for each token
of the step. A 16-bit weight has two bytes and takes two operations a token, so a step has as many
operations a byte as it has tokens. If that is fewer than the device can do for each byte that it
reads, the device waits for memory. Attention over long contexts is not counted.
"""

from collections.abc import Sequence

from benchrun_client.contract import ProfileResult, TraceSummary

from benchrun.api import Bottleneck, ProfileLimit, ProfileStatus, Result, plain_text
from benchrun.judge.explain.waiting import percent
from benchrun.judge.rules.rule import Evidence, number
from benchrun.judge.thresholds import PROFILE_HOST_PERCENT, PROFILE_STEP_TOKENS
from benchrun.measure import rounded

MAX_NAME_CHARACTERS = 80
MIN_KERNEL_PERCENT = 0.05
_BEHIND = {
    "hostPercent": "no kernel ran in {} % of the time",
    "stepTokens": "a step has {} tokens",
}
LOST = (
    "the server or its client ended before the profile was taken; every stage was "
    "measured before"
)


def profile_status(found: ProfileResult | None) -> ProfileStatus:
    """Build the status of a profile from its record.

    It is Unknown, with a reason, if there is no record (None) or its trace has no kernel.
    """
    summary = found.summary if found is not None else None
    if (
        found is None
        or summary is None
        or not summary.kernels
        or not summary.window_us
    ):
        empty = "the trace holds no kernel" if summary is not None else None
        problem = (
            LOST
            if found is None
            else found.problem
            or empty
            or "the client gave no reason; see the server's log"
        )
        return ProfileStatus(
            limit="Unknown", sentence=f"No profile: {plain_text(problem)}."
        )
    limit, sentence = _limit(summary)
    total = max(
        1, summary.kernels_us, sum(kernel.total_us for kernel in summary.kernels)
    )
    shares = [
        (kernel.name, 100 * kernel.total_us / total) for kernel in summary.kernels
    ]
    name, share = shares[0]
    evidence: Evidence = {
        "workload": found.workload,
        "concurrency": found.concurrency,
        "device": summary.device,
        "hostPercent": rounded(host_percent(summary)),
        "windowSeconds": rounded(summary.window_us / 1e6),
        "steps": summary.steps,
        "stepTokens": summary.step_tokens,
        "trace": plain_text(summary.trace),
        "traceBytes": summary.trace_bytes,
    }
    return ProfileStatus(
        limit=limit,
        sentence=(
            f"{sentence} The largest kernel is {_short(name)} with {percent(share)} of kernel time."
        ),
        evidence={
            name: value for name, value in evidence.items() if value is not None
        },
        kernels={
            _short(name): round(share, 1)
            for name, share in reversed(shares)
            if share >= MIN_KERNEL_PERCENT
        },
    )


def host_percent(summary: TraceSummary) -> float:
    """Return the percentage of the time from first to last kernel in which no kernel ran."""
    return 100 * (1 - min(summary.busy_us, summary.window_us) / summary.window_us)


def _limit(summary: TraceSummary) -> tuple[ProfileLimit, str]:
    host = host_percent(summary)
    tokens = summary.step_tokens
    what = "kernel" if summary.device == "GPU" else "operator"
    idle = (
        f"no {what} ran in {percent(host)} of {number(summary.window_us / 1e6)} s"
    )
    if host >= PROFILE_HOST_PERCENT:
        wait = f"the {summary.device} waits for the process that starts them"
        return (
            "Host",
            f"The host is the limit: {idle} (threshold {percent(PROFILE_HOST_PERCENT)}), so "
            f"{wait}.",
        )
    if tokens is None:
        return (
            "Unknown",
            f"Compute or memory bandwidth, not the host: {idle}. This vLLM does not mark its "
            "steps.",
        )
    memory, compute = PROFILE_STEP_TOKENS[summary.device]
    half = f"{idle}; half of the step time is in steps of {tokens} tokens or more"
    if tokens >= compute:
        return (
            "Compute",
            f"Compute is the limit, by a rule of thumb: {half} (threshold {compute}).",
        )
    if tokens <= memory:
        return (
            "Memory",
            f"Memory bandwidth is the limit, by a rule of thumb: {half} (threshold {memory}).",
        )
    return (
        "Unknown",
        f"Compute or memory bandwidth: {half}, between the thresholds {memory} and {compute}.",
    )


def profiled_row(
    results: Sequence[Result], profile: ProfileStatus | None
) -> Result | None:
    """Return the row of the load that was profiled: the highest load point of its workload.

    Return None if there is no profile, or no row of its workload.
    """
    workload = profile.evidence.get("workload") if profile is not None else None
    return max(
        (row for row in results if row.workload == workload),
        key=lambda row: float(row.value),
        default=None,
    )


def backed(results: list[Result], profile: ProfileStatus | None) -> list[Result]:
    """Return the results, with the profile's result added to the load point that was profiled.

    It is added only if the bottleneck of that load point is Compute.
    """
    found = profiled_row(results, profile)
    if profile is None or found is None or found.bottleneck is None:
        return results
    bottleneck = with_profile(found.bottleneck, profile)
    return [
        row.model_copy(update={"bottleneck": bottleneck}) if row is found else row
        for row in results
    ]


def with_profile(before: Bottleneck, profile: ProfileStatus) -> Bottleneck:
    """Add the profile's result to the sentence of the bottleneck Compute.

    Any other bottleneck is returned unchanged.
    """
    if before.limit != "Compute":
        return before
    known = [
        text.format(number(v))
        for name, text in _BEHIND.items()
        if isinstance(v := profile.evidence.get(name), int | float)
    ]
    word = (
        "agrees"
        if profile.limit == "Compute"
        else f"says {profile.limit}, by a rule of thumb"
    )
    sentence = f"{before.sentence} The profile {word}: {', and '.join(known)}."
    return before.model_copy(
        update={
            "sentence": sentence,
            "evidence": {**before.evidence, "profile": profile.limit},
        }
    )


def _short(name: str) -> str:
    """Return the name of a kernel as plain text, cut to MAX_NAME_CHARACTERS.

    The names come from the trace, whose author is not trusted.
    """
    text = " ".join(plain_text(name).split())
    return (
        text
        if len(text) <= MAX_NAME_CHARACTERS
        else f"{text[: MAX_NAME_CHARACTERS - 1]}…"
    )
