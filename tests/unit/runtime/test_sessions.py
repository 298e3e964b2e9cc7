"""What goes on in the background is what was decided last, for each run by itself."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from benchrun import names
from benchrun.child_kinds import LEADER_WORKER_SET, WORKLOAD
from benchrun.decide import PullTarget, QueuedWorkload, ScrapeTarget
from benchrun.effects import ClusterError, FetchError, Forbidden, Unavailable
from benchrun.observe import Key, Run, run_key
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.memory import RunMemory
from benchrun.runtime.queued_workloads import QueuedWorkloads
from benchrun.runtime.sessions import (
    FIRST_RESTART_SECONDS,
    GROUP_SECONDS,
    LONGEST_RESTART_SECONDS,
    Sessions,
)
from benchrun.runtime.telemetry import Telemetry
from benchrun_client.engines import ENGINES
from unit.runtime.bodies import KEY, NAMESPACE, UID, Json, child_body, pod_body
from unit.runtime.fakes import PAGE, Web, loop_now
from unit.runtime.fast_time import passing, run_fast
from unit.runtime.memory_cluster import MemoryCluster
from unit.runtime.test_client_polling import TARGET as PULL, answer, sealed

VLLM = ENGINES["VLLM"]

OTHER = run_key("lab", "other")
RUN = Run(namespace=NAMESPACE, name="chat", uid=UID, generation=1)
GROUP = names.group_name("chat", UID)
SERVER = "br-chat-4e20caa2-server-x"


def page(pod: str, seconds: int = 1) -> ScrapeTarget:
    return ScrapeTarget(
        role="server",
        pod=pod,
        url=f"http://{pod}:8000/metrics",
        interval_seconds=seconds,
        engine=VLLM,
    )


class Background:
    """Sessions against a small web."""

    def __init__(self) -> None:
        self.web = Web(
            metrics=PAGE,
            version='{"version": "1"}',
            records=lambda: answer(sealed(0)),
        )
        self.cluster = MemoryCluster()
        self.indexes = Indexes()
        self.telemetry = Telemetry()
        self.enqueued: list[Key] = []
        self.memory = RunMemory(uid=UID)
        self.workloads = QueuedWorkloads(
            cluster=self.cluster,
            indexes=self.indexes,
            enqueue=self.enqueued.append,
        )
        self.sessions = Sessions(
            workloads=self.workloads,
            cluster=self.cluster,
            fetcher=self.web,
            now=loop_now,
            telemetry=self.telemetry,
            indexes=self.indexes,
            enqueue=self.enqueued.append,
        )

    def follow(
        self,
        *scrape: ScrapeTarget,
        pull: PullTarget | None = None,
        key: Key = KEY,
        run: Run = RUN,
        memory: RunMemory | None = None,
        queued: QueuedWorkload | None = None,
    ) -> None:
        self.sessions.follow(
            key,
            run,
            memory or self.memory,
            scrape=scrape,
            pull=pull,
            queued=queued,
        )

    def restarted(self, task: str) -> float:
        """How often it was started again."""
        return (
            self.telemetry.registry.get_sample_value(
                "benchrun_tasks_restarted_total", {"task": task}
            )
            or 0.0
        )

    async def requests_in_the_next(self, seconds: float) -> dict[str, int]:
        """How often each host is asked for its page or records from now on."""
        before = len(self.web.requests)
        await passing(seconds)
        found: dict[str, int] = {}
        for url, _ in self.web.requests[before:]:
            if not url.endswith("/version"):
                host = url.split("/")[2].partition(":")[0]
                found[host] = found.get(host, 0) + 1
        return found


def scenario(
    test: Callable[[Background], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    """The test in jumping time, closed at the end."""

    def run() -> None:
        async def go() -> None:
            background = Background()
            await test(background)
            await background.sessions.close()
            assert len(asyncio.all_tasks()) == 1

        run_fast(go())

    return run


@scenario
async def test_pages_are_read_from_the_decision_on(background: Background) -> None:
    background.follow(page("a"), page("b", seconds=2))
    assert await background.requests_in_the_next(10) == {"a": 10, "b": 5}
    assert background.enqueued == [KEY, KEY]


@scenario
async def test_same_decision_twice_changes_nothing(background: Background) -> None:
    background.follow(page("a"))
    await passing(5)
    for _ in range(50):
        background.follow(page("a"))
    assert await background.requests_in_the_next(10) == {"a": 10}


@scenario
async def test_pages_come_and_go_one_by_one(background: Background) -> None:
    background.follow(page("a"), page("b"))
    await passing(5)
    background.follow(page("b"), page("c"))
    assert await background.requests_in_the_next(10) == {"b": 10, "c": 10}


@scenario
async def test_nothing_goes_on_once_nothing_is_wanted(
    background: Background,
) -> None:
    background.follow(page("a"), pull=PULL)
    await passing(5)
    assert len(background.sessions) == 1
    background.follow()
    assert await background.requests_in_the_next(60) == {}
    assert len(background.sessions) == 0


@scenario
async def test_run_without_anything_to_do_costs_nothing(
    background: Background,
) -> None:
    background.follow()
    assert len(background.sessions) == 0


@scenario
async def test_client_is_followed_on_when_only_the_next_record_changes(
    background: Background,
) -> None:
    background.follow(pull=PULL)
    await passing(3)
    background.follow(pull=replace(PULL, from_sequence=2))
    await passing(3)
    assert [
        url.partition("?")[2].partition("&")[0]
        for url, _ in background.web.requests
    ] == ["from=0"] + ["from=1"] * 3 + ["from=2"] * (
        len(background.web.requests) - 4
    )


@scenario
async def test_a_question_under_way_is_not_left_for_the_same_client(
    background: Background,
) -> None:
    background.web.takes_seconds = 30.0
    for sequence in range(5):
        background.follow(pull=replace(PULL, from_sequence=sequence))
        await passing(1)
    assert len(background.web.requests) == 1


@pytest.mark.parametrize(
    "another",
    [
        replace(PULL, pod="client-2"),
        replace(PULL, url="http://10.0.0.8:8090"),
        replace(PULL, token="f" * 64),
    ],
)
def test_client_that_is_another_one_is_followed_anew(another: PullTarget) -> None:
    @scenario
    async def anew(background: Background) -> None:
        # the question to the one before is left
        background.web.takes_seconds = 30.0
        background.follow(pull=PULL)
        await passing(3)
        background.follow(pull=another)
        await passing(0.5)
        assert [url.split("/")[2] for url, _ in background.web.requests] == [
            PULL.url[7:],
            another.url[7:],
        ]
        assert background.web.at_once == 1

    anew()


@scenario
async def test_runs_do_not_share_anything(background: Background) -> None:
    background.follow(page("a"))
    background.follow(page("a"), key=OTHER, memory=RunMemory(uid="other"))
    await passing(5)
    background.sessions.stop(KEY)
    assert await background.requests_in_the_next(10) == {"a": 10}
    assert len(background.sessions) == 1


@scenario
async def test_run_recreated_under_the_same_name_gets_its_own_tasks(
    background: Background,
) -> None:
    background.follow(page("a"))
    await passing(2.5)
    anew = RunMemory(uid="again")
    background.follow(page("a"), memory=anew)
    await passing(2.5)
    assert len(anew.collected.samples.unstored) >= 2
    assert len(background.memory.collected.samples.unstored) <= 3


@scenario
async def test_acknowledgement_goes_to_the_client_that_is_followed(
    background: Background,
) -> None:
    assert await background.sessions.acknowledge(KEY, 1) is False
    background.follow(pull=PULL)
    assert await background.sessions.acknowledge(KEY, 1) is True
    assert background.web.posted[0][0] == "http://10.0.0.9:8090/ack"


@scenario
async def test_stopping_what_was_never_started_is_harmless(
    background: Background,
) -> None:
    background.sessions.stop(OTHER)


# ---- tasks that die
# --------------------------------------------------------------------------------------------------


@scenario
async def test_a_scraper_that_dies_is_restarted_and_counted(
    background: Background,
) -> None:
    background.web.pages["/metrics"] = OverflowError(
        "intermediate overflow in fsum"
    )
    background.follow(page("a"))
    await passing(2.5)
    died = background.restarted("scrape")
    assert died >= 1
    background.web.pages["/metrics"] = PAGE
    await passing(20)
    assert (
        await background.requests_in_the_next(10),
        background.restarted("scrape"),
    ) == (
        {"a": 10},
        died,
    )
    assert len(background.memory.collected.samples.unstored) > 10


@scenario
async def test_a_follower_that_dies_is_restarted_and_counted(
    background: Background,
) -> None:
    background.web.pages["/records"] = RecursionError("deep")
    background.follow(pull=PULL)
    await passing(0.5)
    background.web.pages["/records"] = answer(sealed(0))
    await passing(FIRST_RESTART_SECONDS)
    assert (
        background.memory.collected.sequences,
        background.restarted("follow"),
    ) == ({0}, 1)
    assert await background.sessions.acknowledge(KEY, 1) is True


@scenario
async def test_a_task_that_dies_whenever_it_is_started_is_started_less_and_less_often(
    background: Background,
) -> None:
    background.web.pages["/records"] = RecursionError("deep")
    background.follow(pull=PULL)
    await passing(3600)
    pauses = [b - a for (_, a), (_, b) in pairwise(background.web.requests)]
    assert (pauses[0], max(pauses)) == (
        FIRST_RESTART_SECONDS,
        LONGEST_RESTART_SECONDS,
    )
    assert pauses == sorted(pauses)
    assert background.memory.collected.client.silent


@scenario
async def test_a_task_that_dies_spoils_no_other(background: Background) -> None:
    background.web.pages["/records"] = RecursionError("deep")
    background.follow(page("a"), pull=PULL)
    assert (await background.requests_in_the_next(10))["a"] == 10


# ---- LeaderWorkerSets
# ------------------------------------------------------------------------------------------------

OVER_NODES = replace(RUN, spec={"server": {"image": "v", "nodesPerReplica": 2}})
LOOKED_UP = ("get", LEADER_WORKER_SET, GROUP)


def known(background: Background) -> list[bool]:
    """Of the groups that are known, whether each is on its way out."""
    return [
        child.deleting
        for child in background.indexes.children(KEY).objects
        if child.kind == LEADER_WORKER_SET
    ]


@scenario
async def test_groups_that_nobody_watches_are_seen_to_come_change_and_go(
    background: Background,
) -> None:
    background.follow(page("a"), run=OVER_NODES)
    await passing(1)
    background.enqueued.clear()
    there = background.cluster.add(LEADER_WORKER_SET, child_body(GROUP))
    seen = []
    for change in (
        lambda: None,
        lambda: background.cluster.change(
            LEADER_WORKER_SET,
            there,
            {"metadata": {"deletionTimestamp": "2026-11-21T12:00:00Z"}},
        ),
        lambda: background.cluster.objects.pop(
            (LEADER_WORKER_SET, NAMESPACE, GROUP)
        ),
    ):
        change()
        await passing(2 * GROUP_SECONDS)
        seen.append((known(background), len(background.enqueued)))
    assert seen == [([False], 1), ([True], 2), ([], 3)]
    assert background.cluster.log.count(LOOKED_UP) == 7


@pytest.mark.parametrize(
    "error", [Forbidden("no rights", code=403), Unavailable("down")]
)
def test_what_is_known_stays_known_while_it_may_not_be_read(
    error: ClusterError,
) -> None:
    @scenario
    async def stays(background: Background) -> None:
        background.cluster.add(LEADER_WORKER_SET, child_body(GROUP))
        background.follow(page("a"), run=OVER_NODES)
        await passing(1)
        background.cluster.broken["get"] = error
        await passing(10 * GROUP_SECONDS)
        assert (known(background), background.restarted("read group")) == (
            [False],
            0,
        )

    stays()


@scenario
async def test_servers_of_one_node_are_no_groups(background: Background) -> None:
    background.follow(page("a"))
    await passing(60)
    assert background.cluster.log == []


# ---- Workloads of Kueue
# ------------------------------------------------------------------------------------------------

QUEUED = QueuedWorkload(names.queued_name("chat", UID, 1), 1, "gpus")


@scenario
async def test_a_run_is_told_of_its_workload_also_where_nothing_else_is_followed(
    background: Background,
) -> None:
    watching = asyncio.create_task(background.workloads.watch(None))
    await passing(1)
    background.follow(queued=QUEUED)
    collected = background.memory.collected
    assert (len(background.sessions), collected.gone_workloads) == (1, {1})
    background.follow()
    background.cluster.add(WORKLOAD, child_body(QUEUED.name))
    await passing(60)
    assert (len(background.sessions), collected.gone_workloads) == (0, {1})
    watching.cancel()
    await asyncio.wait([watching])


# ---- pods that answer no more, while their watch may be silent
# ------------------------------------------------------------------------------------------------

KILLED = {
    "status": {
        "containerStatuses": [
            {"name": "server", "state": {"terminated": {"exitCode": 137}}}
        ]
    }
}


def looks(background: Background) -> int:
    """How often the run's pods were listed."""
    return sum(entry[:2] == ("list", "Pod") for entry in background.cluster.log)


