"""The judgement of a run: what is stored of it is handed, unopened, to the judge's process."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
from collections.abc import AsyncIterator, Mapping

from benchrun import names
from benchrun.api import Judgement
from benchrun.decide.collected import Judging
from benchrun.effects.errors import ClusterError, NotFound
from benchrun.effects.judge_child import NotJudged
from benchrun.effects.lookups.reads import About, Kind, NotFoundOut, Tools
from benchrun.judge_process.job import Job, Part
from benchrun.measure.timeline import bucketed, encode
from benchrun.names import KIND
from benchrun.observe import raw
from benchrun.observe.views import Child
from benchrun.plan.stored import RECORD_KEY, TIMELINE_KEY

logger = logging.getLogger(__name__)

JUDGED_WITHIN_SECONDS = 900.0
"""The API server may be away for a while; the server is long gone."""
AGAIN_SECONDS = 5.0


async def _look_up(tools: Tools, about: About, question: Judging) -> Judgement:
    run = about.run
    job = Job(
        name=run.name,
        namespace=run.namespace,
        uid=run.uid,
        spec=run.spec,
        servers=list(question.servers),
        client=question.client,
        ended_early=question.ended_early,
    )
    while True:
        try:
            judged = await tools.judge.judge(job, _parts(tools, about, with_baseline=not question.ended_early))
        except NotJudged as error:
            raise NotFoundOut(error.reason) from error
        except ClusterError as error:
            logger.info("%s/%s: its records can't be read yet: %s", run.namespace, run.name, error)
            await asyncio.sleep(AGAIN_SECONDS)
            continue
        logger.info("%s/%s: judged in %.1f s", run.namespace, run.name, judged.duration_seconds)
        if judged.refused_count:
            logger.warning(
                "%s/%s: %d left out, first: %s", run.namespace, run.name, judged.refused_count, judged.refused[:1]
            )
        return judged


async def _parts(tools: Tools, about: About, *, with_baseline: bool) -> AsyncIterator[Part]:
    """Everything that was measured, one part in memory at a time."""
    run, stored = about.run, set[int]()
    for child in _own(about):
        if child.kind == "ConfigMap" and child.role in (names.ROLE_STAGE, names.ROLE_TIMELINE):
            held = await _held(tools, about, child)
            for part in _parts_of(child, held):
                if part.head.kind == "record" and child.sequence is not None:
                    stored.add(child.sequence)
                yield part
    for arrival in about.arrivals:
        if arrival.sequence not in stored:
            yield Part.of(
                "record",
                arrival.data,
                name=f"record {arrival.sequence}",
                sequence=arrival.sequence,
                stage_id=arrival.stage_id,
                plan_digest=arrival.plan_digest,
                ends_search=arrival.ends_search,
                digest=arrival.digest,
            )
    if about.samples:
        yield Part.of("timeline", encode(bucketed(about.samples, 1)), name="the latest samples")
    baseline = raw.text(raw.mapping(run.spec.get("baseline")).get("name"))
    if with_baseline and baseline:
        try:
            body = await tools.cluster.get(KIND, namespace=run.namespace, name=baseline)
        except NotFound:
            return
        yield Part.of("baseline", json.dumps(body).encode(), name=baseline)


def _own(about: About) -> list[Child]:
    return [child for child in about.children.objects if child.owner_uid == about.run.uid]


async def _held(tools: Tools, about: About, child: Child) -> Mapping[str, object]:
    """What the ConfigMap holds, in base64; nothing where somebody deleted it: it is missed, not waited for."""
    try:
        body = await tools.cluster.get("ConfigMap", namespace=about.run.namespace, name=child.name)
    except NotFound:
        return {}
    return raw.mapping(body.get("binaryData"))


def _parts_of(child: Child, held: Mapping[str, object]) -> list[Part]:
    parts = []
    for key, kind in ((RECORD_KEY, "record"), (TIMELINE_KEY, "timeline")):
        data = _decoded(held.get(key))
        if data is None:
            continue
        if kind != "record":
            parts.append(Part.of("timeline", data, name=child.name))
            continue
        parts.append(
            Part.of(
                "record",
                data,
                name=child.name,
                sequence=child.sequence,
                stage_id=child.stage_id,
                plan_digest=child.plan_digest,
                ends_search=child.ends_search,
                digest=child.record_digest,
            )
        )
    return parts


def _decoded(held: object) -> bytes | None:
    try:
        return base64.b64decode(held) if isinstance(held, str) else None
    except binascii.Error:
        return None


JUDGING = Kind(_look_up, seconds=JUDGED_WITHIN_SECONDS)
