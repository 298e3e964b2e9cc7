"""The API server as a release needs it, by a client that the operator does not use."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator
from itertools import islice
from typing import Any

import httpx
from kubernetes.client.configuration import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

Json = dict[str, Any]
Codes = tuple[int, ...]
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
CHUNK_BYTES, MAX_CHUNKS, SECONDS = 65_536, 512, 10.0
PAGE, MAX_PAGES = 10, 1_000  # small pages: the metadata of one object can be made to be 3 MB of JSON


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
            trusted = ssl.create_default_context(cafile=self._found.ssl_ca_cert)
            self._trust = trusted if self._found.verify_ssl else httpx.create_ssl_context(verify=False)
            if self._found.cert_file:
                self._trust.load_cert_chain(self._found.cert_file, self._found.key_file)
        except (ConfigException, OSError) as error:
            raise SystemExit(f"no way to reach an API server: {error}") from error

    def request(self, method: str, path: str, body: Json | None = None, expected: Codes = (), **query: str) -> Json:
        """The answer, metadata only where it is a list's; empty where there is none, no failure with an expected status."""
        try:
            token = self._found.get_api_key_with_prefix("BearerToken", alias="authorization")
            headers = {"Accept": METADATA if query else "application/json", "Accept-Encoding": "identity"}
            headers |= {"Authorization": token} if token else {}
            options: Json = {"params": query or None, "json": body, "headers": headers, "timeout": SECONDS}
            with httpx.stream(method, self._found.host + path, verify=self._trust, **options) as answer:
                text = b"".join(islice(answer.iter_raw(CHUNK_BYTES), MAX_CHUNKS))  # what is cut off is no JSON
            status, found = answer.status_code, mapping(json.loads(text)) if answer.is_success else {}
        except (ConfigException, httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, RecursionError) as error:
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
