"""`benchrun-operator archive`, run by `archive-cronjob.yaml` of the chart: archive ended runs.

Each run that has ended and is not archived yet is written to a storage outside the cluster, one at
a time, and then marked with the condition Archived. If that fails for a run, the others are
archived all the same, and the next job tries it again.
"""

import argparse
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic

from benchrun import names
from benchrun.api import Reason, timestamp
from benchrun.archive.contents import (
    ARCHIVED,
    INDEX,
    MAX_CONFIG_MAPS,
    MAX_FILE_BYTES,
    MAX_INDEX_BYTES,
    MAX_RUN_BYTES,
    StoreError,
    folder_of,
    is_wanted,
    write_archive,
)
from benchrun.archive.store import FORMS, BadPlace, Store
from benchrun.observe import is_finished, untrusted_json as raw
from benchrun.release.api_server import METADATA, TABLE, Api, Json, mapping, path_of
from benchrun.release.main import CONFIG_MAPS, in_turns, instant

RUNS = f"apis/{names.API_VERSION} {names.PLURAL}"
WORK_SECONDS = 1200.0
"""Seconds after which no other run is begun. The next job archives the rest."""
MAX_WHY_CHARS = 300
MAX_STORE_FAILURES = 3
"""Consecutive failures of the storage after which the rest is left to the next job."""


def main(arguments: Sequence[str]) -> int:
    """Archive the runs that have ended, and return the exit status: 1 if something failed."""
    env = os.environ.get
    parser = argparse.ArgumentParser(
        prog="benchrun-operator archive", description=__doc__
    )
    parser.add_argument(
        "--namespace",
        action="append",
        help="namespace to read; may be repeated (BENCHRUN_NAMESPACES)",
    )
    parser.add_argument(
        "--place",
        default=env("BENCHRUN_ARCHIVE_PLACE", ""),
        help=f"{FORMS} (BENCHRUN_ARCHIVE_PLACE). Credentials come from the environment",
    )
    options = parser.parse_args(arguments)
    watched = [name for name in env("BENCHRUN_NAMESPACES", "").split(",") if name]
    namespaces = options.namespace or watched or [""]
    try:
        store = Store(options.place)
    except BadPlace as error:
        parser.error(f"--place, BENCHRUN_ARCHIVE_PLACE: {error}")
    except StoreError as error:
        print(error)
        return 1
    api = Api(lists=len(namespaces), seconds=WORK_SECONDS)
    return 1 if Archiver(api, store).at(namespaces) else 0


class Unread(Exception):
    """The API server refused a read. The failure is already logged and counted."""


