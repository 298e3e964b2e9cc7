"""Sweeps in the form that a page takes."""

from dataclasses import replace
from functools import cache

from benchrun.report.html import ReportedSweep
from benchrun.report.html.page import Draw, sweep_page
from unit.plan.specs import concurrencies, spec_body, workload
from unit.report.finished_sweeps import Measured, finished_sweep
from unit.report.html.reported_runs import HOSTILE, plain

LOAD_POINTS = ("chat/concurrency=16", "chat/concurrency=64")
_TEXTS = ("name", "reason", "run", "message")
OBJECTIVES = [{"metric": "TTFT", "percentile": "99", "maxMilliseconds": 500}]


def _measured(
    speed: float,
    *,
    running: float,
    kv_cache: float,
    hits: float = 0.0,
    verdict: str = "Valid",
    objective: str = "Met",
) -> Measured:
    """Build the figures of a variant that is `speed` times as fast as the baseline.

    At 64 users it gives twice the throughput for more latency.
    """
    few = {
        "RequestThroughput": 9.4 * speed,
        "OutputThroughput": 1200 * speed,
        "TotalTokenThroughput": 10_800 * speed,
    }
    slow = {
        "MeanTTFT": 43 / speed,
        "MeanTPOT": 11 / speed,
        "MeanITL": 11.2 / speed,
        "MeanE2EL": 1440 / speed,
    }
    many = {name: 2 * value for name, value in few.items()} | {
        name: 1.6 * value for name, value in slow.items()
    }
    server = {
        "running_mean": running,
        "waiting_mean": 64 - running,
        "kv_cache_max_percent": kv_cache,
        "prefix_hit_percent": hits,
    }
    return Measured(
        {**few, **slow}, server, verdict, objective, {LOAD_POINTS[1]: many}
    )


@cache
def several() -> ReportedSweep:
    """Build a sweep of six variants at two load points on three servers each.

    They are faster, slower, alike, doubtful and undecided, and one that failed.
    """
    measured: dict[str, Measured | None] = {
        "baseline": _measured(1.0, running=12, kv_cache=21),
        "prefix-caching": _measured(1.22, running=15, kv_cache=35, hits=46.9),
        "chunked-8192": _measured(1.004, running=13, kv_cache=22),
        "eager": _measured(0.7, running=11, kv_cache=19, objective="Missed"),
        "everything": _measured(
            1.31,
            running=16,
            kv_cache=41,
            hits=47.2,
            verdict="Suspect",
            objective="Inconclusive",
        ),
        "long-context-with-a-long-name": None,
    }
    load = workload(load=concurrencies(16, 64))
    template = spec_body(workloads=[load], objectives=OBJECTIVES)
    return finished_sweep(
        measured, load_points=LOAD_POINTS, replications=3, template=template
    ).reported


def hostile() -> ReportedSweep:
    """Build a sweep in which every field that users can write holds the same hostile text."""
    sweep = several()
    status = sweep.status.model_copy(
        update={
            "message": HOSTILE,
            "baseline": HOSTILE,
            "variants": [
                v.model_copy(update=dict.fromkeys(_TEXTS, HOSTILE))
                for v in sweep.status.variants
            ],
            "results": [
                r.model_copy(update={"variant": HOSTILE, "reason": HOSTILE})
                for r in sweep.status.results
            ],
            "best": [
                b.model_copy(
                    update={
                        "variant": HOSTILE,
                        "tied_with": [HOSTILE],
                        "undecided": [
                            each.model_copy(
                                update={"variant": HOSTILE, "why": HOSTILE}
                            )
                            for each in b.undecided
                        ],
                    }
                )
                for b in sweep.status.best
            ],
            "front": [
                p.model_copy(update={"variant": HOSTILE})
                for p in sweep.status.front
            ],
        }
    )
    written = {
        **sweep.declared.spec,
        "template": {**spec_body(), "model": {"name": HOSTILE}},
    }
    declared = replace(
        sweep.declared, name=HOSTILE, namespace=HOSTILE, spec=written
    )
    return replace(sweep, declared=declared, status=status)


def page_of(sweep: ReportedSweep, draw: Draw = plain) -> str:
    """Return the page, without its drawings unless `draw` makes them."""
    return sweep_page(sweep, draw, made_by="0.1.0")
