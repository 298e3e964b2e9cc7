"""All objects of a run as the planner makes them, in one list."""

from __future__ import annotations

from benchrun.api.spec import BenchmarkRunSpec
from benchrun.plan.client_manifests import client_job, client_service, plan_config_map
from benchrun.plan.client_plan import client_plan
from benchrun.plan.metadata import Manifest, Owner
from benchrun.plan.roles import in_development_mode, roles
from benchrun.plan.server_manifests import network_policy, service, workload
from benchrun.plan.shards import division_of

CLIENT_IMAGE = "ghcr.io/benchrun/client:0.1.0"


def objects(owner: Owner, spec: BenchmarkRunSpec, *, endpoint_addresses: tuple[str, ...] = ()) -> list[Manifest]:
    """Plan, Job, and a Service and what makes pods a role, fenced where it is in development mode."""
    plan = client_plan(owner, spec, endpoint_addresses=endpoint_addresses)
    job = client_job(owner, spec, default_image=CLIENT_IMAGE, pull_policy="IfNotPresent")
    makers = (service, *((network_policy,) if in_development_mode(spec) else ()), workload)
    started = roles(owner, spec, client_image=spec.client.image or CLIENT_IMAGE, pull_policy="IfNotPresent")
    servers = [make(owner, role) for role in started for make in makers]
    meeting = [client_service(owner)] if division_of(spec).pods > 1 else []
    return [plan_config_map(owner, plan), *meeting, job, *servers]


def of_kind(manifests: list[Manifest], kind: str) -> Manifest:
    """The one object of that kind."""
    (found,) = [m for m in manifests if m["kind"] == kind]
    return found
