"""The content of the archive of a run. Pure: bytes in, bytes out.

The folder `NAMESPACE/NAME-UID` has files named by their SHA-256, and `index.json`, which lists
them. The index is written last, so a folder without one is not an archive yet. The same run gives
the same bytes, whoever writes it and whenever.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from benchrun_client.contract import in_short
from pydantic import Field
from pydantic_core import from_json

from benchrun import names
from benchrun.api.base import StatusModel
from benchrun.api.conditions import ConditionType
from benchrun.decide import RESULT_ROLES
from benchrun.observe import child_of, untrusted_json as raw
from benchrun.plan import RECORD_KEY, RESULT_KEY, TIMELINE_KEY

ARCHIVE_SCHEMA: Literal["benchrun.archive/1"] = "benchrun.archive/1"
INDEX = "index.json"
MAX_INDEX_BYTES = 4 * 1024 * 1024
MAX_FILE_BYTES = 4 * 1024 * 1024
"""Largest file. The API server takes no object above 3 MiB."""
MAX_RUN_BYTES = 256 * 1024 * 1024
"""Most bytes of one run. A million requests, the most of a run, take some 70 MB."""
MAX_CONFIG_MAPS = 4096
ARCHIVED: ConditionType = "Archived"
_KEYS = (RECORD_KEY, TIMELINE_KEY, RESULT_KEY)
_PLACE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
# What kubectl apply notes is the manifest once more, also what was taken out of it since.
_NOTES_OF_TOOLS = "kubectl.kubernetes.io/"
_KEPT_METADATA = (
    "namespace",
    "name",
    "uid",
    "generation",
    "creationTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
)


# Writes a file of a path, whole or not at all. Raises StoreError.
Put = Callable[[str, bytes], None]


class BadArchive(ValueError):
    """The data read is not an archive, or not a complete one. The message has one line."""


class StoreError(Exception):
    """A storage can't be reached, refuses a request, or has a file that is too large."""


class ArchivedFile(StatusModel):
    """A file of an archive."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    suffix: Literal[".json", ".json.gz"]
    bytes: int = Field(ge=0, le=MAX_FILE_BYTES)

    @property
    def name(self) -> str:
        """Return the file's name in the folder of its run."""
        return self.sha256 + self.suffix


class ArchivedConfigMap(StatusModel):
    """A ConfigMap of the run's measurement or result: its metadata, and the files with its data."""

    name: str = Field(max_length=253)
    labels: dict[str, str]
    annotations: dict[str, str]
    files: dict[str, ArchivedFile] = Field(max_length=len(_KEYS))


class ArchivedRunRef(StatusModel):
    """The identity of the run, and the file with its manifest and status."""

    namespace: str = Field(max_length=253)
    name: str = Field(max_length=253)
    uid: str = Field(max_length=253)
    manifest: ArchivedFile


class ArchiveIndex(StatusModel):
    """The table of contents of an archive."""

    schema_: Literal["benchrun.archive/1"] = Field(ARCHIVE_SCHEMA, alias="schema")
    run: ArchivedRunRef
    config_maps: Annotated[
        tuple[ArchivedConfigMap, ...], Field(max_length=MAX_CONFIG_MAPS)
    ] = ()


def folder_of(body: raw.Object) -> str:
    """Return the folder of a run's archive: `NAMESPACE/NAME-UID`.

    Raises ValueError if one of them could lead to another folder.
    """
    metadata = raw.mapping(body.get("metadata"))
    namespace, name, uid = (
        raw.text(metadata.get(key)) for key in ("namespace", "name", "uid")
    )
    if not all(map(_PLACE.fullmatch, (namespace, name, uid))):
        raise ValueError(
            f"can't be a folder's name in an archive: {namespace!r} {name!r} {uid!r}"
        )
    return f"{namespace}/{name}-{uid}"


def file_of(data: bytes, suffix: Literal[".json", ".json.gz"]) -> ArchivedFile:
    """Return the entry of a file with these bytes. Raises ValueError if they are too many."""
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"{len(data)} bytes, the limit is {MAX_FILE_BYTES}")
    return ArchivedFile(
        sha256=hashlib.sha256(data).hexdigest(), suffix=suffix, bytes=len(data)
    )


def manifest_of(body: raw.Object) -> bytes:
    """Return the run's manifest without the fields that only its cluster needs."""
    metadata = raw.mapping(body.get("metadata"))
    kept = {key: metadata[key] for key in _KEPT_METADATA if key in metadata}
    annotations = raw.mapping(kept.get("annotations"))
    kept["annotations"] = {
        key: value
        for key, value in annotations.items()
        if not key.startswith(_NOTES_OF_TOOLS)
    }
    status = dict(raw.mapping(body.get("status")))
    status["conditions"] = [
        each
        for each in raw.mappings(status.get("conditions"))
        if each.get("type") != ARCHIVED
    ]
    return _json(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": kept,
            "spec": body.get("spec"),
            "status": status,
        }
    )


def is_wanted(metadata: raw.Object, run: raw.Object) -> bool:
    """Return whether a ConfigMap with this metadata belongs into the archive of a run.

    Of the result documents, only the one that the run's status refers to belongs.
    """
    child = child_of("ConfigMap", {"metadata": metadata})
    document = raw.mapping(raw.mapping(run.get("status")).get("resultDocument"))
    return (
        child.owner_uid == raw.mapping(run.get("metadata")).get("uid")
        and child.role in RESULT_ROLES
        and (
            child.role != names.ROLE_RESULT
            or child.name == document.get("configMap")
        )
    )


