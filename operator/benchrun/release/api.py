"""The API server as a release needs it, by a client that the operator does not use."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from urllib3.exceptions import HTTPError

Json = dict[str, Any]
Codes = tuple[int, ...]
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
OPTIONS: Json = {"timeout": 10.0, "redirect": False, "preload_content": False}
MAX_BYTES = 32 * 1024 * 1024
PAGE, MAX_PAGES = 10, 1_000
"""Small pages: the metadata of one object can be made to be 3 MB of JSON."""


def mapping(value: object) -> Json:
    """The value where it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


class Api:
    """By this pod's service account, or by the kubeconfig. What fails is printed and counted, and raises nothing."""

    failures = 0

    def __init__(self) -> None:
        self._found = Configuration()
        load = load_incluster_config if "KUBERNETES_SERVICE_HOST" in os.environ else load_kube_config
        try:
            load(client_configuration=self._found)
            self._pool = RESTClientObject(self._found).pool_manager  # it knows certificates and proxies
        except (ConfigException, HTTPError, OSError) as error:
            raise SystemExit(f"no way to reach an API server: {error}") from error

    def request(self, method: str, path: str, body: Json | None = None, expected: Codes = (), **query: str) -> Json:
        """The answer, metadata only where it is a list's; empty where there is none, no failure with an expected status."""
        try:
            token = self._found.get_api_key_with_prefix("BearerToken", alias="authorization")
            headers = {"Accept": METADATA if query else "application/json"} | (
                {"Authorization": token} if token else {}
            )
            url = self._found.host + path
            answer = self._pool.request(method, url, fields=query or None, json=body, headers=headers, **OPTIONS)
            status, text = answer.status, answer.read(MAX_BYTES)  # what is cut off there is not JSON
            found = mapping(json.loads(text)) if status < 300 else {}
        except (ConfigException, HTTPError, OSError, ValueError, RecursionError) as error:
            status, text, found = 0, repr(error).encode(), {}
        if not found and status not in expected:
            self.failures += 1
            print(f"{method} {path}: {status or 'failed'}: {text[:300]!r}")
        return found

    def metadata(self, path: str, expected: Codes = (), **query: str) -> Iterator[Json]:
        """Metadata of all objects of a collection, as far as they can be read."""
        query["limit"] = str(PAGE)
        for _ in range(MAX_PAGES):
            page = self.request("GET", path, None, expected, **query)
            yield from (mapping(mapping(item).get("metadata")) for item in page.get("items") or ())
            query["continue"] = str(mapping(page.get("metadata")).get("continue") or "")
            if not query["continue"]:
                return
        self.failures += 1
        print(f"GET {path}: more than {MAX_PAGES * PAGE} objects; the others were not read")
