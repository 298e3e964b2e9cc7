"""Builders of records, edges, samples and load points: valid by default, changed by name."""

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import compress
from typing import Any

from benchrun.api import LoadPoint
from benchrun.measure.metrics_page import Sample
from benchrun_client.contract import (
    KINDS,
    MAX_GAP_SLICES,
    PROCESS_CPU,
    START_TIME,
    Axis,
    ClientFigures,
    Envelope,
    GapCounts,
    GapSlices,
    Load,
    LoadEngineVersion,
    RequestColumns,
    RoundTrips,
    Sealed,
    ServedModel,
    ServerEdge,
    StageRecord,
    kind_of,
)
from benchrun_client.engines import ENGINES
from benchrun_client.stage_record import gap_slices

VLLM = ENGINES["VLLM"]

STAGE = "chat/rate=4/r1"
LOAD_POINT = "chat/rate=4"
SERVED = ServedModel(id="Qwen/Qwen3-4B", root="Qwen/Qwen3-4B")
ZERO = dict.fromkeys((*VLLM.counter_series, *VLLM.labelled_counters), 0.0) | {
    START_TIME: 1000.0,
    PROCESS_CPU: 5.0,
}
NEAR = RoundTrips(count=20, median_us=300, p95_us=500)
"""A path within one network."""


def requests(
    *,
    ttft_us: Iterable[int] = (20_000, 30_000),
    e2el_us: Iterable[int] = (120_000, 130_000),
    output_tokens: Iterable[int] = (11, 11),
    input_tokens: Iterable[int] | None = None,
    asked_tokens: Iterable[int] | None = None,
    start_us: Iterable[int] | None = None,
    queue_us: Iterable[int] | None = None,
    ended: Iterable[int] | None = None,
    ok: Iterable[int] | None = None,
    **reasoning: Iterable[int],
) -> RequestColumns:
    """Build requests sent 1 ms apart, all answered with as many tokens as asked for.

    Arguments change each of these columns.
    """
    ttft = tuple(ttft_us)
    e2el = tuple(e2el_us)
    output = tuple(output_tokens)
    return RequestColumns(
        start_us=tuple(1000 * i for i in range(len(ttft)))
        if start_us is None
        else tuple(start_us),
        queue_us=(0,) * len(ttft) if queue_us is None else tuple(queue_us),
        ttft_us=ttft,
        e2el_us=e2el,
        input_tokens=(100,) * len(ttft)
        if input_tokens is None
        else tuple(input_tokens),
        output_tokens=output,
        asked_tokens=output if asked_tokens is None else tuple(asked_tokens),
        ended=(1,) * len(ttft)
        if ended is None
        else tuple(1 if each else 0 for each in ended),
        ok=(1,) * len(ttft)
        if ok is None
        else tuple(1 if each else 0 for each in ok),
        **{name: tuple(column) for name, column in reasoning.items()},
    )


def record(stage_id: str = STAGE, **changes: Any) -> StageRecord:
    """Build a stage of two requests in ten seconds at a server that generated 22 tokens.

    Other requests change gaps and counters along, so that they still agree.
    """
    columns = changes.get("requests", requests())
    values: dict[str, Any] = {
        "run_uid": "uid-1",
        "plan_digest": "a" * 64,
        "sequence": 0,
        "stage_id": stage_id,
        "load": changes.get("load", load_of(stage_id)),
        "prompts_digest": sha256(stage_id.encode()).hexdigest(),
        "engine": LoadEngineVersion(name="vllm", version="0.32.0", trust_env=False),
        "first_send_unix_us": 1_000_000_000,
        "last_receive_unix_us": 1_010_000_000,
        "idle_before_us": 0,
        "scalars": {"duration": 10.0},
        "requests": columns,
        "gaps": changes.get("gaps", gaps_of(columns)),
        "gap_slices": spread(changes.get("gaps", gaps_of(columns))),
        "servers": (edge(rises=served(columns)),),
        "errors": {},
        "client": client(),
        "expected_input_tokens": sum(
            compress(columns.input_tokens, map(min, columns.ok, columns.ended))
        ),
        "round_trips": NEAR,
    }
    return StageRecord(**(values | changes))


