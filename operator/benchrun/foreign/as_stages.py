"""Make the facts that rules read of what another tool's file says.

Where the file has nothing there are zeros, which no rule reads: only rules whose inputs are known
are asked (`judged`).
"""

from collections import Counter
from collections.abc import Sequence

from benchrun_client.contract import (
    MAX_GAP_VALUES,
    AtOnceLoad,
    ClientFigures,
    GapCounts,
    LoadEngineVersion,
    RequestColumns,
    StageRecord,
)

from benchrun.foreign.document import Unreadable
from benchrun.foreign.model import ForeignRequests, ForeignStage
from benchrun.judge.rules.rule import StageFacts, Thresholds
from benchrun.judge.stage_facts import ExpectedStage

MAX_SECONDS = 1e7  # Longest measurement: some 100 days.
MAX_TOKENS = 10**12  # Most tokens of all prompts together.
MAX_ERRORS = 8  # Most different errors that a record keeps.
NO_DIGEST = "0" * 64
"""Digest of the prompts. All stages have the same: no file says whether prompts differed, and
repeats of the same prompts count as one."""


def stage_facts(
    stage: ForeignStage, stage_id: str, sequence: int, thresholds: Thresholds
) -> StageFacts:
    """Return the facts of a measurement that another tool made."""
    sent = stage.requests
    seconds = (stage.seconds or 0.0) if sent is None else _seconds(stage.file, sent)
    columns = _columns(stage)
    if not columns.ok:
        raise Unreadable(
            f"{stage.file}: has no requests; give a file of a measurement"
        )
    counted = None if sent is None else sent.client_input_tokens
    if counted is not None and counted > MAX_TOKENS:
        raise Unreadable(
            f"{stage.file}: its prompts have {counted} tokens together, more than "
            f"{MAX_TOKENS}; give a file of a measurement"
        )
    load = stage.load or AtOnceLoad()
    record = StageRecord(
        run_uid="",
        plan_digest=NO_DIGEST,
        sequence=sequence,
        stage_id=stage_id,
        load=load,
        prompts_digest=NO_DIGEST,
        engine=LoadEngineVersion(
            name=stage.tool, version=(stage.version or "")[:60], trust_env=False
        ),
        first_send_unix_us=0,
        last_receive_unix_us=round(1e6 * seconds),
        expected_input_tokens=counted,
        idle_before_us=0,
        scalars={"duration": seconds},
        requests=columns,
        gaps=GapCounts() if sent is None else _gaps(sent.gaps_us or ()),
        servers=(),
        errors=dict(Counter(stage.errors or {}).most_common(MAX_ERRORS)),
        client=ClientFigures(cpu_seconds=0, wall_seconds=0),
    )
    expected = ExpectedStage(
        load=load,
        api="Completions",
        ignore_eos=False,
        cache_policy="Share",
        scrape_interval_seconds=1.0,
    )
    return StageFacts(record, expected, thresholds)


def _seconds(file: str, sent: ForeignRequests) -> float:
    """Return the time from the first send to the last answer. Raises Unreadable if too long."""
    ends = (a + b for a, b in zip(sent.start_us, sent.e2el_us, strict=True))
    seconds = max(ends, default=0) / 1e6
    if seconds > MAX_SECONDS:
        raise Unreadable(
            f"{file}: its requests span {seconds:g} s, more than {MAX_SECONDS:g}; "
            "give a file of one measurement"
        )
    return seconds


def _columns(stage: ForeignStage) -> RequestColumns:
    sent = stage.requests or _counted_only(stage)
    nothing = (0,) * len(sent.ok)
    answered = tuple(map(int, sent.ok))
    return RequestColumns(
        start_us=tuple(sent.start_us),
        queue_us=tuple(sent.queue_us or nothing),
        ttft_us=tuple(sent.ttft_us),
        e2el_us=tuple(sent.e2el_us),
        input_tokens=tuple(sent.input_tokens or nothing),
        output_tokens=tuple(sent.output_tokens or nothing),
        asked_tokens=tuple(sent.asked_tokens or nothing),
        ended=answered,
        ok=answered,
    )


def _counted_only(stage: ForeignStage) -> ForeignRequests:
    """Return requests of which nothing is known but whether they were answered."""
    requests = stage.answered + stage.failed
    return ForeignRequests(
        ok=[place < stage.answered for place in range(requests)],
        start_us=[0] * requests,
        ttft_us=[0] * requests,
        e2el_us=[0] * requests,
    )


def _gaps(gaps_us: Sequence[int]) -> GapCounts:
    """Return the gaps as counts, rounded only as far as `MAX_GAP_VALUES` demands."""
    step = 1
    counts = Counter(gaps_us)
    while len(counts) > MAX_GAP_VALUES:
        step *= 10
        counts = Counter(gap // step * step for gap in gaps_us)
    return GapCounts(
        us=tuple(sorted(counts)), count=tuple(counts[us] for us in sorted(counts))
    )
