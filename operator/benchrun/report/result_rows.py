"""Tables of a run's load points and objectives, with what a million tokens cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol, TypeVar

from benchrun.api import (
    OUTPUT_COST,
    TOKENS_PER_JOULE,
    TOTAL_COST,
    BenchmarkRunStatus,
    CostStatus,
    ObjectiveResult,
    Result,
    RoleFigures,
)
from benchrun.judge.row import PER_GPU, gpus_of
from benchrun.names import ROLE_DECODE, ROLE_PROXY
from benchrun.observe import raw
from benchrun.report.rows import ABSENT, UNCERTAIN, Column, Rows, figure, laid_out

# ---- objective rows ---------------------------------------------------------------------------------------------------
# Rows of the table of objectives: what was asked, what came, and whether it is kept.


def objective_rows(status: BenchmarkRunStatus) -> Rows:
    """One row an objective and load point; none where the spec has no objectives."""
    rows = tuple(
        (result.cell, _asked(each), figure(each.measured_milliseconds, digits=4), each.outcome)
        for result in status.results
        for each in result.objectives
    )
    return Rows(("load point", "objective", "measured (ms)", "outcome"), rows)


def _asked(objective: ObjectiveResult) -> str:
    return f"{objective.metric} p{objective.percentile} at most {objective.max_milliseconds} ms"


# ---- texts per prompt -------------------------------------------------------------------------------------------------
# How many texts stand in a prompt: where a dataset packs texts, requests a second are not what is asked about.


def texts_per_prompt(spec: Mapping[str, object]) -> dict[str, int]:
    """By workload, those alone whose dataset is `texts`. Of a run's spec as the API server holds it; what is not there, as in
    the spec of another version, counts as nothing."""
    found: dict[str, int] = {}
    for workload in raw.mappings(spec.get("workloads")):
        dataset = raw.mapping(workload.get("dataset"))
        if "texts" in dataset:
            texts = raw.mapping(dataset["texts"])
            found[raw.text(workload.get("name"))] = raw.number(texts.get("textsPerPrompt"), default=1)
    return found


def texts_a_second(request_throughput: float | None, workload: str, texts: Mapping[str, int]) -> str:
    """For a column."""
    known = request_throughput is not None and workload in texts
    return figure((request_throughput or 0.0) * texts[workload] if known else None)


# ---- cost columns -----------------------------------------------------------------------------------------------------
# What a million tokens cost, as columns of tables: only where a price was named.


class HasMetrics(Protocol):
    """A row of a run or of a sweep."""

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Figures by their name."""
        ...


T = TypeVar("T", bound=HasMetrics)


def cost_header(currency: str | None) -> str:
    """Of the column of a million output tokens: those that `tok/s` counts."""
    return f"{currency or 'cost'}/Mtok"


def cost_columns(currency: str | None) -> tuple[Column[T], ...]:
    """Of a million output tokens, and of a million of all where the table is wide."""
    total = f"{currency or 'cost'}/total Mtok"
    return (
        Column(cost_header(currency), _reader(OUTPUT_COST), optional=True),
        Column(total, _reader(TOTAL_COST), wide=True, optional=True),
    )


def price_told(cost: CostStatus) -> str:
    """`4.98 USD an hour`."""
    if cost.per_hour is None:
        return "not known: the price is that of a GPU, and no server holds one"
    return f"{figure(cost.per_hour, digits=5)} {cost.currency} an hour"


def _reader(key: str) -> Callable[[HasMetrics], str]:
    return lambda row: figure(row.metrics.get(key))


# ---- result rows ------------------------------------------------------------------------------------------------------
# Rows of the table that shows a run's load points: text only, no layout.

NO_TEXTS: Mapping[str, int] = MappingProxyType({})
"""Of a run whose workloads pack none."""


