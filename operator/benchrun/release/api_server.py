"""Requests of `release` and `archive` to the API server, none of which raises an exception.

Lists are read in such a way that the objects of one namespace can't keep others from being read.
"""

import json
import os
import ssl
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from itertools import islice
from time import monotonic
from typing import Any

import httpx
from kubernetes.client.configuration import Configuration
from kubernetes.config import (
    ConfigException,
    load_incluster_config,
    load_kube_config,
)

Json = dict[str, Any]
Codes = tuple[int, ...]
QueryParameters = dict[str, str]
JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# the columns of `kubectl get`, and metadata
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PATCH_TYPE = "application/merge-patch+json"
CHUNK_BYTES = 65_536
# most chunks of a page, 10 MiB; parsed, it takes twelve times as much
MAX_CHUNKS = 160
SECONDS = 10.0  # most seconds of one request
PAGE = 64  # objects on a page; one of them can be made as large as 9 MB of JSON
# seconds for all lists; each may take an equal part of what is left
LISTS_SECONDS = 60.0
SHARE_SECONDS = 0.25
"""Seconds for the objects of one namespace in a list. A namespace that takes longer is read last.
"""


def path_of(kind: str, namespace: str, name: str = "") -> str:
    """Return the URL path of an object, or of all objects of its kind.

    Without a namespace it is the path for all namespaces.
    """
    version, plural = kind.split(" ")
    return f"/{version}{namespace and f'/namespaces/{namespace}'}/{plural}{name and f'/{name}'}"


