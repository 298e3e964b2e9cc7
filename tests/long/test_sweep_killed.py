"""Sweeps whose operator, clients and servers are killed at random moments: each ends with the table
of one left alone.

Five sweeps, four kills each. A moment is a change that a watch tells of: a new phase, a stage that
is done, live figures. How many of them pass before each kill, who is killed and how, is drawn from
a seed, which is printed; SEED=<number> draws it again."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import pytest
from e2e.conftest import in_a_namespace
from kit.installed import SELECTOR
from kit.kubectl import RUN, SWEEP, CommandFailed, Namespace, Object
from kit.polling import polling
from kit.processes import kill_container
from kit.runs import children_selector, is_finished, phase
from kit.sweeps import (
    VARIANTS,
    figures_of,
    runs_of,
    sweep_of_seqs,
    table_of,
    traffic_of,
)
from kit.watching import Watch

SEED = int(os.environ.get("SEED") or Random().randrange(1_000_000))
SWEEPS = 5
MOST_MOMENTS = 5
"""Between two kills. An undisturbed sweep has some 25."""
SWEEP_SECONDS = 600.0
GONE_SECONDS = 90
NOISE = 0.2
"""By how much of itself a figure may differ on a machine whose two cores are shared with who is
killed and comes back."""

pytestmark = pytest.mark.timeout(1500)

Victim = Literal["operator", "client", "server"]
Way = Literal["SIGKILL", "delete"]


@dataclass
class Kill:
    """After how many moments, whom, and how: the process alone, or its pod, as a drained node
    would."""

    moments: int
    victim: Victim
    way: Way
    done_at: str = ""

    def __str__(self) -> str:
        return f"{self.victim} by {self.way} at {self.done_at or 'no moment'}"


def drawn(number: int) -> list[Kill]:
    """The kills of a sweep: each victim once, and one of them once more."""
    random = Random(f"{SEED}/{number}")
    victims: list[Victim] = ["operator", "client", "server"]
    victims.append(random.choice(victims))
    random.shuffle(victims)
    ways: tuple[Way, ...] = ("SIGKILL", "delete")
    return [
        Kill(random.randint(1, MOST_MOMENTS), victim, random.choice(ways))
        for victim in victims
    ]


@dataclass
class Killer:
    """Counts moments, and kills when it is time."""

    operator: Namespace
    namespace: Namespace
    plan: list[Kill]
    passed: int = 0
    _seen: dict[str, Any] = field(default_factory=dict)
    _killed: set[tuple[str, str]] = field(default_factory=set)

    def look(self, run: Object) -> None:
        """A run has changed."""
        due = next((kill for kill in self.plan if not kill.done_at), None)
        if due is None or not self._is_moment(run):
            return
        self.passed += 1
        if self.passed < due.moments or not self._kill(due, run):
            return
        self.passed = 0
        progress = run["status"].get("progress", {})
        due.done_at = f"{run['metadata']['name']} {phase(run)}, {progress.get('stagesDone', 0)} stages done"
        print(due, flush=True)

    def _is_moment(self, run: Object) -> bool:
        uid = run["metadata"]["uid"]
        status = run.get("status", {})
        before = self._seen.get(uid)
        now = (
            phase(run),
            status.get("progress", {}).get("stagesDone"),
            status.get("live", {}).get("at"),
        )
        self._seen[uid] = now
        return now != before and phase(run) != "" and not is_finished(run)

    def _kill(self, kill: Kill, run: Object) -> bool:
        """Whether there was somebody to kill. Of one run none is killed twice: kubelet would wait
        longer and longer."""
        if kill.victim == "operator":
            return killed(self.operator, SELECTOR, kill.way, and_deleted=True)
        mark = (run["metadata"]["uid"], kill.victim)
        selector = f"{children_selector(run)},benchrun.dev/role={kill.victim}"
        if mark in self._killed or not killed(self.namespace, selector, kill.way):
            return False
        self._killed.add(mark)
        return True


def killed(
    namespace: Namespace, selector: str, way: Way, *, and_deleted: bool = False
) -> bool:
    """SIGKILL for the process of the pod of that label, or deletion of the pod, or both; False
    where none runs (any more)."""
    running = [
        pod["metadata"]["name"]
        for pod in namespace.list("pods", selector=selector)
        if is_running(pod)
    ]
    if not running:
        return False
    try:
        if way == "SIGKILL":
            kill_container(namespace, selector=selector)
        if way == "delete" or and_deleted:
            namespace.kubectl(
                "delete",
                "pod",
                running[0],
                "--grace-period=0",
                "--force",
                "--wait=false",
            )
    except CommandFailed as error:
        if "not found" not in str(error):
            raise
        return False
    return True


def is_running(pod: Object) -> bool:
    statuses = pod["status"].get("containerStatuses", [])
    return (
        bool(statuses)
        and "running" in statuses[0]["state"]
        and "deletionTimestamp" not in pod["metadata"]
    )


@dataclass(frozen=True)
class Ended:
    """A sweep that has ended, its runs, and the uids of all runs that were ever there."""

    sweep: Object
    runs: dict[str, Object]
    created: dict[str, set[str]]


def played(
    namespace: Namespace, name: str, look: Callable[[Object], None]
) -> Ended:
    """A sweep from creation to end; `look` is told of every change of a run."""
    with Watch(namespace, RUN, SWEEP) as watch:
        namespace.apply(sweep_of_seqs(name, maxRetries=3))
        for found in watch.news(seconds=SWEEP_SECONDS):
            if found["kind"] == "BenchmarkRun":
                look(found)
            elif is_finished(found):
                break
        created = {
            run: uids
            for (kind, run), uids in watch.uids.items()
            if kind == "BenchmarkRun"
        }
        return Ended(namespace.get(SWEEP, name), runs_of(namespace, name), created)


@pytest.fixture(scope="module")
def calm(operator: Namespace) -> Iterator[Ended]:
    """A sweep that was left alone."""
    with in_a_namespace() as namespace:
        yield played(namespace, "calm", lambda _: None)


def test_the_sweep_that_is_left_alone_finds_what_was_set(calm: Ended) -> None:
    table = table_of(calm.sweep)
    assert (table["phase"], table["verdict"], table["scope"]) == (
        "Completed",
        "Valid",
        "WithinOneServer",
    ), calm.sweep
    assert [row["variant"] for row in table["rows"]] == list(VARIANTS)
    # More at a time: more answers, nobody waits, and each token takes longer.
    better = dict.fromkeys(
        ("OutputThroughput", "RequestThroughput", "MeanTTFT", "MeanE2EL"), "Better"
    )
    assert [row["words"] for row in table["rows"]] == [
        {},
        *2 * [better | {"MeanTPOT": "Worse"}],
    ]
    assert [row["paired"] for row in table["rows"]] == [False, True, True]
    assert (
        sorted(calm.created)
        == sorted(calm.runs)
        == ["calm-v1-r1", "calm-v2-r1", "calm-v3-r1"]
    )


@pytest.mark.parametrize("number", range(1, SWEEPS + 1))
def test_a_sweep_ends_with_the_same_table_whoever_is_killed(
    operator: Namespace, namespace: Namespace, calm: Ended, number: int
) -> None:
    plan = drawn(number)
    print(f"\nSEED={SEED}, sweep {number}")
    storm = played(namespace, "storm", Killer(operator, namespace, plan).look)
    told = "; ".join(map(str, plan))
    print(f"runs: {', '.join(storm.runs)}")

    assert all(kill.done_at for kill in plan), (
        f"the sweep was over too soon: {told}"
    )
    assert table_of(storm.sweep) == table_of(calm.sweep), told
    assert figures_of(storm.sweep) == pytest.approx(
        figures_of(calm.sweep), rel=NOISE
    ), told
    assert traffic_of(storm.runs) == traffic_of(calm.runs), told
    assert storm.created == {
        name: {run["metadata"]["uid"]} for name, run in storm.runs.items()
    }, told
    lost = [name for name in storm.runs if not name.endswith("-r1")]
    assert (
        storm.sweep["status"]["runs"]["lost"]
        == len(lost)
        <= len([k for k in plan if k.victim != "operator"])
    ), told
    nothing_is_left(namespace, storm)


def nothing_is_left(namespace: Namespace, ended: Ended) -> None:
    """Of what runs held; and, once the sweep is deleted, of what they measured."""
    for run in ended.runs.values():
        namespace.wait_gone(
            "deployments",
            selector=children_selector(run),
            timeout_seconds=GONE_SECONDS,
        )
        namespace.wait_gone(
            "pods",
            selector=f"{children_selector(run)},benchrun.dev/role=server",
            timeout_seconds=GONE_SECONDS,
        )
        # A client that has ended costs nothing, and its log may be wanted.
        for _ in polling("no client runs any more", seconds=GONE_SECONDS):
            pods = namespace.list("pods", selector=children_selector(run))
            if all(
                pod["status"]["phase"] in ("Succeeded", "Failed") for pod in pods
            ):
                break
    namespace.delete(SWEEP, ended.sweep["metadata"]["name"])
    for run in ended.runs.values():
        for kind in ("configmaps", "services", "jobs", "pods"):
            namespace.wait_gone(
                kind, selector=children_selector(run), timeout_seconds=GONE_SECONDS
            )
    assert namespace.list(RUN) == []
