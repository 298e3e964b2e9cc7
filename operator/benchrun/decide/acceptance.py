"""Whether a spec can be acted on: what the API server checked is checked again, since an object may be older than a rule."""

from __future__ import annotations

from decimal import Decimal

from pydantic import ValidationError

from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.workloads import MAX_CELLS, MAX_REQUESTS, MAX_STAGES, Workload
from benchrun.observe.views import Run
from benchrun.plan.stages import cells, requests_of


class Unacceptable(ValueError):
    """The spec can't be acted on; the text names field and remedy."""


def accept(run: Run) -> BenchmarkRunSpec:
    """The spec, checked. Raises Unacceptable naming the field's path."""
    try:
        spec = BenchmarkRunSpec.model_validate(run.spec)
    except ValidationError as error:
        raise Unacceptable(_first_problem(error)) from error
    _exactly_one("spec", server=spec.server, endpoint=spec.endpoint)
    for index, workload in enumerate(spec.workloads):
        _check_workload(f"spec.workloads[{index}]", workload)
    count = len(cells(spec))
    if count > MAX_CELLS:
        raise Unacceptable(f"spec.workloads: {count} load points in all; the limit is {MAX_CELLS}")
    if count * spec.repeats > MAX_STAGES:
        total = count * spec.repeats
        raise Unacceptable(
            f"spec.repeats: {count} load points x {spec.repeats} = {total} stages; the limit is {MAX_STAGES}"
        )
    return spec


def _check_workload(path: str, workload: Workload) -> None:
    dataset, load = workload.dataset, workload.load
    _exactly_one(f"{path}.dataset", random=dataset.random, shareGPT=dataset.share_gpt)
    _exactly_one(f"{path}.load", requestRates=load.request_rates, concurrencies=load.concurrencies)
    _exactly_one(path, requests=workload.requests, durationSeconds=workload.duration_seconds)
    rates = [r for r in load.request_rates or [] if r != "inf"]
    if any(Decimal(r) <= 0 for r in rates):
        raise Unacceptable(f"{path}.load.requestRates: a request rate must be above 0")
    if workload.duration_seconds is not None and len(rates) != len(load.request_rates or [None]):
        raise Unacceptable(f"{path}.durationSeconds: needs finite requestRates; use requests instead")
    too_many = [r for r in rates if requests_of(workload, r) > MAX_REQUESTS]
    if too_many:
        raise Unacceptable(
            f"{path}.durationSeconds: rate {too_many[0]} x durationSeconds is more than {MAX_REQUESTS} requests"
        )


def _exactly_one(path: str, **members: object) -> None:
    if sum(value is not None for value in members.values()) != 1:
        raise Unacceptable(f"{path}: must set exactly one of {' and '.join(members)}")


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
    more = error.error_count() - 1
    return f"spec{path}: {problem['msg']}" + (f" (and {more} more)" if more else "")
