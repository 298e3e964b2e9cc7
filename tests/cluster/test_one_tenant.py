"""What one tenant does stops no other: many large runs, a run that claims to be another's, a quota
that takes no records."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from kit.kubectl import Object
from kit.played import PlayedCluster, PlayedRun, played_cluster
from kit.polling import turns
from kit.runs import condition, is_finished
from runs_kit import manifests
from runs_kit.cluster import PATHS

LARGE_RUNS = 330
AT_ONCE = 16
AFFINITY_VALUES = 18_000
"""In 75 KiB of JSON: parsed, they take 1.4 MiB."""
MOST_RSS_MIB = 300.0
"""The chart's limit is 512 MiB; 330 such runs took 448 MiB beside the operator's own 80."""
APPEARS_SECONDS = 60.0
SWEEPS = "/apis/benchrun.dev/v1alpha1/namespaces/{}/benchmarksweeps"


@pytest.fixture
async def neighbours(
    definition: str, tmp_path: Path
) -> AsyncIterator[PlayedCluster]:
    """An operator that works in two namespaces."""
    async with played_cluster(tmp_path, neighbour=True) as cluster:
        yield cluster


async def measured(played: PlayedCluster, run: PlayedRun) -> None:
    """Its client and its server do what they should."""
    await played.both_start(run)
    now = time.monotonic()
    await run.client.measure(run.server, ends=[now + 0.5, now + 1.0])
    run.client.finish()


async def completes(played: PlayedCluster, run: PlayedRun) -> Object:
    await measured(played, run)
    assert await run.client.told(seconds=APPEARS_SECONDS)
    await played.client_exits(run)
    status = await played.finished(run, seconds=APPEARS_SECONDS)
    assert status["phase"] == "Completed", status
    return status


def large(name: str, namespace: str) -> Object:
    """A suspended run of 75 KiB."""
    body = manifests.run(name, namespace)
    values: list[list[str]] = [[] for _ in range(AFFINITY_VALUES)]
    body["spec"]["server"]["pod"] = {"affinity": {"nodeAffinity": {"x": values}}}
    body["spec"]["suspend"] = True
    return body


@pytest.mark.timeout(400)
async def test_hundreds_of_large_suspended_runs_and_a_restart(
    neighbours: PlayedCluster,
) -> None:
    played = neighbours
    other = f"{neighbours.namespace}-next"
    places = asyncio.Semaphore(AT_ONCE)

    async def create(number: int) -> None:
        async with places:
            path = PATHS["BenchmarkRun"].format(other)
            await played.api.ask("POST", path, large(f"large-{number}", other))

    await asyncio.gather(*(create(number) for number in range(LARGE_RUNS)))
    await completes(played, await played.apply("before"))
    await played.operator.kill()
    await played.operator.start()
    await completes(played, await played.apply("after"))
    assert played.operator.usage().peak_rss_mib <= MOST_RSS_MIB


def ended(run: Object) -> Object:
    """The status of a run that was measured; the test has measured nothing."""
    told = {
        "type": "Complete",
        "status": "True",
        "reason": "Measured",
        "message": "by the test",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"conditions": [told], "phase": "Completed"}
    return {"status": {**status, "completionTime": "2026-01-01T00:00:00Z"}}


@pytest.mark.timeout(200)
async def test_a_run_of_another_namespace_holds_up_no_sweep(
    neighbours: PlayedCluster,
) -> None:
    """It names the sweep as its owner, is called as one of its runs, and stays where it is by a
    finalizer."""
    played = neighbours
    other = f"{neighbours.namespace}-next"
    template = manifests.run("any", played.namespace)["spec"]
    sweep = {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkSweep",
        "metadata": {"name": "s", "namespace": played.namespace},
        "spec": {
            "template": template,
            "matrix": {
                "variants": [{"name": "base"}, {"name": "b", "args": ["--seed=1"]}]
            },
        },
    }
    made = await played.api.ask("POST", SWEEPS.format(played.namespace), sweep)
    owner = {"apiVersion": made["apiVersion"], "kind": made["kind"], "name": "s"}
    forged = manifests.run("s-v2-r1", other)
    forged["spec"]["suspend"] = True
    forged["metadata"] |= {
        "finalizers": ["example.com/stays"],
        "ownerReferences": [
            {**owner, "uid": made["metadata"]["uid"], "controller": True}
        ],
    }
    await played.api.ask("POST", PATHS["BenchmarkRun"].format(other), forged)
    runs = played.picture.objects["BenchmarkRun"]
    for name in ("s-v1-r1", "s-v2-r1"):
        await played.until(partial(runs.__contains__, name), what=name)
        await played.patch(
            "BenchmarkRun", name, ended(runs[name]), subresource="status"
        )
    path = f"{SWEEPS.format(played.namespace)}/s"
    async for _ in turns("the sweep has ended", seconds=APPEARS_SECONDS):
        if is_finished(await played.api.ask("GET", path)):
            break
    gone: Object = {"metadata": {"finalizers": []}}
    where = f"{PATHS['BenchmarkRun'].format(other)}/s-v2-r1"
    await played.api.ask("PATCH", where, gone, merge=True)


@pytest.mark.timeout(200)
async def test_records_that_are_refused_are_tried_now_and_then(
    played: PlayedCluster,
) -> None:
    run = await played.apply("full")
    await played.gets(run, "ConfigMap", "plan")
    # and the namespace's own certificate
    maps = len(played.picture.objects["ConfigMap"]) + 1
    quota = {
        "metadata": {"name": "full"},
        "spec": {"hard": {"count/configmaps": str(maps)}},
    }
    path = f"/api/v1/namespaces/{played.namespace}/resourcequotas"
    await played.api.ask("POST", path, quota)
    await measured(played, run)
    await played.released(run, seconds=APPEARS_SECONDS)
    await played.until(
        lambda: (
            condition(played.body(run), "Stored").get("reason") == "QuotaExceeded"
        ),
        what="the quota is told",
    )
    tries = len(_stored(played))
    began = time.monotonic()
    async for _ in turns(
        "both records are tried twice more", seconds=APPEARS_SECONDS
    ):
        if len(_stored(played)) >= tries + 4:
            break
    # Every 15 s; the first of these may have been due at once.
    assert time.monotonic() - began >= 14
    await played.api.ask("DELETE", f"{path}/full")
    assert await run.client.told(seconds=APPEARS_SECONDS)
    await played.client_exits(run)
    assert (await played.finished(run, seconds=APPEARS_SECONDS))[
        "phase"
    ] == "Completed"


def _stored(played: PlayedCluster) -> list[object]:
    """Tries to store a record."""
    return [
        r for r in played.way.requests if r.writes and r.resource == "configmaps"
    ]
