"""Make the client's plan from a spec."""

import math
from collections.abc import Sequence
from typing import Any

from benchrun_client import contract
from benchrun_client.engines import EngineSetting
from pydantic import TypeAdapter

from benchrun.api import BenchmarkRunSpec, ChatFields, Endpoint, Search, Workload
from benchrun.plan import stages
from benchrun.plan.child_objects import Owner
from benchrun.plan.mounted_files import (
    CA_FILE,
    CERTIFICATE_DIRECTORY,
    TEMPLATE_FILE,
    cache_of,
    data_in_plan,
    header_variable,
    model_path,
    served_name,
)
from benchrun.plan.server_manifests import (
    answering_args,
    answering_servers,
    front_role,
    role_replicas,
    role_url,
)
from benchrun.plan.stages import PlannedStage, gpus, planned_stages
from benchrun.sizing import ServeArgs, UnreadableValue

_DATA: TypeAdapter[contract.Data] = TypeAdapter(contract.Data)

MIN_WARMUP_CONCURRENCY = 8
"""Least number of requests in flight during a warm-up if neither users nor a cap bound them. It is
also the number if nothing is known about them."""
HELD_SECONDS = 10
"""Seconds of arrivals that are assumed to be in flight at the same time: longer than most answers
take, so it allows for a short queue."""
DEFAULT_MAX_RUNNING = 256
"""vLLM's smallest default for the batch size (EngineArgs.get_batch_defaults); larger batches run
the same kernels."""
MAX_PROFILE_SECONDS = 300
"""Most seconds that the server is held for a profile. The largest trace is written in a minute or
two."""
MAX_FURTHER_PROFILED = 256
"""Most requests of a profile beyond those in flight at once. So many take only seconds of load, and
their prompts do not take minutes to write."""
MAX_HELD = 1024  # Most requests in flight during a warm-up. One process warms up all servers.
SECOND_ROUND = 32
"""Requests of a warm-up beyond those in flight at once; when they arrive, the engine has compiled
its kernels."""


def client_data(workload: Workload, workloads: Sequence[Workload]) -> contract.Data:
    """Return a workload's dataset in the form that the plan has.

    `workloads` are all workloads of the spec, among which a mix finds its parts.
    """
    if workload.dataset.mix is None:
        return _DATA.validate_python(_fields(workload))
    named = {each.name: each for each in workloads}
    parts = [
        {"weight": part.weight, "data": _fields(named[part.workload])}
        for part in workload.dataset.mix
    ]
    return contract.MixData.model_validate({"parts": parts})


def _fields(workload: Workload) -> dict[str, Any]:
    file = workload.dataset.file
    placed = {} if file is None else {"file": data_in_plan(workload.name, file)}
    return workload.dataset.plan_fields() | placed


def client_sampling(workload: Workload) -> contract.SamplingParams:
    """Return the sampling settings for the plan: greedy, unless the spec sets others."""
    asked = (
        {}
        if workload.sampling is None
        else workload.sampling.model_dump(exclude_none=True)
    )
    return contract.SamplingParams.model_validate(asked)


def client_fields(workload: Workload) -> contract.RequestFields | None:
    """Return the further fields of the requests, for the plan; None if there are none.

    An empty object counts as none, except an empty JSON schema, which any JSON meets.
    """
    if (asked := workload.request) is None:
        return None
    chat = asked.chat or ChatFields()
    form = asked.response_format
    adapters = [each.model_dump() for each in asked.adapters or ()]
    fields = contract.RequestFields(
        thinking=chat.thinking,
        template_arguments=_text(chat.template_arguments or None),
        tools=_text(chat.tools),
        answer_schema=None if form is None else _text(form.json_schema),
        priority=asked.priority,
        extra=_text(asked.extra_body or None),
        adapters=tuple(map(contract.Adapter.model_validate, adapters)),
        texts=asked.texts,
    )
    return None if fields == contract.NO_FIELDS else fields


def _text(value: object) -> str | None:
    return None if value is None else contract.json_text(value)


def plan_of_client(
    owner: Owner,
    spec: BenchmarkRunSpec,
    *,
    token_digest: str,
    endpoint_addresses: tuple[str, ...] = (),
) -> contract.Plan:
    """Build the plan: the whole measurement as one document.

    `endpoint_addresses` are the pods whose metrics are read, as host:port.
    """
    auto = spec.measurement.warmup.auto
    return contract.Plan(
        run_uid=owner.uid,
        token_digest=token_digest,
        target=_target(owner, spec, endpoint_addresses),
        stages=tuple(
            _stage(s, spec) for s in planned_stages(spec, run_uid=owner.uid)
        ),
        searches=planned_searches(owner, spec),
        auto=_auto(spec) if spec.until_decided else None,
        warmups=tuple(
            _warmup(
                owner, spec, each, seed_of=each.name, max_seconds=auto.max_seconds
            )
            for each in spec.workloads
            if auto is not None and each.is_measured
        ),
        profile=_profile(owner, spec),
        cache_policy=spec.measurement.cache_policy,
        percentiles=tuple(spec.measurement.percentiles),
        # Only the client knows why an endpoint is not ready; the operator watches a server's
        # loading itself.
        health_deadline_seconds=0
        if spec.endpoint is None
        else spec.startup_deadline_seconds,
    )


