"""The line to one client: ask for its records, check them, say which are stored."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlencode

from benchrun_client.contract import (
    MAX_RECORD_BYTES,
    Acknowledgement,
    Delivery,
    Envelope,
    Plan,
    Progress,
    StageRecord,
    open_record,
    open_stage,
)
from pydantic import ValidationError

from benchrun.decide.decision import Arrival
from benchrun.effects.open_stages import problem_with
from benchrun.effects.scraper import Fetcher, FetchError

WAIT_SECONDS = 20
"""How long a client holds an answer back when there is nothing new."""
ANSWER_SECONDS = 15.0
"""Beyond the wait, for the answer itself."""
ACKNOWLEDGE_SECONDS = 5.0
MAX_DELIVERY_BYTES = 2 * MAX_RECORD_BYTES
"""One record of the largest size in base64, and more."""


class Refused(Exception):
    """What the client said can't be taken; the text says why."""


class Exchanger(Fetcher, Protocol):
    """Reads pages and posts short answers."""

    async def post(self, url: str, body: str, *, timeout_seconds: float) -> None:
        """Send JSON. Raises FetchError for anything but success."""
        ...


@dataclass(frozen=True, slots=True)
class Pulled:
    """One answer of a client, checked."""

    progress: Progress
    arrivals: tuple[Arrival, ...]
    refused: tuple[str, ...]
    """Why records were not taken, one text a record."""


class ClientLink:
    """Speaks with the client of one run."""

    def __init__(self, exchanger: Exchanger, *, base_url: str, nonce: str, plan: Plan) -> None:
        self._exchanger = exchanger
        self._base_url = base_url.rstrip("/")
        self._nonce = nonce
        # What answers are checked against; the plan itself is not kept.
        self._run_uid = plan.run_uid
        self._plan_digest = plan.digest()
        self._stage_ids = tuple(stage.id for stage in plan.stages)
        self._searches = plan.searches

    async def pull(self, *, from_sequence: int, seen_version: int) -> Pulled:
        """Wait for a record or news of the progress. Raises FetchError, or Refused when the answer is not our client's."""
        query = urlencode({"from": from_sequence, "seen": seen_version, "wait": WAIT_SECONDS})
        text = await self._exchanger.fetch(
            f"{self._base_url}/records?{query}",
            limit_bytes=MAX_DELIVERY_BYTES,
            timeout_seconds=WAIT_SECONDS + ANSWER_SECONDS,
        )
        try:
            delivery = Delivery.model_validate_json(text)
        except ValidationError as error:
            raise Refused(f"answer does not fit the contract: {_in_short(error)}") from error
        # A client that has not read its plan yet (or can't) does not know its run, and has nothing but its progress.
        if delivery.run_uid != self._run_uid and (delivery.run_uid or delivery.records):
            raise Refused(f"answer is of run {delivery.run_uid!r}")
        arrivals, refused = [], []
        for envelope in delivery.records:
            try:
                arrivals.append(self._open(envelope))
            except Refused as error:
                refused.append(str(error))
            await asyncio.sleep(0)  # to check a large one takes a tenth of a second
        return Pulled(progress=delivery.progress, arrivals=tuple(arrivals), refused=tuple(refused))

    async def acknowledge(self, through: int) -> bool:
        """Tell that all records below `through` are stored; False when the client did not hear."""
        body = Acknowledgement(nonce=self._nonce, through=through).model_dump_json()
        try:
            await self._exchanger.post(f"{self._base_url}/ack", body, timeout_seconds=ACKNOWLEDGE_SECONDS)
        except FetchError:
            return False
        return True

    def _open(self, envelope: Envelope) -> Arrival:
        where = f"record {envelope.sequence}"
        try:
            data = envelope.data()
            record = open_record(data)
        except ValidationError as error:
            raise Refused(f"{where} does not fit the contract: {_in_short(error)}") from error
        except ValueError as error:
            raise Refused(f"{where}: {str(error).removeprefix(where + ': ')}") from error
        if record.run_uid != self._run_uid:
            raise Refused(f"{where} is of run {record.run_uid}")
        if record.plan_digest != self._plan_digest:
            raise Refused(f"{where} is of another plan")
        if record.sequence != envelope.sequence:
            raise Refused(f"{where} says it is record {record.sequence}")
        if (problem := self._misplaced(record)) is not None:
            raise Refused(f"{where}: {problem}")
        return Arrival(envelope.sequence, envelope.digest, data, ends_search=_search_ended(record))

    def _misplaced(self, record: StageRecord) -> str | None:
        """Why the plan has no such stage at this place."""
        listed = len(self._stage_ids)
        if record.sequence >= listed:
            return problem_with(record, self._searches, listed=listed)
        planned = self._stage_ids[record.sequence]
        if record.stage_id != planned:
            return f"it is of stage {record.stage_id}, the plan says {planned}"
        return None if record.probe is None else "it is of no search"


def _search_ended(record: StageRecord) -> str | None:
    place = open_stage(record.stage_id)
    return place[0] if place is not None and record.probe is not None and record.probe.ends_search else None


def _in_short(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place or 'document'}: {first['msg']}"[:300]