def config_map_of(
    body: raw.Object,
) -> tuple[ArchivedConfigMap, dict[str, bytes]]:
    """Return the entry of a ConfigMap, and its files by name.

    Raises ValueError if its data can't be parsed or is too large.
    """
    metadata = raw.mapping(body.get("metadata"))
    held = raw.mapping(body.get("binaryData"))
    files: dict[str, ArchivedFile] = {}
    data: dict[str, bytes] = {}
    for key in _KEYS:
        if isinstance(text := held.get(key), str):
            content = base64.b64decode(text)
            files[key] = file_of(content, ".json.gz")
            data[files[key].name] = content
    kept = ArchivedConfigMap(
        name=raw.text(metadata.get("name")),
        labels=_own(metadata.get("labels")),
        annotations=_own(metadata.get("annotations")),
        files=files,
    )
    return kept, data


def _own(given: object) -> dict[str, str]:
    return {
        key: value
        for key, value in raw.mapping(given).items()
        if names.is_ours(key) and isinstance(value, str)
    }


def index_bytes(index: ArchiveIndex) -> bytes:
    """Return an index as JSON. Raises ValueError if it is too large."""
    data = _json(index.model_dump(mode="json", by_alias=True))
    if len(data) > MAX_INDEX_BYTES:
        raise ValueError(
            f"the index has {len(data)} bytes, the limit is {MAX_INDEX_BYTES}"
        )
    return data


def _json(value: object) -> bytes:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode(errors="replace")


def write_archive(
    run: raw.Object, config_maps: Iterable[raw.Object], put: Put
) -> str:
    """Write the archive of a run, one ConfigMap at a time and the index last.

    Return the index's SHA-256. Raises ValueError if an archive can't hold the run, and whatever
    `put` raises.
    """
    folder = folder_of(run)
    room = MAX_RUN_BYTES
    kept: list[ArchivedConfigMap] = []
    for body in config_maps:
        config_map, files = config_map_of(body)
        room -= sum(map(len, files.values()))
        if room < 0:
            raise ValueError(f"has more than {MAX_RUN_BYTES} bytes")
        for name, data in files.items():
            put(f"{folder}/{name}", data)
        kept.append(config_map)
    data = manifest_of(run)
    manifest = file_of(data, ".json")
    put(f"{folder}/{manifest.name}", data)
    metadata = raw.mapping(run.get("metadata"))
    ref = ArchivedRunRef(
        namespace=raw.text(metadata.get("namespace")),
        name=raw.text(metadata.get("name")),
        uid=raw.text(metadata.get("uid")),
        manifest=manifest,
    )
    index = index_bytes(ArchiveIndex(run=ref, config_maps=tuple(kept)))
    put(f"{folder}/{INDEX}", index)
    return hashlib.sha256(index).hexdigest()


def read_index(data: bytes) -> ArchiveIndex:
    """Read the index of an archive. Raises BadArchive."""
    try:
        body = from_json(data[: MAX_INDEX_BYTES + 1], allow_inf_nan=False)
    except ValueError as error:
        raise BadArchive(f"{INDEX} is not JSON: {error}") from None
    schema = raw.mapping(body).get("schema")
    if schema != ARCHIVE_SCHEMA:
        raise BadArchive(
            f"{INDEX} is not {ARCHIVE_SCHEMA}, but {str(schema)[:60]!r}"
        )
    try:
        with in_short():
            return ArchiveIndex.model_validate(body)
    except ValueError as error:
        raise BadArchive(f"{INDEX}: {error}") from None


# Returns the file of a name, of at most so many bytes. Raises FileNotFoundError or StoreError.
Read = Callable[[str, int], bytes]


class ArchivedRun:
    """A run in an archive. A file is read and checked only when it is needed."""

    def __init__(self, read: Read) -> None:
        """Read the index. Raises BadArchive, or what `read` raises."""
        self._read = read
        self.index = read_index(read(INDEX, MAX_INDEX_BYTES))

    def body(self) -> dict[str, Any]:
        """Return the run as the cluster had it. Raises BadArchive."""
        try:
            body = from_json(self._file(self.index.run.manifest))
        except ValueError as error:
            raise BadArchive(f"{self.index.run.manifest.name}: {error}") from None
        if not isinstance(body, dict) or self._names(body) != self._names(None):
            raise BadArchive("the manifest is of another run than the index")
        return body

    def _names(self, body: Mapping[str, object] | None) -> tuple[object, ...]:
        run = self.index.run
        if body is None:
            return run.namespace, run.name, run.uid
        metadata = raw.mapping(body.get("metadata"))
        return tuple(metadata.get(key) for key in ("namespace", "name", "uid"))

    def config_maps(self) -> Iterator[raw.Object]:
        """Yield the run's ConfigMaps as the cluster had them. Raises BadArchive."""
        return map(self._config_map, self.index.config_maps)

    def config_map(self, name: str) -> raw.Object | None:
        """Return the ConfigMap of a name; None if there is none. Raises BadArchive."""
        found = (each for each in self.index.config_maps if each.name == name)
        one = next(found, None)
        return None if one is None else self._config_map(one)

    def _config_map(self, kept: ArchivedConfigMap) -> raw.Object:
        run = self.index.run
        owner = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": run.name,
            "uid": run.uid,
            "controller": True,
        }
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "namespace": run.namespace,
                "name": kept.name,
                "labels": kept.labels,
                "annotations": kept.annotations,
                "ownerReferences": [owner],
            },
            "binaryData": {
                key: base64.b64encode(self._file(file)).decode()
                for key, file in kept.files.items()
            },
        }

    def _file(self, file: ArchivedFile) -> bytes:
        try:
            data = self._read(file.name, file.bytes)
        except FileNotFoundError:
            raise BadArchive(f"{file.name} is missing") from None
        if (
            len(data) != file.bytes
            or hashlib.sha256(data).hexdigest() != file.sha256
        ):
            raise BadArchive(f"{file.name} is not what was written")
        return data
