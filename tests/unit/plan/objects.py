"""All objects of a run as the planner builds them, in one list."""

from dataclasses import replace

from benchrun.api import BenchmarkRunSpec
from benchrun.plan import (
    NOTHING_APPLIED,
    Applied,
    Manifest,
    Owner,
    client_job,
    client_service,
    division_of,
    in_development_mode,
    plan_config_map,
    plan_of_client,
    server_roles,
    service,
    with_defaults,
    workload,
)
from benchrun.plan.network_policies import network_policy_manifests
from benchrun_client.contract import Sealed
from unit.client.plans import TOKEN_DIGEST
from unit.measure.records import sealed_bytes

CLIENT_IMAGE = "ghcr.io/benchrun/client:0.1.0"
OPERATOR_NAMESPACE = "benchrun-system"


def objects(
    owner: Owner,
    spec: BenchmarkRunSpec,
    *,
    endpoint_addresses: tuple[str, ...] = (),
    applied: Applied = NOTHING_APPLIED,
) -> list[Manifest]:
    """Build the plan, the Job, and for each role a Service and its workload.

    In development mode there are NetworkPolicies, too. `applied`: the platform's defaults.
    """
    owner = replace(owner, labels=applied.labels)
    plan = plan_of_client(
        owner,
        with_defaults(spec, applied),
        endpoint_addresses=endpoint_addresses,
        token_digest=TOKEN_DIGEST,
    )
    job = client_job(
        owner,
        spec,
        plan_digest=plan.digest(),
        default_image=CLIENT_IMAGE,
        pull_policy="IfNotPresent",
        applied=applied,
    )
    fences = network_policy_manifests(
        owner, spec, operator_namespace=OPERATOR_NAMESPACE, servers_only=True
    )
    started = server_roles(
        owner,
        spec,
        client_image=spec.client.image or CLIENT_IMAGE,
        pull_policy="IfNotPresent",
        applied=applied,
    )
    servers = [
        make(owner, role) for role in started for make in (service, workload)
    ]
    meeting = [client_service(owner)] if division_of(spec).pods > 1 else []
    return [
        plan_config_map(owner, plan, spec.chat_template),
        *meeting,
        job,
        *(fences if in_development_mode(spec) else []),
        *servers,
    ]


def arrived(
    *,
    sequence: int,
    digest: str = "d" * 64,
    data: bytes = b"record",
    ends_search: str | None = None,
) -> Sealed:
    """Build a received record to be stored; storing does not depend on its content."""
    return sealed_bytes(sequence, data, digest=digest, ends_search=ends_search)


def of_kind(manifests: list[Manifest], kind: str) -> Manifest:
    """Return the one object of that kind."""
    (found,) = [m for m in manifests if m["kind"] == kind]
    return found
