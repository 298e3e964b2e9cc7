"""Queries that decisions request: logs, events, endpoints, GPU exporters and a run's judgement.

Each query runs in a task of its own, beside the queue's workers, has a time limit, and always gets
an answer. A new kind of query needs a class in `benchrun.decide.decision`, a function here, and a
line in `KINDS`.
"""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple

from benchrun_client.contract import Sealed
from benchrun_client.engines import StartupPhases

from benchrun import names
from benchrun.api import MAX_COMPILATIONS, Judgement, Sample
from benchrun.decide import decision
from benchrun.effects.errors import ClusterError, NotFound
from benchrun.effects.judge_child import JudgeChild, NotJudged, TooSlow
from benchrun.effects.kubernetes_api import KubernetesApi
from benchrun.effects.stored_documents import stored_document
from benchrun.effects.turns import Places
from benchrun.judge_process.messages import Job, JobPart
from benchrun.measure import bucketed, encode
from benchrun.observe import (
    Child,
    Children,
    Flavor,
    Key,
    Run,
    flavor_of,
    image_pull_seconds,
    labels_of,
    packed,
    refused_pods,
    run_of,
    unpacked,
    untrusted_json as raw,
)
from benchrun.plan import RECORD_KEY, TIMELINE_KEY, PackedResult

logger = logging.getLogger(__name__)

# Long enough for an API server that is away for 15 minutes: the benchmarked server is gone by then
# and holds nothing. Waiting for the turns of others, which may be many, is not counted.
JUDGE_RETRY_SECONDS = 5.0
JUDGE_TRIES = 180
SLOW_TRIES = 13
"""Number of tries that one try counts for if the data could not be read in time."""
# queries of a kind under way at a time, over all runs, and one more for a namespace that has none:
# each holds at most 4 MiB of a log, or a spec
AT_ONCE = 8
PROBLEM_CHARS = 300


class NotFoundOut(Exception):
    """A query failed; the text says why."""


