"""A finding of every code, by the example in its file of scenes."""

from benchrun.api import Finding
from benchrun.judge.results import results
from benchrun.judge.rules.all_rules import with_more
from benchrun.judge.rules.rule import Code
from unit.judge.scenes import compared_in, file_of
from unit.judge.specs import SERVER, spec, workload

SPEC = spec(
    endpoint={"url": "http://server:8000", "allowCacheReset": True},
    measurement={"percentiles": ["50", "99"], "cachePolicy": "Reset"},
    validity={"severities": []},
)


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
    base = (
        spec(endpoint=None, server=SERVER, validity={"severities": []})
        if scene.runs_servers
        else SPEC
    )
    run_spec = base.model_copy(
        update={"workloads": spec(workloads=[workload(load=load)]).workloads}
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
    return {finding.code: finding for finding in found}