class Archiver:
    """One pass over the runs of some namespaces. It continues after every failure."""

    def __init__(self, api: Api, store: Store) -> None:
        self._api = api
        self._store = store
        self._until = monotonic() + WORK_SECONDS
        self._store_failures = 0

    def at(self, namespaces: Sequence[str]) -> int:
        """Archive the runs that have ended, the oldest of each namespace first.

        Return the number of failures. The namespace "" means all of them.
        """
        found = list(self._unmarked(namespaces))
        written = 0
        for number, (namespace, name) in enumerate(in_turns(found)):
            left = len(found) - number
            if self._store_failures >= MAX_STORE_FAILURES:
                print(f"the storage fails: {left} runs are left for the next time")
                break
            if monotonic() > self._until:
                print(f"{left} runs are left for the next time")
                break
            written += self._archive(namespace, name)
        print(f"archived {written} runs in {self._store.place}")
        return self._api.failures

    def _unmarked(
        self, namespaces: Sequence[str]
    ) -> Iterator[tuple[str, int, tuple[str, str]]]:
        """Yield each run without the mark, by namespace, creation and position.

        The list is read as a table, which has the mark without the whole status. It includes runs
        that have not ended.
        """
        seen = set[tuple[str, str]]()
        for where in namespaces:
            for row in self._api.objects(RUNS, where, accept=TABLE, query={}):
                metadata = mapping(row.get("metadata"))
                run = str(metadata.get("namespace")), str(metadata.get("name"))
                if mapping(row.get("cells")).get(ARCHIVED) == "True" or run in seen:
                    continue
                seen.add(run)
                yield run[0], instant(metadata.get("creationTimestamp")), run

    def _archive(self, namespace: str, name: str) -> bool:
        """Archive and mark a run if it has ended; return whether it was written."""
        try:
            run = self._api.request(
                "GET", path_of(RUNS, namespace, name), None, (404,)
            )
            status = mapping(run.get("status"))
            if not is_finished(status) or is_marked(status):
                return False
            digest = self._written(run)
            self._store_failures = 0
            where = f"{self._store.place}/{folder_of(run)}"
            words = f"in {where}, {INDEX} has the SHA-256 {digest}"
            self._mark(run, "True", Reason.WRITTEN, words)
            return True
        except Unread:
            return False
        except StoreError as error:
            self._store_failures += 1
            self._api.fail(f"{namespace}/{name}: not archived: {error}")
        except (ValueError, RecursionError) as error:
            self._api.fail(f"{namespace}/{name}: can't be archived: {error}")
        return False

    def _written(self, run: Json) -> str:
        """Write the archive of a run, and return its index's SHA-256.

        A run that an archive can't hold is marked so, and nothing of it is written again as long as
        its ConfigMaps and the limits are the same. Raises ValueError, Unread or StoreError.
        """
        found = self._config_maps(run)
        state = digest_of(found)
        mark = raw.condition(run["status"], ARCHIVED)
        words = raw.text(mark.get("message"), raw.MAX_MESSAGE_CHARS)
        if mark.get("reason") == Reason.NOT_ARCHIVABLE and state in words:
            raise ValueError(words)
        try:
            bodies = (self._config_map(run, name) for name in found)
            return write_archive(run, bodies, self._store.put)
        except (ValueError, RecursionError) as error:
            why = f"{str(error)[:MAX_WHY_CHARS]}; tried again when its ConfigMaps change ({state})"
            self._mark(run, "False", Reason.NOT_ARCHIVABLE, why)
            raise

    def _config_maps(self, run: Json) -> dict[str, str]:
        """Return the run's ConfigMaps with what was measured: versions by name. Raises Unread."""
        metadata = run["metadata"]
        failures = self._api.failures
        labelled = self._api.objects(
            CONFIG_MAPS,
            metadata["namespace"],
            accept=METADATA,
            query={"labelSelector": f"{names.LABEL_RUN_UID}={metadata['uid']}"},
        )
        found = {
            str(about.get("name")): str(about.get("resourceVersion"))
            for about in (mapping(each.get("metadata")) for each in labelled)
            if is_wanted(about, run)
        }
        if self._api.failures > failures:
            raise Unread
        if len(found) > MAX_CONFIG_MAPS:
            raise ValueError(f"has more than {MAX_CONFIG_MAPS} ConfigMaps")
        return dict(sorted(found.items()))

    def _config_map(self, run: Json, name: str) -> Json:
        where = path_of(CONFIG_MAPS, run["metadata"]["namespace"], name)
        if not (body := self._api.request("GET", where)):
            raise Unread
        return body

    def _mark(self, run: Json, status: str, reason: str, message: str) -> None:
        """Write the condition Archived, unless the run was changed since it was read."""
        metadata = run["metadata"]
        condition = {
            "type": ARCHIVED,
            "status": status,
            "reason": reason,
            "message": message[: raw.MAX_MESSAGE_CHARS],
            "observedGeneration": metadata.get("generation"),
            "lastTransitionTime": timestamp(
                datetime.fromtimestamp(self._api.now, UTC)
            ),
        }
        others = [
            each
            for each in raw.mappings(run["status"].get("conditions"))
            if each.get("type") != ARCHIVED
        ]
        body = {
            "metadata": {
                key: metadata.get(key) for key in ("uid", "resourceVersion")
            },
            "status": {"conditions": [*others, condition]},
        }
        where = path_of(RUNS, metadata["namespace"], metadata["name"])
        # 404, 409: it is gone, or was changed; a changed one is archived anew
        self._api.request("PATCH", f"{where}/status", body, (404, 409))


def digest_of(config_maps: Mapping[str, str]) -> str:
    """Return a digest of the versions of a run's ConfigMaps, and of what an archive may hold."""
    limits = (MAX_RUN_BYTES, MAX_FILE_BYTES, MAX_INDEX_BYTES)
    text = json.dumps([limits, sorted(config_maps.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_marked(status: raw.Object) -> bool:
    """Return whether a run's status says that the run is archived."""
    return raw.condition(status, ARCHIVED).get("status") == "True"
