"""Clients and servers that mean harm, one run each: their own run ends, the operator lives, and
others notice nothing."""

import asyncio
import hashlib
import json
import re
import time
import urllib.error
import urllib.request

import pytest
from kit.hostile_client import BOMBS, HostileClient
from kit.kubectl import Object
from kit.played import PlayedCluster, PlayedRun
from kit.runs import condition
from runs_kit.metrics_page import Server

RECORD_PORT = 8090
NOTICED_SECONDS = 5.0
ENDED_SECONDS = 45.0
MISMATCH_SECONDS = 60.0
MOST_MIB = 256
"""Half of what the chart gives the operator."""


# ---- records that unfold
# ---------------------------------------------------------------------------------------------


async def _armed(played: PlayedCluster, run: PlayedRun, bomb: str) -> HostileClient:
    """The run's client, hostile; it waits for a word while its server has started."""
    client = HostileClient(
        run.address, RECORD_PORT, plan=await played.plan(run), body=BOMBS[bomb]()
    )
    client.start()
    await played.client_pod_runs(run)
    await played.server_starts(run)
    return client


@pytest.mark.timeout(150)
async def test_records_that_unfold_end_their_own_run_and_hurt_nobody(
    played: PlayedCluster,
) -> None:
    honest, *hostile = [await played.apply(name) for name in ("honest", *BOMBS)]
    await played.both_start(honest)
    clients = [await _armed(played, run, run.name) for run in hostile]
    try:
        began = time.monotonic()
        measuring = asyncio.create_task(
            honest.client.measure(honest.server, ends=[began + 2, began + 4])
        )
        for client in clients:
            client.armed.set()
        later = await played.apply("later")
        await played.gets(later, "Job", "client", seconds=NOTICED_SECONDS)
        for run in hostile:
            status = await played.finished(run, seconds=ENDED_SECONDS)
            assert status.get("verdict") not in ("Valid", "Suspect"), (
                run.name,
                status,
            )
            await played.released(run, seconds=NOTICED_SECONDS)
        await measuring
        honest.client.finish()
        assert (await played.finished(honest, seconds=ENDED_SECONDS))[
            "phase"
        ] == "Completed"
        assert played.operator.usage().peak_rss_mib < MOST_MIB
    finally:
        for client in clients:
            client.stop()


# ---- a forged acknowledgement
# ----------------------------------------------------------------------------------------