@dataclass(frozen=True, slots=True)
class Tools:
    cluster: KubernetesApi
    judge: JudgeChild
    exporters: Mapping[decision.ExporterKind, decision.Exporters] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class About:
    """The run that a query is about, in the state it had when the query was requested."""

    run: Run
    children: Children
    arrivals: tuple[
        Sealed, ...
    ] = ()  # received records that are not known to be stored
    samples: tuple[Sample, ...] = ()  # samples that are not stored
    spec: bytes = b""  # the run's spec, packed, while the query waits for its turn

    def waiting(self, query: decision.Query[Any]) -> "About":
        """Return a small copy with only what the query needs, because many may wait for long."""
        run = replace(self.run, spec={}, status={})
        if not isinstance(query, decision.Judging):
            return About(run, self.children)
        return replace(self, run=run, spec=packed(self.run.spec))

    def whole(self) -> "About":
        """Return a copy whose run has its spec unpacked, when the query begins."""
        if not self.spec:
            return self
        return replace(
            self, run=replace(self.run, spec=unpacked(self.spec)), spec=b""
        )


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind of query is answered."""

    look_up: Callable[[Tools, About, Any], Awaitable[Any]]
    """Returns the answer; raises ClusterError or NotFoundOut."""
    # most seconds that a query may take; None if it limits itself
    seconds: float | None
    retry_seconds: float | None = None
    """Seconds until a failed query is retried, while it is still wanted; None: never."""
    # Seconds until an answered query is repeated; None: never.
    again_seconds: float | None = None
    # Whether an answer stays where a repeat of its query fails.
    keeps_answer: bool = False


async def _compilations(
    tools: Tools, about: About, query: decision.Compilations
) -> tuple[float, ...]:
    if (read := query.engine.compilations) is None:
        raise NotFoundOut(
            f"{query.engine.name} does not log when it compiles kernels"
        )
    text, complete = await tools.cluster.log_since(about.run.namespace, query)
    found = read(text)
    if not complete or len(found) > MAX_COMPILATIONS:
        raise NotFoundOut(
            "the server's log is too long to be read to its end, or has more compilations than are "
            "kept, so the compilations are not counted"
        )
    return found


async def _endpoint_pods(
    tools: Tools, about: About, query: decision.EndpointPods
) -> tuple[str, ...]:
    found = await tools.cluster.endpoint_addresses(
        about.run.namespace, query.service, query.port
    )
    if not found:
        raise NotFoundOut(f"Service {query.service} has no ready pods")
    return found


async def _labelled_pods(
    tools: Tools, about: About, query: decision.LabelledPods
) -> tuple[str, ...]:
    # None is an answer too: another pod may soon have the address of one that is gone.
    return await tools.cluster.pod_addresses(
        about.run.namespace, query.selector, query.port
    )


async def _exporter(
    tools: Tools, _: About, query: decision.Exporter
) -> decision.ExporterPod:
    exporters = tools.exporters.get(query.kind)
    found = (
        None
        if exporters is None
        else await tools.cluster.exporter_on(exporters, query.node)
    )
    if found is None:
        raise NotFoundOut(
            f"no {query.kind.upper()} exporter runs on node {query.node}"
        )
    return found


async def _flavors(
    tools: Tools, _: About, query: decision.Flavors
) -> tuple[Flavor, ...]:
    return tuple(
        [flavor_of(await tools.cluster.resource_flavor(n)) for n in query.names]
    )


async def _pods_refused(
    tools: Tools, about: About, query: decision.PodsRefused
) -> str:
    return refused_pods(
        await tools.cluster.refusal_events(about.run.namespace, query)
    )


async def _server_start(
    tools: Tools, about: About, query: decision.ServerStart
) -> decision.Start:
    namespace = about.run.namespace
    phases = StartupPhases()
    image_pull = None
    try:
        log = await tools.cluster.log_head(namespace, query)
        phases = query.engine.startup_phases(log)
    except ClusterError as error:
        logger.info(
            "%s/%s: the beginning of the pod's log was not read: %s",
            namespace,
            query.pod,
            error,
        )
    try:
        events = await tools.cluster.image_events(namespace, query)
        image_pull = image_pull_seconds(events, container=query.container)
    except ClusterError as error:
        logger.info(
            "%s/%s: the pod's events were not read: %s", namespace, query.pod, error
        )
    return decision.Start(phases, image_pull)


async def _judgement(
    tools: Tools, about: About, query: decision.Judging
) -> decision.Evaluation:
    run = about.run
    problem: object = None
    left = JUDGE_TRIES
    while left > 0:
        try:
            job = await _job(tools, run, query)
            parts = _parts(tools, about, query)
            judged, document = await tools.judge.judge(job, parts, Judgement)
        except NotJudged as error:
            raise NotFoundOut(str(error)) from error
        except ClusterError as error:
            problem = error
            left -= SLOW_TRIES if isinstance(error, TooSlow) else 1
            logger.info(
                "%s/%s: the run's records can't be read yet: %s",
                run.namespace,
                run.name,
                error,
            )
            await asyncio.sleep(JUDGE_RETRY_SECONDS)
            continue
        where = f"{run.namespace}/{run.name}"
        logger.info("%s: judged in %.1f s", where, judged.duration_seconds)
        if judged.refused_count:
            logger.warning(
                "%s: %d records or timeline parts were not used, first: %s",
                where,
                judged.refused_count,
                judged.refused[:1],
            )
        return decision.Evaluation(
            judged, PackedResult.of(document) if document else None
        )
    raise NotFoundOut(f"the run's records can't be read: {problem}")


async def _job(tools: Tools, run: Run, query: decision.Judging) -> Job:
    """Return the job of judging a run.

    The run's labels are read from the cluster, since the operator does not hold them in memory.
    """
    try:
        body = await tools.cluster.get(
            names.KIND, namespace=run.namespace, name=run.name
        )
    except NotFound:
        body = {}
    return Job(
        name=run.name,
        namespace=run.namespace,
        uid=run.uid,
        spec=run.spec,
        servers=list(query.servers),
        client=query.client,
        ending=query.ending,
        instants=query.instants,
        labels=dict(labels_of(body)),
        unstored=query.unstored,
    )


async def _parts(
    tools: Tools, about: About, query: decision.Judging
) -> AsyncGenerator[JobPart, None]:
    """Yield everything that was measured, one part in memory at a time.

    ConfigMaps of other owners are left out, also if they have the name of a record.
    """
    run = about.run
    stored = set[int]()
    planned = _planned_names(run, query)
    for child in about.children.objects:
        is_ours = child.owner_uid == run.uid and child.kind == "ConfigMap"
        if is_ours and planned.get(child.name) == (child.role, child.sequence):
            held = await _held(tools, about, child)
            record = _decoded(held.get(RECORD_KEY))
            chunk = _decoded(held.get(TIMELINE_KEY))
            if record is not None:
                stored |= {child.sequence} if child.sequence is not None else set()
                yield JobPart.of(
                    "record", record, name=child.name, envelope=child.envelope
                )
            if chunk is not None:
                yield JobPart.of("timeline", chunk, name=child.name)
    for envelope, sealed in about.arrivals:
        if envelope.sequence not in stored:
            name = f"record {envelope.sequence}"
            yield JobPart.of("record", sealed, name=name, envelope=envelope)
    if about.samples:
        yield JobPart.of(
            "timeline",
            encode(bucketed(about.samples, 1)),
            name="the latest samples",
        )
    baseline = raw.text(raw.mapping(run.spec.get("baseline")).get("name"))
    if baseline and not query.ended_early:
        try:
            body = await tools.cluster.get(
                names.KIND, namespace=run.namespace, name=baseline
            )
        except NotFound:
            return
        yield JobPart.of("baseline", json.dumps(body).encode(), name=baseline)
        before = run_of(body)
        ref = raw.mapping(before.status.get("resultDocument"))
        document = await stored_document(
            tools.cluster, before.namespace, before.uid, ref
        )
        if document is not None:
            yield JobPart.of("baselineDocument", document, name=baseline)


def _planned_names(
    run: Run, query: decision.Judging
) -> Mapping[str, tuple[str, int | None]]:
    """Return, by name, the role and sequence of every ConfigMap that may hold the run's records.

    Other ConfigMaps are not read, whatever labels they carry.
    """
    stages = {
        names.stage_name(run.name, run.uid, n): (names.ROLE_STAGE, n)
        for n in range(query.most_stages)
    }
    chunks = {
        names.timeline_name(run.name, run.uid, n): (names.ROLE_TIMELINE, None)
        for n in range(query.most_chunks)
    }
    return stages | chunks


async def _held(tools: Tools, about: About, child: Child) -> Mapping[str, object]:
    """Return the data of the ConfigMap, in base64; empty if somebody deleted it.

    The data of a deleted ConfigMap are reported as missing, not waited for.
    """
    try:
        body = await tools.cluster.get(
            "ConfigMap", namespace=about.run.namespace, name=child.name
        )
    except NotFound:
        return {}
    return raw.mapping(body.get("binaryData"))


def _decoded(held: object) -> bytes | None:
    try:
        return base64.b64decode(held) if isinstance(held, str) else None
    except ValueError:
        return None


KINDS: Mapping[type[decision.Query[Any]], Kind] = {
    decision.Compilations: Kind(_compilations, seconds=5.0),
    decision.EndpointPods: Kind(_endpoint_pods, seconds=10.0, retry_seconds=4.0),
    decision.Exporter: Kind(_exporter, seconds=10.0),
    decision.Flavors: Kind(_flavors, seconds=10.0, retry_seconds=9.0),
    decision.Judging: Kind(_judgement, seconds=None),
    decision.LabelledPods: Kind(
        _labelled_pods,
        seconds=10.0,
        retry_seconds=4.0,
        again_seconds=4.0,
        keeps_answer=True,
    ),
    decision.LogTail: Kind(
        lambda tools, about, q: tools.cluster.log_tail(about.run.namespace, q),
        seconds=10.0,
    ),
    decision.PodsRefused: Kind(
        _pods_refused, seconds=10.0, retry_seconds=9.0, again_seconds=9.0
    ),
    decision.ServerStart: Kind(_server_start, seconds=15.0),
}


class Asked(NamedTuple):
    """A query about a run, which is identified by its uid."""

    key: Key
    uid: str
    query: decision.Query[Any]


@dataclass(eq=False)
class LookUps:
    """Starts queries and keeps their answers. `news` is called when a run has a new answer."""

    tools: Tools
    _: KW_ONLY
    news: Callable[[Key], None]
    kinds: Mapping[type[decision.Query[Any]], Kind] = field(
        default_factory=lambda: KINDS
    )

    def __post_init__(self) -> None:
        self._tasks: dict[Asked, asyncio.Task[None]] = {}
        self._answered_at: dict[Asked, float] = {}
        self._places = {kind: Places(AT_ONCE + 1) for kind in self.kinds}

    def ask(
        self,
        key: Key,
        about: About,
        queries: Iterable[decision.Query[Any]],
        answers: decision.Answers,
    ) -> None:
        """Start each query that is neither answered nor being answered.

        Never raises, never waits.
        """
        for query in queries:
            asked = Asked(key, about.run.uid, query)
            if asked not in self._tasks and not self._is_settled(asked, answers):
                work = self._answer(asked, about.waiting(query), answers)
                self._tasks[asked] = asyncio.create_task(
                    work, name=f"look up {type(query).__name__}"
                )

    async def within(
        self,
        seconds: float,
        about: About,
        query: decision.Query[Any],
        answers: decision.Answers,
    ) -> None:
        """Answer this query in at most `seconds`, unless it has an answer. Never raises."""
        if query not in answers:
            answers[query] = await self._outcome(about, query, seconds)

    def stop(self, key: Key) -> None:
        """Cancel all queries about the run."""
        for each in [each for each in self._tasks if each.key == key]:
            self._tasks.pop(each).cancel()
        for each in [each for each in self._answered_at if each.key == key]:
            del self._answered_at[each]

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for key in {asked.key for asked in self._tasks}:
            self.stop(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_settled(self, asked: Asked, answers: decision.Answers) -> bool:
        query = asked.query
        answer = answers.of(query)
        kind = self.kinds[type(query)]
        if answer is None:
            return False
        again = kind.retry_seconds if answer.value is None else kind.again_seconds
        waited = asyncio.get_running_loop().time() - self._answered_at.get(
            asked, 0.0
        )
        return again is None or waited < again

    async def _answer(
        self, asked: Asked, about: About, answers: decision.Answers
    ) -> None:
        query = asked.query
        seconds = self.kinds[type(query)].seconds
        async with self._places[type(query)].taken(asked.key.namespace):
            answer = await self._outcome(about.whole(), query, seconds)
        kind = self.kinds[type(query)]
        if answer.value is None and kind.keeps_answer:
            answer = answers.of(query) or answer
        news = answers.of(query) != answer
        answers[query] = answer
        del self._tasks[asked]
        if answer.value is None or kind.again_seconds is not None:
            self._answered_at[asked] = asyncio.get_running_loop().time()
        if news:
            self.news(asked.key)

    async def _outcome(
        self, about: About, query: decision.Query[Any], seconds: float | None
    ) -> decision.Answer[Any]:
        where = f"{about.run.namespace}/{about.run.name}: {type(query).__name__}"
        try:
            async with asyncio.timeout(seconds):
                return decision.Answer(
                    await self.kinds[type(query)].look_up(self.tools, about, query)
                )
        except TimeoutError:
            problem = f"no answer within {seconds} s"
        except (ClusterError, NotFoundOut) as error:
            problem = str(error) or type(error).__name__
        except Exception as error:
            logger.exception("%s", where)
            problem = f"{type(error).__name__}: {error}"
        logger.info("%s: %s", where, problem)
        return decision.Answer(None, problem[:PROBLEM_CHARS])
