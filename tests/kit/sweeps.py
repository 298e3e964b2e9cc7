"""A small BenchmarkSweep for tests whose table is known beforehand, and what its status says."""

from typing import Any

from kit.kubectl import RUN, Namespace, Object
from kit.runs import OF_A_BUSY_MACHINE, simulated_run

USERS = 4
VARIANTS = ("seqs=1", "seqs=2", "seqs=4")


def sweep_of_seqs(
    name: str, *, requests: int = 40, repeats: int = 3, **spec: Any
) -> Object:
    """Return a sweep of 1, 2 or 4 sequences at a time, under 4 users who ask without pauses.

    With n at a time a token takes 8 + 4 n ms, so an answer of 16 tokens takes 40 + 15 (8 + 4 n) ms:
    220, 280, 400. A server gives n answers in that time: 4.5, 7.1, 10 a second. Every figure of
    every variant differs by far more than noise.
    """
    workload = {
        "name": "users",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 16}},
        "load": {"concurrencies": [USERS]},
        "requests": requests,
    }
    timing = [
        "--sim-ttft-ms=40",
        "--sim-tpot-ms=8",
        "--sim-tpot-us-per-running=4000",
        "--sim-load-seconds=3",
    ]
    severities = [
        *OF_A_BUSY_MACHINE,
        *({"code": code, "severity": "Note"} for code in _OF_NOISE),
    ]
    template = simulated_run(
        "any",
        server={"args": ["--max-model-len=4096", *timing]},
        workloads=[workload],
        repeats=repeats,
        validity={"severities": severities},
    )["spec"]
    values = [{"name": n, "args": [f"--max-num-seqs={n}"]} for n in ("1", "2", "4")]
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkSweep",
        "metadata": {"name": name},
        "spec": {
            "template": template,
            "matrix": {"grid": [{"name": "seqs", "values": values}]},
            **spec,
        },
    }


_OF_NOISE = (
    "Drift",
    "RepeatsDisagree",
    "WindowTooShort",
    "LittlesLawBroken",
    "ScrapeCoverageLow",
    "ColdStart",
)
"""Codes that two shared cores cause now and then: a verdict must depend on what was killed, not on
these."""


def runs_of(namespace: Namespace, sweep: str) -> dict[str, Object]:
    """Return the runs of a sweep, by name."""
    return {
        run["metadata"]["name"]: run
        for run in namespace.list(RUN, selector=f"benchrun.dev/sweep={sweep}")
    }


def table_of(sweep: Object) -> Any:
    """Return what a reader of the table sees.

    Figures, which noise moves, and failures on the way are left out.
    """
    status = sweep["status"]
    return {
        "rows": [
            {
                **{
                    key: row.get(key)
                    for key in (
                        "variant",
                        "loadPoint",
                        "runs",
                        "leftOut",
                        "verdict",
                        "reason",
                        "paired",
                    )
                },
                "words": {
                    change["metric"]: change["word"]
                    for change in row.get("changes", [])
                },
            }
            for row in status["results"]
        ],
        "variants": [
            {
                key: variant.get(key)
                for key in (
                    "name",
                    "completed",
                    "failed",
                    "verdict",
                    "outcome",
                    "reason",
                )
            }
            for variant in status["variants"]
        ],
        "best": [
            {
                key: value
                for key, value in best.items()
                if key not in ("throughput", "throughputPerGPU")
            }
            for best in status["best"]
        ],
        "front": [
            (point["variant"], point["loadPoint"]) for point in status["front"]
        ],
        **{
            key: status.get(key)
            for key in ("baseline", "scope", "verdict", "phase", "message")
        },
    }


def figures_of(sweep: Object) -> dict[tuple[str, str], float]:
    """Return the figures of the table that matter most, by variant and name."""
    names = ("output_throughput", "mean_e2el_ms", "mean_tpot_ms")
    return {
        (row["variant"], name): row["metrics"][name]
        for row in sweep["status"]["results"]
        for name in names
        if row["runs"]
    }


def traffic_of(runs: dict[str, Object]) -> dict[str, set[str]]:
    """Return digests of what completed runs sent, by variant."""
    found: dict[str, set[str]] = {}
    for run in runs.values():
        variant = run["metadata"]["annotations"]["benchrun.dev/variant"]
        if run["status"].get("phase") == "Completed":
            found.setdefault(variant, set()).update(
                row["traffic"] for row in run["status"]["results"]
            )
    return found
