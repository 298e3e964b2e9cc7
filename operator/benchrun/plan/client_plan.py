"""The client's plan, made from a spec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchrun_client.contract import (
    MAX_REQUESTS_A_STAGE,
    Data,
    LoadPoint,
    MixData,
    Plan,
    RoleServers,
    Search,
    Stage,
    Target,
    Warmup,
)
from benchrun_client.engines import ENGINE
from pydantic import TypeAdapter

from benchrun.api import BenchmarkRunSpec, Load, Model, Workload
from benchrun.plan.mounted_files import PlacedFile, model_files, served_name
from benchrun.plan.pods import Owner
from benchrun.plan.roles import answering_args, front_role, role_replicas, role_url
from benchrun.plan.searches import client_search
from benchrun.plan.stages import PlannedStage, planned_stages, warmup_seed
from benchrun.sizing import ServeArgs, UnreadableValue

_DATA: TypeAdapter[Data] = TypeAdapter(Data)

CA_FILE = "/etc/benchrun-ca/ca.crt"
DEFAULT_WARMUP_CONCURRENCY = 8
"""Where neither users nor a cap bound the requests in flight."""


def client_data(workload: Workload, workloads: Sequence[Workload]) -> Data:
    """A workload's dataset in the plan; `workloads`: all of the spec, where a mix finds its parts."""
    if workload.dataset.mix is None:
        return _DATA.validate_python(_fields(workload))
    named = {each.name: each for each in workloads}
    parts = [{"weight": part.weight, "data": _fields(named[part.workload])} for part in workload.dataset.mix]
    return MixData.model_validate({"parts": parts})


def _fields(workload: Workload) -> dict[str, Any]:
    file = workload.dataset.file
    placed = {} if file is None else {"file": PlacedFile(workload.name, file).in_plan()}
    return workload.dataset.plan_fields() | placed


def plan_of_client(
    owner: Owner, spec: BenchmarkRunSpec, *, token_digest: str, endpoint_addresses: tuple[str, ...] = ()
) -> Plan:
    """The whole measurement as one document. `endpoint_addresses`: pods behind `endpoint.serviceRef`, as host:port."""
    return Plan(
        run_uid=owner.uid,
        token_digest=token_digest,
        target=_target(owner, spec, endpoint_addresses),
        stages=tuple(_stage(s, spec) for s in planned_stages(spec, run_uid=owner.uid)),
        searches=planned_searches(owner, spec),
        warmups=_warmups(owner, spec),
        cache_policy=spec.measurement.cache_policy,
        percentiles=tuple(spec.measurement.percentiles),
        # Only the client knows why an endpoint is not ready; the operator watches a server's loading itself.
        health_deadline_seconds=0 if spec.endpoint is None else spec.startup_deadline_seconds,
    )


def planned_searches(owner: Owner, spec: BenchmarkRunSpec) -> tuple[Search, ...]:
    """The searches of the plan, in order."""
    return tuple(
        client_search(spec, workload, workload.load.search, data=client_data(workload, spec.workloads), uid=owner.uid)
        for workload in spec.workloads
        if workload.load.search is not None
    )


def _target(owner: Owner, spec: BenchmarkRunSpec, endpoint_addresses: tuple[str, ...]) -> Target:
    model: Model = spec.model
    files = model_files(model)
    served = served_name(model)
    # Another tokenizer is another repository: the model's revision does not exist there.
    revision = model.revision if model.tokenizer is None else None
    common = {"served_model": served, "tokenizer": files.tokenizer, "tokenizer_revision": revision}
    if spec.endpoint is None:
        front, counts = front_role(spec), role_replicas(spec)
        return Target(
            base_url=role_url(owner, front),
            servers=counts[front],
            behind=tuple(
                RoleServers(role=role, base_url=role_url(owner, role), servers=servers)
                for role, servers in counts.items()
                if role != front
            ),
            context_tokens=_context_tokens(spec),
            offline=spec.offline is not None,
            **common,
        )
    ca_file = CA_FILE if spec.endpoint.ca_config_map_ref is not None else None
    if spec.endpoint.service_ref is not None:
        reference = spec.endpoint.service_ref
        base = f"http://{reference.name}.{owner.namespace}.svc:{reference.port}"
        urls = tuple(f"http://{address}{ENGINE.metrics_path}" for address in endpoint_addresses)
        return Target(base_url=base, servers=0, metrics_urls=urls, ca_file=ca_file, **common)
    base = (spec.endpoint.url or "").rstrip("/")
    return Target(base_url=base, servers=0, metrics_urls=(f"{base}{ENGINE.metrics_path}",), ca_file=ca_file, **common)


def _context_tokens(spec: BenchmarkRunSpec) -> int | None:
    """The value of --max-model-len; None: not given, or a form that only vLLM can read."""
    try:
        return ServeArgs.of(answering_args(spec)).whole_if_given("max-model-len")
    except UnreadableValue:
        return None


def _stage(planned: PlannedStage, spec: BenchmarkRunSpec) -> Stage:
    workload = planned.workload
    return Stage(
        id=planned.id,
        workload=workload.name,
        repeat=planned.repeat,
        load=_load_point(workload.load, planned.value),
        data=client_data(workload, spec.workloads),
        requests=planned.requests,
        seed=planned.seed,
        api=workload.api,
        ignore_eos=workload.ignore_eos,
    )


def _load_point(load: Load, value: str) -> LoadPoint:
    if load.concurrencies is not None:
        return LoadPoint(request_rate="inf", max_concurrency=int(value))
    if load.batch_sizes is not None:
        return LoadPoint(batch_size=int(value))
    if load.trace_speeds is not None:
        return LoadPoint(request_rate="inf", trace_speed=value)
    return LoadPoint(request_rate=value, max_concurrency=load.max_concurrency, burstiness=load.burstiness or "1")


def _warmups(owner: Owner, spec: BenchmarkRunSpec) -> tuple[Warmup, ...]:
    auto = spec.measurement.warmup.auto
    if auto is None:
        return ()
    uid = owner.uid if spec.endpoint is not None else None
    return tuple(
        Warmup(
            workload=workload.name,
            data=client_data(workload, spec.workloads),
            requests=2 * _highest_concurrency(workload.load),
            concurrency=_highest_concurrency(workload.load),
            seed=warmup_seed(base=spec.measurement.seed, workload=workload.name, run_uid=uid),
            max_seconds=auto.max_seconds,
            api=workload.api,
        )
        for workload in spec.workloads
        if workload.is_measured
    )


def _highest_concurrency(load: Load) -> int:
    if load.search is not None:
        return int(load.search.to) if load.search.axis == "Concurrency" else DEFAULT_WARMUP_CONCURRENCY
    if load.batch_sizes is not None:
        # A warm-up is one load, too.
        return min(max(load.batch_sizes), MAX_REQUESTS_A_STAGE // 2)
    return max(load.concurrencies) if load.concurrencies else load.max_concurrency or DEFAULT_WARMUP_CONCURRENCY
