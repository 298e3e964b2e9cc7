"""A finding of every code, by the example in its file of scenes."""

from typing import Any

from benchrun.api import Finding, rule_of
from benchrun.api.measurement import Validity
from benchrun.judge.results import results
from benchrun.judge.rules.all_rules import with_more
from benchrun.judge.rules.rule import Code
from benchrun.judge.stage_facts import ExpectedStage
from unit.judge.scenes import compared_in, file_of
from unit.judge.specs import SERVER, spec, workload

SPEC = spec(
    endpoint={"url": "http://server:8000", "allowCacheReset": True},
    measurement={"percentiles": ["50", "99"], "cachePolicy": "Reset"},
    validity={"severities": []},
)


BY_LOT = ["--speculative-config", '{"rejection_sample_method": "synthetic"}']


def _said(expected: ExpectedStage) -> dict[str, Any]:
    """Return the fields of a workload whose requests say what is expected of them."""
    if expected.has_schema:
        form = {"jsonSchema": {"type": "object"}}
        return {"ignoreEOS": False, "request": {"responseFormat": form}}
    if expected.thinking is not None:
        chat = {"thinking": expected.thinking}
        return {"api": "Chat", "request": {"chat": chat}}
    return {}


def example_of(code: Code) -> Finding:
    """Return the finding of a code."""
    return findings_of(code)[code]


def findings_of(code: Code) -> dict[str, Finding]:
    """Return the findings, by code, of the example in which this code must be found.

    The spec's own server is the one that is measured if the example says anything of it.
    """
    scene = file_of(code).example()
    point = scene.context.load_point
    load = {"requestRates": ["4"]} | (
        {"maxConcurrency": point.load.cap} if point.load.capped else {}
    )
    servers = scene.context.stages[0].servers
    expected = scene.context.expected
    server = SERVER | ({"args": BY_LOT} if expected.synthetic_acceptance else {})
    base = (
        spec(endpoint=None, server=server, validity={"severities": []})
        if scene.runs_servers or expected.synthetic_acceptance
        else SPEC
    )
    workloads = spec(workloads=[workload(load=load, **_said(expected))]).workloads
    validity = Validity(user_rules=list(scene.user_rules))
    run_spec = base.model_copy(
        update={"workloads": workloads, "validity": validity}
    )
    judged = results(
        [point],
        scene.context.records,
        scene.samples,
        spec=run_spec,
        servers=servers,
        unstored=scene.unstored,
    )
    found = with_more(judged.findings, compared_in(scene))
    return {rule_of(finding.code): finding for finding in found}