def mapping(value: object) -> Json:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def listing(value: object) -> list[Any]:
    """Return the value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


class Api:
    """The API server, reached with this pod's service account or with the kubeconfig.

    Failures are printed and counted; no method raises an exception.
    """

    failures = 0
    now = 0
    """Time of the last answer by the API server's clock, as Unix seconds; 0 if no answer had a
    time."""

    def __init__(self, lists: int, seconds: float | None = None) -> None:
        self._lists = lists
        self._until = monotonic() + (LISTS_SECONDS if seconds is None else seconds)
        self._found = Configuration()
        load = (
            load_incluster_config
            if "KUBERNETES_SERVICE_HOST" in os.environ
            else load_kube_config
        )
        try:
            load(client_configuration=self._found)
            trusted = ssl.create_default_context(cafile=self._found.ssl_ca_cert)
            self._trust = (
                trusted
                if self._found.verify_ssl
                else httpx.create_ssl_context(verify=False)
            )
            if self._found.cert_file:
                self._trust.load_cert_chain(
                    self._found.cert_file, self._found.key_file
                )
        except (ConfigException, OSError) as error:
            raise SystemExit(
                "no way to reach an API server: neither a service account nor a kubeconfig: "
                f"{error}"
            ) from error

    def fail(self, why: str) -> None:
        """Print and count a failure."""
        self.failures += 1
        print(why)

    def request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        expected: Codes = (),
        *,
        accept: str = JSON,
        query: QueryParameters | None = None,
    ) -> Json:
        """Send one request and return the answer's JSON object; empty if there is none.

        A status in `expected` is not counted as a failure.
        """
        try:
            token = self._found.get_api_key_with_prefix(
                "BearerToken", alias="authorization"
            )
            headers = {"Accept": accept, "Accept-Encoding": "identity"}
            headers |= {"Authorization": token} if token else {}
            headers |= {"Content-Type": PATCH_TYPE} if method == "PATCH" else {}
            with (
                httpx.stream(
                    method,
                    self._found.host + path,
                    params=query,
                    json=body,
                    headers=headers,
                    timeout=SECONDS,
                    verify=self._trust,
                    trust_env=False,  # as in the operator: no proxy stands before an API server
                ) as answer
            ):
                self.now = _told(answer.headers.get("Date", "")) or self.now
                # A text that is cut off is not JSON, and so a failure.
                text = b"".join(islice(answer.iter_raw(CHUNK_BYTES), MAX_CHUNKS))
            status = answer.status_code
            found = mapping(json.loads(text)) if answer.is_success else {}
        except (
            ConfigException,
            httpx.HTTPError,
            httpx.InvalidURL,
            OSError,
            ValueError,
            RecursionError,
        ) as error:
            status = 0
            text = repr(error).encode()
            found = {}
        if not found and status not in expected:
            self.fail(f"{method} {path}: {status or 'failed'}: {text[:300]!r}")
        return found

    def objects(
        self,
        kind: str,
        namespace: str,
        expected: Codes = (),
        *,
        accept: str,
        query: QueryParameters,
    ) -> Iterator[Json]:
        """Yield the objects of a kind that can be read within an equal share of the time.

        An object may be yielded twice.
        """
        now = monotonic()
        until = now + (self._until - now) / max(self._lists, 1)
        self._lists -= 1
        if namespace:
            pages = self._pages(
                path_of(kind, namespace), expected, accept, query, until
            )
        else:
            pages = self._pages_everywhere(kind, expected, accept, query, until)
        for page in pages:
            yield from page

    def _pages_everywhere(
        self,
        kind: str,
        expected: Codes,
        accept: str,
        query: QueryParameters,
        until: float,
    ) -> Iterator[list[Json]]:
        """Yield pages of the objects of all namespaces.

        A namespace whose objects take long is left out from then on, and read after the others. So
        its objects can't keep those of other namespaces from being read.
        """
        path = path_of(kind, "")
        slow = list[str]()
        fields = [query["fieldSelector"]] if "fieldSelector" in query else []
        while True:
            others = [f"metadata.namespace!={name}" for name in slow]
            selected = ",".join([*fields, *others])
            wanted = query | ({"fieldSelector": selected} if selected else {})
            greedy = None
            spent = dict[str, float]()
            began = monotonic()
            for page in self._pages(path, expected, accept, wanted, until):
                yield page
                seconds = monotonic() - began
                began = monotonic()
                for name in map(_namespace_of, page):
                    spent[name] = spent.get(name, 0.0) + seconds / len(page)
                greedy = next(
                    (name for name in spent if spent[name] > SHARE_SECONDS), None
                )
                if greedy:
                    slow.append(greedy)
                    break
            if not greedy:
                break
        for number, name in enumerate(slow):
            now = monotonic()
            share = now + (until - now) / (len(slow) - number)
            yield from self._pages(
                path_of(kind, name), expected, accept, query, share
            )

    def _pages(
        self,
        path: str,
        expected: Codes,
        accept: str,
        query: QueryParameters,
        until: float,
    ) -> Iterator[list[Json]]:
        limit = PAGE
        token = ""
        failures = self.failures
        while monotonic() <= until:
            wanted = (
                query
                | {"limit": str(limit)}
                | ({"continue": token} if token else {})
            )
            page = self.request(
                "GET", path, None, expected, accept=accept, query=wanted
            )
            if self.failures > failures and limit > 1:
                limit = limit // 8 or 1
                self.failures = failures  # the object may have been too large
                continue
            limit = min(2 * limit, PAGE)
            yield _items(page)
            token = str(mapping(page.get("metadata")).get("continue") or "")
            if not token:
                return
        self.fail(f"GET {path}: only a part of the list could be read in time")


def _items(page: Json) -> list[Json]:
    """Return the objects of a page; of a table their metadata, and `cells` by column."""
    if "rows" not in page:
        return [mapping(item) for item in listing(page.get("items"))]
    defined = map(mapping, listing(page.get("columnDefinitions")))
    columns = [str(each.get("name")) for each in defined]
    return [
        mapping(row.get("object"))
        | {"cells": dict(zip(columns, listing(row.get("cells")), strict=False))}
        for row in map(mapping, listing(page["rows"]))
    ]


def _namespace_of(item: Json) -> str:
    return str(mapping(item.get("metadata")).get("namespace"))


def _told(date: str) -> int:
    try:
        return max(int(parsedate_to_datetime(date).timestamp()), 0)
    except (ValueError, TypeError, OverflowError):
        return 0
