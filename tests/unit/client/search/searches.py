"""Searches for tests."""

from typing import Any

from benchrun_client.contract import Limit, SearchPlan, kind_of, most_search_stages
from benchrun_client.contract.datasets import RandomData

TTFT_LIMIT = Limit(metric="TTFT", percentile="90", max_milliseconds=100)


def search(**changes: Any) -> SearchPlan:
    """Build a search from 1 to 64 requests a second, to 5 %.

    It has at most twelve probes, and confirmations of up to three stages each.
    """
    fields: dict[str, Any] = {
        "workload": "chat",
        "axis": "RequestRate",
        "lowest": "1",
        "highest": "64",
        "tolerance_percent": "5",
        "max_probes": 12,
        "max_repeats": 3,
        "objectives": (TTFT_LIMIT,),
        "max_failed_percent": "1",
        "data": RandomData(input_tokens=16, output_tokens=4),
        "requests": 40,
    } | changes
    if "duration_seconds" in changes and "requests" not in changes:
        fields["requests"] = None
    axis, start, think_seconds = (
        fields.pop(n, None) for n in ("axis", "start", "think_seconds")
    )
    value = fields["lowest"]
    fields["lowest"] = kind_of(axis, value).of(
        value, start=start, think_seconds=think_seconds
    )
    stages = most_search_stages(fields["max_probes"], fields["max_repeats"])
    fields.setdefault("seeds", tuple(range(stages)))
    return SearchPlan(**fields)
