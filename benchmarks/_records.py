"""Stage records in the client's format, made up from latencies."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

from benchrun_client.contract import (
    GAP_LEVELS,
    MAX_GAP_SLICES,
    START_TIME,
    ClientFigures,
    GapCounts,
    GapSlices,
    Load,
    LoadEngineVersion,
    RequestColumns,
    ServerEdge,
    StageRecord,
)
from benchrun_client.engines import ENGINES

VLLM = ENGINES["VLLM"]


def columns(
    start_us: Sequence[int],
    ttft_us: Sequence[int],
    e2el_us: Sequence[int],
    *,
    tokens: tuple[int, int],
    queue_us: Sequence[int] | None = None,
) -> RequestColumns:
    """Build the request columns of requests that were all answered in full.

    `tokens` holds the input and the output tokens of each request. Without `queue_us` no request
    waits in the client's queue.
    """
    count = len(start_us)
    return RequestColumns(
        start_us=tuple(start_us),
        queue_us=(0,) * count if queue_us is None else tuple(queue_us),
        ttft_us=tuple(ttft_us),
        e2el_us=tuple(e2el_us),
        input_tokens=(tokens[0],) * count,
        output_tokens=(tokens[1],) * count,
        asked_tokens=(tokens[1],) * count,
        ended=(1,) * count,
        ok=(1,) * count,
    )


def gap_counts(gaps: Iterable[int]) -> GapCounts:
    """Count how often each gap (in microseconds) occurs."""
    counts = Counter(gaps)
    return GapCounts(
        us=tuple(sorted(counts)), count=tuple(counts[us] for us in sorted(counts))
    )


def even_slices(gaps: GapCounts) -> GapSlices | None:
    """Build gap slices in which every slice of time has the same gaps; None without any gap."""
    through = list(accumulate(gaps.count))
    if not through:
        return None
    places = [
        bisect_left(through, through[-1] * level / 100) for level in GAP_LEVELS
    ]
    above = tuple(
        (through[-1] - through[place]) // MAX_GAP_SLICES for place in places
    )
    return GapSlices(
        edges_us=tuple(gaps.us[place] for place in places),
        gaps=(-(-through[-1] // MAX_GAP_SLICES),) * MAX_GAP_SLICES,
        above=above * MAX_GAP_SLICES,
    )


def server_edge(
    requests: RequestColumns, *, start_time: float, generated: float = 0.0
) -> ServerEdge:
    """Build the counters of a server that served these requests alone.

    `start_time` is in Unix seconds; `generated` is the output tokens generated before these
    requests.
    """
    before = dict.fromkeys(VLLM.counter_series, 0.0) | {
        START_TIME: start_time,
        "generation_tokens_total": generated,
    }
    prompt_tokens = float(sum(requests.input_tokens))
    count = float(len(requests.ok))
    rises = {
        "prompt_tokens_total": prompt_tokens,
        "prefix_cache_queries_total": prompt_tokens,
        "generation_tokens_total": float(sum(requests.output_tokens)),
        "request_success_total": count,
        "time_to_first_token_seconds_sum": sum(requests.ttft_us) / 1e6,
        "time_to_first_token_seconds_count": count,
    }
    after = {name: value + rises.get(name, 0.0) for name, value in before.items()}
    return ServerEdge(
        address="10.0.0.1:8000", before=before, after=after, version="0.32.0"
    )


def stage_record(
    stage_id: str,
    sequence: int,
    requests: RequestColumns,
    gaps: GapCounts,
    edge: ServerEdge,
    *,
    load: Load,
    began_us: int,
    ended_us: int,
    client: ClientFigures,
    run_uid: str = "uid",
    plan_digest: str = "a" * 64,
    idle_before_us: int = 0,
    slices: GapSlices | None = None,
) -> StageRecord:
    """Build the record of a stage from `began_us` to `ended_us`, in Unix microseconds.

    Without `slices` the gaps are the same at all times.
    """
    return StageRecord(
        run_uid=run_uid,
        plan_digest=plan_digest,
        sequence=sequence,
        stage_id=stage_id,
        load=load,
        prompts_digest=f"{sequence:064x}",
        engine=LoadEngineVersion(name="vllm", version="0.32.0", trust_env=False),
        first_send_unix_us=began_us,
        last_receive_unix_us=ended_us,
        idle_before_us=idle_before_us,
        scalars={"duration": (ended_us - began_us) / 1e6},
        requests=requests,
        gaps=gaps,
        gap_slices=slices or even_slices(gaps),
        servers=(edge,),
        errors={},
        client=client,
    )