def watched_once(background: Background) -> Json:
    """A pod of the run, as the watch showed it at first."""
    pod = background.cluster.add("Pod", pod_body(SERVER))
    background.indexes.heard("Pod", pod, deleted=False)
    return pod


@scenario
async def test_a_server_that_answers_no_more_is_looked_at_whatever_its_watch_says(
    background: Background,
) -> None:
    pod = watched_once(background)
    background.follow(page("a"))
    await passing(5)
    assert looks(background) == 0
    background.enqueued.clear()
    background.web.pages["/metrics"] = FetchError("connection refused")
    background.cluster.change("Pod", pod, KILLED)
    await passing(2)
    [known] = background.indexes.children(KEY).pods
    assert (known.terminated is not None, KEY in background.enqueued) == (
        True,
        True,
    )
    await passing(600)
    assert 8 <= looks(background) <= 16  # 2, 4, 8, ... then 60 s apart


@scenario
async def test_a_pod_that_is_gone_is_forgotten_when_it_answers_no_more(
    background: Background,
) -> None:
    watched_once(background)
    background.follow(page("a"))
    await passing(5)
    background.web.pages["/metrics"] = FetchError("connection refused")
    background.cluster.objects.pop(("Pod", NAMESPACE, SERVER))
    await passing(2)
    assert background.indexes.children(KEY).pods == ()