def _asked(
    url: str, body: Object | None = None, *, token: str | None = None
) -> int:
    """The status of an answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, data, headers), timeout=5
        ) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def _derived(text: str, uid: str) -> str:
    return hashlib.sha256(f"{text}\x1f{uid}".encode()).hexdigest()


def _forged(run: PlayedRun, plan: Object, *, through: int) -> list[int]:
    """What somebody who knows all that can be read (the run and its plan) is answered."""
    url = f"http://{run.address}:{RECORD_PORT}"
    words = [
        _derived("benchrun.nonce/1", run.uid)[:32],
        _derived("benchrun.token/1", run.uid),
        *(str(plan[name]) for name in ("nonce", "token_digest") if name in plan),
    ]
    acks = [
        _asked(f"{url}/ack", {"nonce": word, "through": through}) for word in words
    ]
    acks += [
        _asked(f"{url}/ack", {"through": through}, token=word)
        for word in (None, *words)
    ]
    return [
        *(_asked(f"{url}/records?wait=0", token=word) for word in (None, *words)),
        *acks,
    ]


@pytest.mark.timeout(120)
async def test_a_forged_acknowledgement_loses_no_record(
    played: PlayedCluster,
) -> None:
    runs = attacked, control = [
        await played.apply(name) for name in ("attacked", "control")
    ]
    for run in runs:
        await played.both_start(run)
    ends_at = time.monotonic() + 4
    measuring = [
        asyncio.create_task(
            run.client.measure(run.server, ends=[ends_at, ends_at + 0.5])
        )
        for run in runs
    ]
    for run in runs:
        await played.reaches(run, "Running")
    await played.operator.kill()
    await asyncio.gather(*measuring)
    for run in runs:
        run.client.finish()

    plan = json.loads(await played.plan(attacked))
    answers = await asyncio.to_thread(
        _forged, attacked, plan, through=len(plan["stages"])
    )
    await played.operator.start()

    for run in (control, attacked):
        assert await run.client.told(seconds=ENDED_SECONDS), (
            "its records were never acknowledged"
        )
        await played.client_exits(run)
        assert (await played.finished(run, seconds=ENDED_SECONDS))[
            "phase"
        ] == "Completed"
        assert len(played.children(run, "ConfigMap", "stage")) == len(
            plan["stages"]
        )
        await played.released(run, seconds=NOTICED_SECONDS)
    assert min(answers) >= 400, answers


# ---- another contract
# ------------------------------------------------------------------------------------------------


async def _ends_as_mismatched(played: PlayedCluster, run: PlayedRun) -> None:
    status = await played.finished(run, seconds=MISMATCH_SECONDS)
    assert (
        condition({"status": status}, "Failed")["reason"] == "ContractMismatch"
    ), status
    await played.released(run, seconds=NOTICED_SECONDS)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("version", [1, 4])
async def test_a_client_of_another_contract_ends_its_run_also_after_a_restart(
    played: PlayedCluster, version: int
) -> None:
    at_once, later = [
        await played.apply(f"{name}-{version}") for name in ("at-once", "later")
    ]
    stranger = HostileClient(
        at_once.address,
        RECORD_PORT,
        plan=await played.plan(at_once),
        only_version=version,
    )
    stranger.start()
    try:
        await played.client_pod_runs(at_once)
        await _ends_as_mismatched(played, at_once)
    finally:
        stranger.stop()
    await played.both_start(later)
    await played.operator.kill()
    await later.client.stop()
    stranger = HostileClient(
        later.address,
        RECORD_PORT,
        plan=await played.plan(later),
        only_version=version,
    )
    stranger.start()
    try:
        await played.operator.start()
        await _ends_as_mismatched(played, later)
    finally:
        stranger.stop()


# ---- numbers beyond all bounds
# ---------------------------------------------------------------------------------------


class Boundless(Server):
    """Says of its gauges what no server could."""

    def __init__(self, value: str, *, engines: int = 1) -> None:
        super().__init__()
        self._value = value
        self._engines = engines

    def page(self) -> bytes:
        """The page of an honest server, but for three gauges."""
        text = super().page().decode()
        gauge = re.compile(
            r"^(vllm:(?:num_requests_\w+|kv_cache_usage_perc)\{)(engine=\"0\")(.*\}) .*$",
            re.MULTILINE,
        )
        lines = [
            rf'\g<1>engine="{n}"\g<3> {self._value}' for n in range(self._engines)
        ]
        return gauge.sub("\n".join(lines), text).encode()


LEAST_READ = 3
"""Pages, of two stages of three seconds each."""
BOUNDLESS = {
    "huge": ("1e308", 1),
    "huge-twice": ("1e308", 2),
    "infinite": ("+Inf", 1),
    "huge-below": ("-1e308", 2),
}


@pytest.mark.timeout(120)
async def test_gauges_beyond_all_bounds_end_in_a_verdict(
    played: PlayedCluster,
) -> None:
    names = ("control", *BOUNDLESS)
    runs = [await played.apply(name) for name in names]
    for run in runs:
        await played.both_start(run)
        if run.name in BOUNDLESS:
            value, engines = BOUNDLESS[run.name]
            run.pages.servers[run.address] = Boundless(value, engines=engines)
    began = time.monotonic()
    await asyncio.gather(
        *(
            run.client.measure(run.server, ends=[began + 3, began + 6])
            for run in runs
        )
    )
    read = {run.name: run.pages.readings[run.address] for run in runs}
    for run in runs:
        run.client.finish()
    for run in runs:
        assert await run.client.told(seconds=ENDED_SECONDS), (
            f"{run.name}: its records were never acknowledged"
        )
        await played.client_exits(run)
    for run in runs:
        status = await played.finished(run, seconds=ENDED_SECONDS)
        assert condition({"status": status}, "Complete")["status"] == "True", (
            run.name,
            status,
        )
        await played.released(run, seconds=NOTICED_SECONDS)
    # Whoever could not take a figure went on to read, all the same.
    assert min(read.values()) >= read["control"] / 2 >= LEAST_READ / 2, read
    assert "OverflowError" not in played.operator.log.read_text()
