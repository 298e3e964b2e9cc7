"""Records and progress of one client over HTTP: get them, check their envelopes, acknowledge them. No record is opened here."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from benchrun_client import contract

from benchrun.decide import PullTarget
from benchrun.effects.connection import Connection, Resource
from benchrun.effects.errors import Exists, Invalid, NotFound
from benchrun.effects.pod_http import Fetcher, FetchError
from benchrun.plan import Arrival, problem_with

WAIT_SECONDS = 20  # how long a client holds an answer back when there is nothing new
ANSWER_SECONDS = 15.0  # beyond the wait, for the answer itself
ACKNOWLEDGE_SECONDS = 5.0
WRONG_IMAGE = "use the client image of this operator's release (spec.client.image, or clientImage of the chart)"


class Refused(Exception):
    """The client's answer can't be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """One answer of a client, checked."""

    progress: contract.Progress
    arrivals: tuple[Arrival, ...]
    refused: tuple[str, ...]  # why records were not taken, one text a record


class ClientRecords:
    """The record server of one run's client."""

    def __init__(self, fetcher: Fetcher, target: PullTarget) -> None:
        self._fetcher = fetcher
        self._target = target
        self._headers = {contract.TOKEN_HEADER: target.token}

    async def pull(self, *, from_sequence: int, seen_version: int) -> Pulled:
        """Wait for a record or news of the progress. Raises FetchError (no answer), or Refused: the answer is not our client's,
        or it does not know our token, or has another version of the contract."""
        query = urlencode({"from": from_sequence, "seen": seen_version, "wait": WAIT_SECONDS})
        try:
            answer = await self._fetcher.fetch_bytes(
                f"{self._target.url}/records?{query}",
                limit_bytes=contract.MAX_DELIVERY_BYTES,
                timeout_seconds=WAIT_SECONDS + ANSWER_SECONDS,
                headers=self._headers,
            )
        except FetchError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                raise Refused("the client does not know this run's token") from error
            raise
        try:
            delivery, bodies = contract.unpack_delivery(answer)
        except contract.ContractMismatch as mismatch:
            raise Refused(f"{mismatch}; {WRONG_IMAGE}") from mismatch
        except ValueError as error:
            raise Refused(f"answer does not fit the contract: {error}") from error
        # A client that has not read its plan yet (or can't) does not know its run, and has nothing but its progress.
        if delivery.run_uid != self._target.run_uid and (delivery.run_uid or delivery.records):
            raise Refused(f"answer is of run {delivery.run_uid!r}")
        arrivals, refused = [], []
        for e, body in zip(delivery.records, bodies, strict=True):
            if (problem := self._problem_with(e, body)) is None:
                arrivals.append(Arrival(e.sequence, e.stage_id, e.plan_digest, e.digest, body, e.ends_search))
            else:
                refused.append(f"record {e.sequence}: {problem}")
        return Pulled(progress=delivery.progress, arrivals=tuple(arrivals), refused=tuple(refused))

    async def acknowledge(self, through: int) -> bool:
        """Tell that all records below `through` are stored; False when the client did not hear."""
        body = contract.Acknowledgement(through=through).model_dump_json()
        try:
            url = f"{self._target.url}/ack"
            await self._fetcher.post(url, body, timeout_seconds=ACKNOWLEDGE_SECONDS, headers=self._headers)
        except FetchError:
            return False
        return True

    def _problem_with(self, envelope: contract.Envelope, body: bytes) -> str | None:
        target = self._target
        if envelope.run_uid != target.run_uid:
            return f"it is of run {envelope.run_uid!r}"
        if target.plan_digest is not None and envelope.plan_digest != target.plan_digest:
            return "it is of another plan"
        if hashlib.sha256(body).hexdigest() != envelope.digest:
            return "its digest does not match its bytes"
        listed = len(target.stage_ids)
        if envelope.sequence >= listed:
            return problem_with(envelope, target.searches, listed=listed)
        if envelope.stage_id != (planned := target.stage_ids[envelope.sequence]):
            return f"it is of stage {envelope.stage_id!r}, the plan says {planned!r}"
        return None if envelope.ends_search is None else "it is of no search"


# The operator makes the key of all tokens itself and keeps it in a Secret of its own namespace: tools that render the chart anew each
# time could not keep a random value. It may read that one Secret by name and create it, and no other.

CHANNEL_KEY = "benchrun-channel-key"  # name of the Secret
_ENTRY, _BYTES = "key", 32
# Not among RESOURCES: nothing else has any business with Secrets.
_SECRET = Resource("", "v1", "secrets")


async def channel_key(connection: Connection, *, namespace: str) -> bytes:
    """The operator's key, made if there is none yet. Raises ClusterError: without it no client can be talked to."""
    try:
        return _key_in(await connection.json("GET", _SECRET.path(namespace, CHANNEL_KEY)))
    except NotFound:
        pass
    labels = {"app.kubernetes.io/managed-by": "benchrun-operator"}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": CHANNEL_KEY, "namespace": namespace, "labels": labels},
        "type": "Opaque",
        "immutable": True,
        "data": {_ENTRY: base64.b64encode(secrets.token_bytes(_BYTES)).decode()},
    }
    try:
        return _key_in(await connection.json("POST", _SECRET.path(namespace), body=secret))
    except Exists:  # another replica was faster
        return _key_in(await connection.json("GET", _SECRET.path(namespace, CHANNEL_KEY)))


def _key_in(body: dict[str, Any]) -> bytes:
    """Raises Invalid, which does not say what was found."""
    try:
        key = base64.b64decode(body["data"][_ENTRY], validate=True)
    except (KeyError, TypeError, ValueError):
        key = b""
    if len(key) < _BYTES:
        # Without what was found as a cause, since a traceback is logged.
        raise Invalid(f"Secret {CHANNEL_KEY} holds no key of {_BYTES} bytes at {_ENTRY!r}; delete it to have one made")
    return key