def planned_searches(
    owner: Owner, spec: BenchmarkRunSpec
) -> tuple[contract.SearchPlan, ...]:
    """Return the searches of the plan, in order."""
    return tuple(
        _search(owner, spec, w, search)
        for w in spec.workloads
        if (search := w.load.search) is not None
    )


def _search(
    owner: Owner, spec: BenchmarkRunSpec, workload: Workload, search: Search
) -> contract.SearchPlan:
    return contract.SearchPlan(
        workload=workload.name,
        lowest=workload.load.lowest_searched,
        highest=contract.spelled(search.to),
        tolerance_percent=search.tolerance_percent,
        max_probes=search.max_probes,
        max_repeats=search.max_repeats,
        objectives=_limits(spec),
        max_failed_percent=spec.validity.max_failed_percent,
        data=client_data(workload, spec.workloads),
        requests=workload.requests,
        duration_seconds=workload.duration_seconds,
        seeds=tuple(
            stages.seed_in(
                spec,
                workload.name,
                stages.probe_seed,
                run_uid=owner.uid,
                probe=probe,
                repeat=repeat,
            )
            for probe, repeat in contract.search_places(
                search.max_probes, search.max_repeats
            )
        ),
        api=workload.api,
        ignore_eos=workload.ignore_eos,
        sampling=client_sampling(workload),
        fields=client_fields(workload),
    )


def _limits(spec: BenchmarkRunSpec) -> tuple[contract.Limit, ...]:
    return tuple(
        contract.Limit(**objective.model_dump()) for objective in spec.objectives
    )


KEPT_FOR_THE_END = 0.1
"""Share of spec.runDeadlineSeconds that `repeats: Auto` leaves: where the next repeats take longer
than those before, the run still ends by itself, and not by its deadline."""


def _auto(spec: BenchmarkRunSpec) -> contract.AutoPlan:
    budget = spec.budget
    assert budget is not None, "a rule of the spec"
    held = gpus(spec)
    deadline = spec.run_deadline_seconds
    seconds = (
        budget.seconds,
        budget.gpu_seconds // held if budget.gpu_seconds and held else None,
        math.floor(deadline * (1 - KEPT_FOR_THE_END)) if deadline else None,
    )
    bounds = [max(1, each) for each in seconds if each is not None]
    return contract.AutoPlan(
        objectives=_limits(spec),
        widths=tuple(contract.Width(**each.model_dump()) for each in spec.widths),
        max_failed_percent=spec.validity.max_failed_percent,
        max_requests=spec.budget_requests,
        max_seconds=min(bounds, default=None),
        looks=contract.looks_within(spec.most_repeats),
    )


def _target(
    owner: Owner, spec: BenchmarkRunSpec, endpoint_addresses: tuple[str, ...]
) -> contract.Target:
    model = spec.model
    common: dict[str, Any] = {
        "engine": spec.engine_name,
        "served_model": served_name(model),
        "tokenizer": model.tokenizer or model_path(model),
        # Another tokenizer is another repository: the model's revision does not exist there.
        "tokenizer_revision": model.revision if model.tokenizer is None else None,
        "chat_template": TEMPLATE_FILE if spec.chat_template is not None else None,
        "cache": cache_of(model),
    }
    if spec.endpoint is None:
        front = front_role(spec)
        counts = role_replicas(spec)
        return contract.Target(
            base_url=role_url(owner, spec, front),
            servers=counts[front],
            behind=tuple(
                contract.RoleTarget(
                    role=role, base_url=role_url(owner, spec, role), servers=servers
                )
                for role, servers in counts.items()
                if role != front
            ),
            context_tokens=_setting_of_servers(spec, EngineSetting.MAX_TOKENS),
            offline=spec.offline is not None,
            **common,
        )
    if (service := spec.endpoint.service_ref) is not None:
        base = f"http://{service.name}.{owner.namespace}.svc:{service.port}"
    else:
        base = (spec.endpoint.url or "").rstrip("/")
    return contract.Target(
        base_url=base,
        servers=0,
        metrics_urls=_metrics_urls(spec, base, endpoint_addresses),
        metrics_apart=spec.endpoint.metrics is not None,
        **_asked_for(spec.endpoint),
        **common,
    )