def result_rows(
    status: BenchmarkRunStatus, *, texts_per_prompt: Mapping[str, int] = NO_TEXTS, wide: bool = False
) -> Rows:
    """One row a load point: throughput, latencies in milliseconds, and what the server was doing meanwhile. Texts a second where
    a workload packs texts into prompts; a million tokens' cost where the spec names a price; all tokens a second, those of prompts
    too, where it may be `wide`. Throughput per GPU where the servers hold several."""
    several = gpus_of(status.servers) > 1
    columns: tuple[Column[Result], ...] = (
        Column("load point", lambda row: row.cell),
        Column("req/s", lambda row: _figure(row, "request_throughput")),
        Column("texts/s", lambda row: _texts(row, texts_per_prompt), optional=True),
        Column("tok/s", lambda row: _figure(row, "output_throughput")),
        Column("total tok/s", lambda row: _figure(row, "total_token_throughput"), wide=True),
        Column("per GPU", lambda row: _figure(row, PER_GPU) if several else ABSENT, optional=True),
        *cost_columns(status.cost.currency if status.cost is not None else None),
        Column("tok/J", lambda row: _figure(row, TOKENS_PER_JOULE), optional=True),
        Column("GPU W", lambda row: figure(_watts(row)), wide=True, optional=True),
        Column("TTFT p50", lambda row: _latency(row, "ttft", "50")),
        Column("p99", lambda row: _latency(row, "ttft", "99")),
        Column("TPOT p50", lambda row: _latency(row, "tpot", "50")),
        Column("E2EL p99", lambda row: _latency(row, "e2el", "99")),
        Column("running", lambda row: _by_role(row, lambda role: figure(role.running_mean))),
        Column("waiting", lambda row: _by_role(row, lambda role: figure(role.waiting_mean))),
        Column("KV max", lambda row: _by_role(row, lambda role: figure(role.kv_cache_max_percent, unit="%"))),
        Column("hits", lambda row: _by_role(row, lambda role: figure(role.prefix_hit_percent, unit="%"))),
        Column("fetched", lambda row: figure(_fetched(row), unit="%"), optional=True),
        Column("proxy ms", lambda row: figure(_added(row)), optional=True),
        Column("failed", _failed),
        Column("verdict", lambda row: row.verdict),
    )
    return laid_out(columns, status.results, wide=wide)


def _figure(result: Result, key: str) -> str:
    return figure(result.metrics.get(key))


def _texts(result: Result, texts_per_prompt: Mapping[str, int]) -> str:
    return texts_a_second(result.metrics.get("request_throughput"), result.workload, texts_per_prompt)


def _by_role(result: Result, told: Callable[[RoleFigures], str]) -> str:
    """Of prefill and decode both: 0.3/2.1."""
    of_vllm = [role for role in result.roles if role.role != ROLE_PROXY]
    return "/".join(map(told, of_vllm)) or ABSENT


def _fetched(result: Result) -> float | None:
    """Of the prompts, what the servers that decode had from those that prefill."""
    return next((role.fetched_percent for role in result.roles if role.role == ROLE_DECODE), None)


def _added(result: Result) -> float | None:
    return next((role.added_mean_ms for role in result.roles if role.role == ROLE_PROXY), None)


def _watts(result: Result) -> float | None:
    """Of the GPUs of all roles."""
    powers = [role.gpu_power_mean_watts for role in result.roles if role.gpu_power_mean_watts is not None]
    return sum(powers) if powers else None


def _latency(result: Result, name: str, percentile: str) -> str:
    """In milliseconds, marked where it is uncertain. The median stands in where the 50th percentile was not asked for."""
    key = f"p{percentile}_{name}_ms"
    value = result.metrics.get(key)
    if value is None and percentile == "50":
        value = result.metrics.get(f"median_{name}_ms")
    return figure(value, unit=UNCERTAIN if key in result.uncertain else "")


def _failed(result: Result) -> str:
    failed, completed = result.metrics.get("failed"), result.metrics.get("completed")
    if failed is None or completed is None:
        return ABSENT
    return f"{failed:.0f}/{failed + completed:.0f}"
