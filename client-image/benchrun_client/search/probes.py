"""The stages of a search: the plan names what they have in common, the course their load."""

from __future__ import annotations

from decimal import Decimal

from benchrun_client.contract import LoadPoint, Search, Stage, open_stage_id
from benchrun_client.search.course import Position, spelled


def stage_at(search: Search, here: Position) -> Stage:
    """The stage to measure there."""
    return _stage(search, here.number, here.repeat, spelled(here.value))


def every_stage(search: Search) -> tuple[Stage, ...]:
    """One stage for each that there may be, with as many requests as it may have: what its data must suffice for. The load of
    the first probe is known, that of others at most."""
    return tuple(
        _stage(search, number, repeat, search.lowest if number == 1 else search.highest)
        for number in range(1, search.max_probes + 1)
        for repeat in range(1, search.max_repeats + 1)
    )


def index_of(search: Search, number: int, repeat: int) -> int:
    """The place of a stage among `every_stage`."""
    return (number - 1) * search.max_repeats + repeat - 1


def _stage(search: Search, number: int, repeat: int, value: str) -> Stage:
    return Stage(
        id=open_stage_id(search.workload, number, repeat),
        workload=search.workload,
        repeat=repeat,
        load=_load_point(search, value),
        data=search.data,
        requests=search.requests_at(Decimal(value)),
        seed=search.seeds[index_of(search, number, repeat)],
        api=search.api,
        ignore_eos=search.ignore_eos,
    )


def _load_point(search: Search, value: str) -> LoadPoint:
    if search.axis == "concurrency":
        return LoadPoint(max_concurrency=int(value))
    return LoadPoint(request_rate=value)