def _metrics_urls(
    spec: BenchmarkRunSpec, base_url: str, addresses: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the metrics pages of an endpoint's servers.

    These are the listed ones, else those of the pods that were looked up, else the endpoint's own.
    """
    assert spec.endpoint is not None
    metrics = spec.endpoint.metrics
    if metrics is not None and metrics.urls is not None:
        return tuple(metrics.urls)
    has_pods = metrics is not None or spec.endpoint.service_ref is not None
    measured = [f"http://{each}" for each in addresses] if has_pods else [base_url]
    return tuple(f"{each}{spec.engine.metrics_path}" for each in measured)


def _asked_for(endpoint: Endpoint) -> dict[str, Any]:
    """Return what the endpoint asks of the client, as fields of the plan's target."""
    shown = endpoint.client_certificate_secret_ref
    return {
        "ca_file": CA_FILE if endpoint.ca_config_map_ref is not None else None,
        "certificate": CERTIFICATE_DIRECTORY if shown is not None else None,
        "headers": tuple(
            contract.RequestHeader(
                name=each.name,
                value=each.value,
                variable=header_variable(each.name)
                if each.secret_key_ref is not None
                else None,
            )
            for each in endpoint.headers
        ),
        "query": tuple(
            contract.QueryParameter(name=each.name, value=each.value)
            for each in endpoint.query
        ),
    }


def _setting_of_servers(
    spec: BenchmarkRunSpec, setting: EngineSetting
) -> int | None:
    """Return a setting of the servers that write answers, from their arguments.

    Return None if it is not given, or has a form that only the engine can read.
    """
    try:
        return ServeArgs.of(answering_args(spec), spec.engine).whole(setting)
    except UnreadableValue:
        return None


def _stage(planned: PlannedStage, spec: BenchmarkRunSpec) -> contract.Stage:
    workload = planned.workload
    return contract.Stage(
        id=planned.id,
        workload=workload.name,
        repeat=planned.repeat,
        load=planned.load,
        data=client_data(workload, spec.workloads),
        requests=planned.requests,
        seed=planned.seed,
        api=workload.api,
        ignore_eos=workload.ignore_eos,
        test_request=workload.test_request or None,
        sampling=client_sampling(workload),
        fields=client_fields(workload),
    )


def _is_written(workload: Workload) -> bool:
    """Return whether the workload's prompts are generated, so that any number is available."""
    data = workload.dataset.single
    return data is not None and data.is_unlimited


def _warmup(
    owner: Owner,
    spec: BenchmarkRunSpec,
    workload: Workload,
    *,
    seed_of: str,
    max_seconds: int,
) -> contract.WarmupPlan:
    uid = owner.uid if spec.endpoint is not None else None
    bounds = [load.warmup_concurrency for load in workload.load.highest]
    users = max((bound for bound in bounds if bound is not None), default=None)
    concurrency = users if users is not None else _most_held(workload, spec)
    return contract.WarmupPlan(
        workload=workload.name,
        data=client_data(workload, spec.workloads),
        requests=concurrency + min(concurrency, SECOND_ROUND),
        prompts=None
        if users is not None or _is_written(workload)
        else 2 * MIN_WARMUP_CONCURRENCY,
        concurrency=concurrency,
        seed=stages.warmup_seed(
            base=spec.measurement.seed, workload=seed_of, run_uid=uid
        ),
        max_seconds=max_seconds,
        api=workload.api,
        sampling=client_sampling(workload),
        fields=client_fields(workload),
    )


def _profile(owner: Owner, spec: BenchmarkRunSpec) -> contract.ProfilePlan | None:
    """Return the plan of the profile; None if the spec does not ask for a profile.

    Its load is that of the last workload's warm-up: that of its highest load point, but as a closed
    loop, so that the server always has work. Rows of a file are used again in turn, because the
    measured stages need all of them.
    """
    if (wanted := spec.measurement.profile) is None:
        return None
    workload = [workload for workload in spec.workloads if workload.is_measured][-1]
    seed_of = f"{workload.name}/{contract.PROFILE_STAGE}"
    load = _warmup(
        owner, spec, workload, seed_of=seed_of, max_seconds=MAX_PROFILE_SECONDS
    )
    update = {
        "requests": load.concurrency
        + min(3 * load.concurrency, MAX_FURTHER_PROFILED),
        "prompts": None
        if _is_written(workload)
        else min(load.concurrency, 2 * MIN_WARMUP_CONCURRENCY),
    }
    return contract.ProfilePlan(
        load=load.model_copy(update=update),
        seconds=wanted.seconds,
        max_seconds=MAX_PROFILE_SECONDS,
        reader_port=contract.READER_PORT if spec.server is not None else None,
    )


def _most_held(workload: Workload, spec: BenchmarkRunSpec) -> int:
    """Return the size of the batch that a load without a bound may reach.

    With a smaller batch, a warm-up would compile only some of the kernels that the load needs.
    """
    held = [
        load.held(workload.requests_at(load), HELD_SECONDS)
        for load in workload.load.highest
    ]
    return max(
        MIN_WARMUP_CONCURRENCY, min(max(held, default=0), _largest_batch(spec))
    )


def _largest_batch(spec: BenchmarkRunSpec) -> int:
    """Return how many requests all servers that write answers run at once.

    A server whose arguments do not say it counts with DEFAULT_MAX_RUNNING.
    """
    if spec.endpoint is not None:
        return DEFAULT_MAX_RUNNING
    a_server = (
        _setting_of_servers(spec, EngineSetting.MAX_RUNNING) or DEFAULT_MAX_RUNNING
    )
    return min(a_server * answering_servers(spec), MAX_HELD)
