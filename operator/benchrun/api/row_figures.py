"""The figures of a row by name, as users' rules ask for them.

`p99_ttft_ms` is one of `results[].metrics`, `server.kvCacheMaxPercent` is of a role, and
`repeatCvPercent.mean_ttft_ms` says how much the repeats differ.
"""

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches

from benchrun.api.base import json_name
from benchrun.api.comparison import COSTS, PER_GPU, THROUGHPUTS, TOKENS_PER_JOULE
from benchrun.api.expressions import Environment, Figures, Values
from benchrun.api.server_figures import RoleFigures
from benchrun.api.status import Result
from benchrun.names import ROLE_GATEWAY, SERVING_ROLES

LATENCIES = (
    "ttft",
    "tpot",
    "itl",
    "e2el",
    "ttfrt",
    "ttfat",
    "client_queue_time",
    "ttft_including_client_queue",
    "e2el_including_client_queue",
    "ttfrt_including_client_queue",
    "ttfat_including_client_queue",
)
OTHER_METRICS = (
    "completed",
    "failed",
    "sent",
    "duration",
    "total_input_tokens",
    "total_output_tokens",
    "total_reasoning_tokens",
    "total_answer_tokens",
    "unanswered",
    "reconnected",
    "answered_percent",
    "answers_cached_percent",
    "mean_connect_ms",
    "max_connect_ms",
    "request_goodput",
    *THROUGHPUTS,
    PER_GPU,
    *COSTS,
    TOKENS_PER_JOULE,
)
"""Names in `metrics` or `steady` that are not a mean, a percentile or a deviation of a latency."""
STATISTICS = ("mean", "median", "std")
ROLES = (*SERVING_ROLES, ROLE_GATEWAY)
CV = "repeatCvPercent"
METRICS = "metrics"
_NUMBERS: tuple[object, ...] = (float | None, int | None)
ROLE_FIELDS = {
    json_name(name): name
    for name, field in RoleFigures.model_fields.items()
    if field.annotation in _NUMBERS
}
_PERCENTILE = re.compile(
    rf"p([0-9]{{1,2}}(?:\.[0-9]{{1,3}})?)_({'|'.join(LATENCIES)})_ms"
)
_NAMES = (
    *OTHER_METRICS,
    *(f"{each}_{latency}_ms" for latency in LATENCIES for each in STATISTICS),
)


def percentile_of(name: str) -> float | None:
    """Return the percentile that a metric's name asks for; None if it asks for none."""
    found = _PERCENTILE.fullmatch(name)
    return float(found[1]) if found else None


def metric_problem(name: str) -> str | None:
    """Return what is wrong with the name of a metric of a row; None if it may be there."""
    if name in _NAMES or percentile_of(name):
        return None
    return _unknown(name, (*_NAMES, *(f"p99_{each}_ms" for each in LATENCIES)))


def role_problem(name: str) -> str | None:
    """Return what is wrong with the name of a figure of a role; None if it may be there."""
    return None if name in ROLE_FIELDS else _unknown(name, tuple(ROLE_FIELDS))


def figure_problem(name: str) -> str | None:
    """Return what is wrong with the full name of a figure; None if it may be there."""
    group, dot, rest = name.partition(".")
    if dot and group in ROLES:
        return role_problem(rest)
    if dot and group == CV:
        return metric_problem(rest)
    return metric_problem(name)


def _unknown(name: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    advice = (
        f"did you mean {' or '.join(near)}?"
        if near
        else "see results[].metrics and results[].roles of a run"
    )
    return f"{name!r} is no figure of a row; {advice}"


ENVIRONMENT = Environment(
    variables={
        "workload": "string",
        "axis": "string",
        "load": "double",
        "repeats": "int",
    },
    figures={
        METRICS: metric_problem,
        CV: metric_problem,
        **dict.fromkeys(ROLES, role_problem),
    },
)
"""What the condition of a user's rule may use."""


def row_values(row: Result) -> Values:
    """Return what conditions and rules may use of a row.

    Figures are of the steady part where the row has one, as in tables.
    """
    metrics = {key: row.figure(key) for key in row.metrics | row.steady}
    roles: dict[str, Figures] = {role: {} for role in ROLES}
    for each in row.roles:
        figures = {
            shown: getattr(each, name) for shown, name in ROLE_FIELDS.items()
        }
        roles |= {each.role: figures} if each.role in roles else {}
    return {
        "workload": row.workload,
        "axis": row.axis,
        "load": float(row.value),
        "repeats": row.repeats,
        METRICS: metrics,
        CV: row.repeat_cv_percent,
        **roles,
    }


def figure_in(values: Values, name: str) -> float | None:
    """Return a figure of a row by its full name; None if the row has no such number."""
    group, dot, rest = name.partition(".")
    own = dot and (group in ROLES or group == CV)
    figures = values[group if own else METRICS]
    assert isinstance(figures, Mapping)
    value = figures.get(rest if own else name)
    return value if value is not None and math.isfinite(value) else None
