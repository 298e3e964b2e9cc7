"""A finding of every code, by the records or the scene that shows it."""

from benchrun.api import Finding
from benchrun.judge.results import results
from benchrun.judge.rules.rule import Code
from benchrun_client.contract import (
    PROXY_COUNTERS,
    START_TIME,
    CacheReset,
    GapCounts,
    ServerEdge,
    StageRecord,
    WarmupOutcome,
)
from unit.judge.scenes import SCENES, Scene
from unit.judge.specs import SERVER, spec, workload
from unit.judge.stages import with_compilations
from unit.measure.records import edge, load_point, record, requests, served

FOUND_BY: dict[Code, StageRecord] = {
    Code.ALL_REQUESTS_FAILED: record(
        requests=requests(ok=(0, 0)), errors={"e" * 300: 2}, diagnostic="d" * 1000
    ),
    Code.REQUESTS_FAILED: record(
        requests=requests(ok=(0, 1)), errors={"e" * 300: 1}
    ),
    Code.NO_OUTPUT: record(requests=requests(output_tokens=(0, 0))),
    Code.SERVER_RESTARTED: record(
        servers=(edge("a" * 300, after={START_TIME: 5000.0}),)
    ),
    Code.COUNTERS_RESET: record(
        servers=(
            edge(
                "a" * 300,
                before={"prompt_tokens_total": 9.0},
                after={"prompt_tokens_total": 1.0},
            ),
        )
    ),
    Code.PREFIX_CACHE_CONTAMINATED: record(
        servers=(
            edge(
                rises={
                    "prefix_cache_hits_total": 9.0,
                    "prefix_cache_queries_total": 10.0,
                }
            ),
        )
    ),
    Code.CACHE_RESET_FAILED: record(
        cache_reset=CacheReset(succeeded=False, attempts=9, answer="a" * 300)
    ),
    Code.FOREIGN_TRAFFIC: record(
        servers=(edge(rises={"request_success_total": 3.0}),)
    ),
    Code.OUTPUT_TOO_SHORT: record(requests=requests(asked_tokens=(128, 128))),
    Code.STREAM_TRUNCATED: record(requests=requests(ended=(1, 0))),
    Code.REQUESTS_REJECTED: record(
        requests=requests(ok=(0, 1)), errors={"Too Many Requests": 1}
    ),
    Code.REQUESTS_ABORTED: record(
        servers=(edge(rises={**served(requests()), "finished_abort_total": 2.0}),)
    ),
    Code.PROMPT_TOKENS_DISAGREE: record(expected_input_tokens=198),
    Code.SPECULATION_ON_RANDOM_TEXT: record(
        servers=(
            edge(
                rises={
                    **served(requests()),
                    "spec_decode_num_draft_tokens_total": 50.0,
                    "spec_decode_num_accepted_tokens_total": 9.0,
                }
            ),
        )
    ),
    Code.KV_RECOMPUTED: record(
        servers=(
            edge("p", role="prefill"),
            edge(
                "d",
                role="decode",
                rises={
                    **served(requests()),
                    "external_prefix_cache_hits_total": 0.0,
                    "external_prefix_cache_queries_total": 20.0,
                    "nixl_num_failed_transfers_total": 2.0,
                },
            ),
        )
    ),
    Code.PROXY_SATURATED: record(
        servers=(
            edge(),
            ServerEdge(
                address="x",
                role="proxy",
                before=dict.fromkeys(PROXY_COUNTERS, 0.0),
                after=dict.fromkeys(PROXY_COUNTERS, 0.0)
                | {
                    "benchrun_proxy_added_seconds_sum": 1.0,
                    "benchrun_proxy_added_seconds_count": 2.0,
                },
            ),
        )
    ),
    Code.REPLICAS_UNEQUAL: record(
        servers=(
            edge("a" * 300),
            edge("b" * 300).model_copy(update={"after": None}),
        )
    ),
    Code.LOAD_UNEVEN: record(
        servers=(
            edge("a" * 300, rises={"request_success_total": 99.0}),
            edge("b", rises={}),
        )
    ),
    Code.TOKEN_COUNTS_DISAGREE: record(
        servers=(edge(rises={"generation_tokens_total": 44.0}),)
    ),
    Code.PREEMPTED: record(servers=(edge(rises={"num_preemptions_total": 1.0}),)),
    Code.CHUNKS_ARE_NOT_TOKENS: record(gaps=GapCounts(us=(9_000,), count=(9,))),
    Code.WARMUP_INCOMPLETE: record(
        warmup=WarmupOutcome(requests=16, answered=7, failed=2, took_us=60_000_000)
    ),
    Code.NOT_CHECKED: record(servers=()),
    Code.RECORD_MISSING: record(),
}
"""What a single record shows; the others need a scene."""


SPEC = spec(
    endpoint={"url": "http://server:8000", "allowCacheReset": True},
    measurement={"percentiles": ["50", "99"], "cachePolicy": "Reset"},
    validity={"severities": []},
)


def example_of(code: Code) -> Finding:
    """Return the finding of a code."""
    return findings_of(code, repeats=2 if code is Code.RECORD_MISSING else 1)[code]


def findings_of(code: Code, *, repeats: int = 1) -> dict[str, Finding]:
    """Return the findings, by code, of the records or scene in which this code must be found.

    A single record is judged in a load point of so many repeats.
    """
    scene = (
        SCENES[code]
        if code in SCENES
        else Scene([FOUND_BY[code]], planned=load_point(repeats=repeats))
    )
    load = {"requestRates": ["4"]} | (
        {"maxConcurrency": scene.planned.load.cap}
        if scene.planned.load.capped
        else {}
    )
    base = (
        SPEC
        if not scene.servers
        else spec(endpoint=None, server=SERVER, validity={"severities": []})
    )
    run_spec = base.model_copy(
        update={"workloads": spec(workloads=[workload(load=load)]).workloads}
    )
    judged = results(
        [scene.planned],
        scene.records,
        scene.samples,
        spec=run_spec,
        servers=with_compilations(scene.servers, scene.compilations),
        unstored=scene.unstored,
    )
    return {finding.code: finding for finding in judged.findings}