@scenario
async def test_a_client_that_answers_no_more_is_looked_at(
    background: Background,
) -> None:
    pod = watched_once(background)
    background.follow(pull=PULL)
    await passing(5)
    background.web.pages["/records"] = FetchError("connection refused")
    background.cluster.change("Pod", pod, KILLED)
    await passing(2)
    [known] = background.indexes.children(KEY).pods
    assert known.terminated is not None


@scenario
async def test_a_server_that_never_answered_is_not_looked_at(
    background: Background,
) -> None:
    """It loads, for minutes."""
    background.web.pages["/metrics"] = FetchError("connection refused")
    watched_once(background)
    background.follow(page("a"))
    await passing(600)
    assert looks(background) == 0


@scenario
async def test_pods_that_may_not_be_looked_at_stay_known(
    background: Background,
) -> None:
    watched_once(background)
    background.follow(page("a"))
    await passing(5)
    background.web.pages["/metrics"] = FetchError("connection refused")
    background.cluster.broken["list"] = Unavailable("down")
    await passing(60)
    assert len(background.indexes.children(KEY).pods) == 1
    assert background.restarted("scrape") == 0


def stored(sequence: int, owner_uid: str = UID) -> Json:
    """The ConfigMap of a record."""
    name = names.stage_name("chat", UID, sequence)
    labels = {names.LABEL_SEQUENCE: str(sequence)}
    return child_body(
        name, role=names.ROLE_STAGE, owner_uid=owner_uid, labels=labels
    )


@scenario
async def test_a_record_that_another_operator_stored_is_not_lost(
    background: Background,
) -> None:
    """That one acknowledged it, and no watch reports records."""
    background.cluster.add("ConfigMap", stored(0))
    background.web.pages["/records"] = lambda: answer(made=1)
    background.follow(pull=PULL)
    await passing(5)
    assert background.memory.collected.client.lost_record is None
    assert [c.sequence for c in background.indexes.children(KEY).objects] == [0]
    assert KEY in background.enqueued


@scenario
async def test_a_record_that_nobody_stored_is_lost(background: Background) -> None:
    background.cluster.add("ConfigMap", stored(0, owner_uid="another"))
    background.web.pages["/records"] = lambda: answer(made=1)
    background.follow(pull=PULL)
    await passing(5)
    assert background.memory.collected.client.lost_record == 0


@scenario
async def test_a_record_that_can_not_be_looked_for_is_not_lost_yet(
    background: Background,
) -> None:
    background.cluster.broken["get"] = Unavailable("no answer")
    background.web.pages["/records"] = lambda: answer(made=1)
    background.follow(pull=PULL)
    await passing(5)
    assert background.memory.collected.client.lost_record is None