def gaps_of(columns: RequestColumns) -> GapCounts:
    """Build one gap after each token but the last.

    A quarter are 9 ms, a quarter 11 ms, the rest 10 ms.
    """
    gaps = sum(
        max(0, tokens - 1) for tokens in compress(columns.output_tokens, columns.ok)
    )
    return GapCounts(
        us=(9_000, 10_000, 11_000),
        count=(gaps // 4, gaps - 2 * (gaps // 4), gaps // 4),
    )


def spread(gaps: GapCounts) -> GapSlices | None:
    """Spread the gaps of every length over all slices of time, as far as they go."""
    slices = [Counter[int]() for _ in range(MAX_GAP_SLICES)]
    place = 0
    for us, count in zip(gaps.us, gaps.count, strict=True):
        for i, of_slice in enumerate(slices):
            of_slice[us] += count // len(slices) + (
                (i - place) % len(slices) < count % len(slices)
            )
        place += count
    return gap_slices(slices)


def served(columns: RequestColumns) -> dict[str, float]:
    """Return the counters of a server that answers these requests and no others."""
    prompts = float(sum(compress(columns.input_tokens, columns.ok)))
    return {
        "generation_tokens_total": float(
            sum(compress(columns.output_tokens, columns.ok))
        ),
        "prefix_cache_queries_total": prompts,
        "prompt_tokens_total": prompts,
        "request_success_total": float(sum(columns.ok)),
        "time_to_first_token_seconds_count": float(sum(columns.ok)),
        "time_to_first_token_seconds_sum": sum(
            compress(columns.ttft_us, columns.ok)
        )
        / 1e6,
    }


def client(**changes: Any) -> ClientFigures:
    """Build an unburdened client: a tenth of a core, never stopped, at most 1 ms late."""
    values: dict[str, Any] = {
        "cpu_seconds": 1.0,
        "wall_seconds": 10.0,
        "throttled_periods": 0,
        "lost_segments": 0,
        "lag_p99_us": 500,
        "lag_max_us": 1_000,
        "node_cpu_seconds": 10.0,
        "stolen_seconds": 0.0,
    }
    return ClientFigures(**(values | changes))


def edge(
    address: str = "10.0.0.9:8000",
    *,
    before: Mapping[str, float] | None = None,
    after: Mapping[str, float] | None = None,
    rises: Mapping[str, float] | None = None,
    role: str = "server",
) -> ServerEdge:
    """Build the counters of a server that started at second 1000.

    `rises` are added to `before`, two requests' if none are named.
    """
    start = ZERO | dict(before or {})
    moved = served(requests()) if rises is None else rises
    end = {name: value + moved.get(name, 0.0) for name, value in start.items()}
    finished = end if after is None else end | dict(after)
    return ServerEdge(
        address=address, role=role, before=start, after=finished, served=SERVED
    )


def sample(at: float, **changes: Any) -> Sample:
    """Build a sample of a busy server during the stage of `record()`."""
    values: dict[str, Any] = {
        "role": "server",
        "pod": "br-run-4a49acf8-server-x",
        "running": 1.0,
        "waiting": 0.0,
        "kv_cache": 0.5,
        "generation_tokens": 10.0,
        "start_time": 1000.0,
    }
    return Sample(at=at, **(values | changes))


def load_at(axis: Axis, value: str, **options: Any) -> Load:
    """Build the load at a value along an axis; users begin spread over a round."""
    return kind_of(axis, value).of(value, **({"start": "Spread"} | options))


def load_of(stage_id: str) -> Load:
    """Build the load that the id of a stage says; four requests a second where it says none."""
    name, _, value = (*stage_id.split("/"), "rate=4")[1].partition("=")
    axes = {kind.name_in_ids: kind.axis for kind in KINDS}
    return (
        load_at(axes[name], value) if name in axes else load_at("RequestRate", "4")
    )


def load_point(
    workload: str = "chat",
    axis: Axis = "RequestRate",
    value: str = "4",
    repeats: int = 1,
    **options: Any,
) -> LoadPoint:
    """Build a load point with the stage ids of its repeats."""
    load = load_at(axis, value, **options)
    load_point_id = f"{workload}/{load.label}"
    return LoadPoint(
        load_point_id,
        workload,
        load,
        tuple(f"{load_point_id}/r{n}" for n in range(1, repeats + 1)),
    )


def sealed_bytes(
    sequence: int = 0, body: bytes = b"packed", **changes: Any
) -> Sealed:
    """Put any bytes into an envelope, as if they were a packed record."""
    values: dict[str, Any] = {
        "sequence": sequence,
        "run_uid": "uid-1",
        "stage_id": f"chat/rate=4/r{sequence + 1}",
        "plan_digest": "e" * 64,
        "ends_search": None,
        "size": len(body),
        "digest": "d" * 64,
    }
    return Sealed(Envelope.model_construct(**(values | changes)), body)
