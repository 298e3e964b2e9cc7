"""The line to one client: ask for its records, check their envelopes, say which are stored. No record is opened here."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from benchrun_client.contract import (
    MAX_DELIVERY_BYTES,
    TOKEN_HEADER,
    Acknowledgement,
    ContractMismatch,
    Envelope,
    Progress,
    Search,
    unpack_delivery,
)

from benchrun.decide.decision import Arrival
from benchrun.effects.connection import Connection, Resource
from benchrun.effects.errors import Exists, Invalid, NotFound
from benchrun.effects.pod_http import Fetcher, FetchError
from benchrun.plan.searches import problem_with

WAIT_SECONDS = 20  # how long a client holds an answer back when there is nothing new
ANSWER_SECONDS = 15.0  # beyond the wait, for the answer itself
ACKNOWLEDGE_SECONDS = 5.0
UNAUTHORIZED = 401


class Refused(Exception):
    """What the client said can't be taken; the text says why."""


class Unauthorized(Refused):
    """The client was given a plan with another token, or somebody else answers at its address."""


class Mismatched(Refused):
    """The client speaks another version of the contract; the text says what to do."""

    def __init__(self, mismatch: ContractMismatch) -> None:
        super().__init__(
            f"{mismatch}; use the client image of this operator's release (spec.client.image, or clientImage of the chart)"
        )


@dataclass(frozen=True, slots=True)
class Pulled:
    """One answer of a client, checked."""

    progress: Progress
    arrivals: tuple[Arrival, ...]
    refused: tuple[str, ...]  # why records were not taken, one text a record


class ClientLink:
    """Speaks with the client of one run. `stage_ids`: of the stages that the plan lists; those of its searches follow them.
    `plan_digest`: None where nothing tells it any more."""

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        base_url: str,
        run_uid: str,
        token: str,
        plan_digest: str | None,
        stage_ids: Sequence[str],
        searches: Sequence[Search],
    ) -> None:
        self._fetcher = fetcher
        self._base_url = base_url.rstrip("/")
        self._headers = {TOKEN_HEADER: token}
        self._run_uid = run_uid
        self._plan_digest = plan_digest
        self._stage_ids = tuple(stage_ids)
        self._searches = tuple(searches)

    async def pull(self, *, from_sequence: int, seen_version: int) -> Pulled:
        """Wait for a record or news of the progress.

        Raises:
            FetchError: there was no answer.
            Refused: the answer is not our client's; `Unauthorized`: it does not know our token; `Mismatched`: it speaks
                another version of the contract.
        """
        query = urlencode({"from": from_sequence, "seen": seen_version, "wait": WAIT_SECONDS})
        try:
            answer = await self._fetcher.fetch_bytes(
                f"{self._base_url}/records?{query}",
                limit_bytes=MAX_DELIVERY_BYTES,
                timeout_seconds=WAIT_SECONDS + ANSWER_SECONDS,
                headers=self._headers,
            )
        except FetchError as error:
            if error.status == UNAUTHORIZED:
                raise Unauthorized("the client does not know this run's token") from error
            raise
        try:
            delivery, bodies = unpack_delivery(answer)
        except ContractMismatch as mismatch:
            raise Mismatched(mismatch) from mismatch
        except ValueError as error:
            raise Refused(f"answer does not fit the contract: {error}") from error
        # a client that has not read its plan yet (or can't) does not know its run, and has nothing but its progress.
        if delivery.run_uid != self._run_uid and (delivery.run_uid or delivery.records):
            raise Refused(f"answer is of run {delivery.run_uid!r}")
        arrivals, refused = [], []
        for envelope, body in zip(delivery.records, bodies, strict=True):
            if (problem := self._problem_with(envelope, body)) is None:
                arrivals.append(
                    Arrival(
                        sequence=envelope.sequence,
                        stage_id=envelope.stage_id,
                        plan_digest=envelope.plan_digest,
                        digest=envelope.digest,
                        data=body,
                        ends_search=envelope.ends_search,
                    )
                )
            else:
                refused.append(f"record {envelope.sequence}: {problem}")
        return Pulled(progress=delivery.progress, arrivals=tuple(arrivals), refused=tuple(refused))

    async def acknowledge(self, through: int) -> bool:
        """Tell that all records below `through` are stored; False when the client did not hear."""
        body = Acknowledgement(through=through).model_dump_json()
        try:
            await self._fetcher.post(
                f"{self._base_url}/ack", body, timeout_seconds=ACKNOWLEDGE_SECONDS, headers=self._headers
            )
        except FetchError:
            return False
        return True

    def _problem_with(self, envelope: Envelope, body: bytes) -> str | None:
        if envelope.run_uid != self._run_uid:
            return f"it is of run {envelope.run_uid!r}"
        if self._plan_digest is not None and envelope.plan_digest != self._plan_digest:
            return "it is of another plan"
        if hashlib.sha256(body).hexdigest() != envelope.digest:
            return "its digest does not match its bytes"
        listed = len(self._stage_ids)
        if envelope.sequence >= listed:
            return problem_with(envelope, self._searches, listed=listed)
        if envelope.stage_id != (planned := self._stage_ids[envelope.sequence]):
            return f"it is of stage {envelope.stage_id!r}, the plan says {planned!r}"
        return None if envelope.ends_search is None else "it is of no search"


# The operator makes the key of all tokens itself and keeps it in a Secret of its own namespace: tools that render the chart anew each
# time could not keep a random value. It may read that one Secret by name and create it, and no other.

CHANNEL_KEY = "benchrun-channel-key"  # name of the Secret
_ENTRY = "key"
_BYTES = 32
# Not among RESOURCES: nothing else has any business with Secrets.
_SECRET = Resource("", "v1", "secrets")


async def channel_key(connection: Connection, *, namespace: str) -> bytes:
    """The operator's key, made if there is none yet. Raises ClusterError: without it no client can be talked to."""
    try:
        return _key_in(await connection.json("GET", _SECRET.path(namespace, CHANNEL_KEY)))
    except NotFound:
        pass
    try:
        return _key_in(await connection.json("POST", _SECRET.path(namespace), body=_manifest(namespace)))
    except Exists:
        # Another replica was faster.
        return _key_in(await connection.json("GET", _SECRET.path(namespace, CHANNEL_KEY)))


def _manifest(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": CHANNEL_KEY,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "benchrun-operator"},
        },
        "type": "Opaque",
        "immutable": True,
        "data": {_ENTRY: base64.b64encode(secrets.token_bytes(_BYTES)).decode()},
    }


def _key_in(body: dict[str, Any]) -> bytes:
    """Raises Invalid, which does not say what was found."""
    try:
        key = base64.b64decode(body["data"][_ENTRY], validate=True)
    except (KeyError, TypeError, ValueError):
        key = b""
    if len(key) < _BYTES:
        # Without what was found as a cause: a traceback is logged.
        raise Invalid(f"Secret {CHANNEL_KEY} holds no key of {_BYTES} bytes at {_ENTRY!r}; delete it to have one made")
    return key
