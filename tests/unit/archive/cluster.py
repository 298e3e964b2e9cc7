"""A cluster with runs and their ConfigMaps, over HTTP: what an archiver sees and does."""

import copy
from typing import Any
from urllib.parse import parse_qs

from benchrun.release.api_server import TABLE
from unit.release.api_server import METADATA, Cluster, Json

RUNS = "/apis/benchrun.dev/v1alpha1/benchmarkruns"


class ClusterWithRuns(Cluster):
    """Runs are listed as a table, ConfigMaps by metadata; both are read one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: dict[str, Json] = {}  # By namespace and name.
        self.config_maps: dict[str, Json] = {}
        self.written = 0
        self.columns = ["Name", "Archived"]  # Of the table; those of an older CRD.

    def add_run(self, body: Json, config_maps: tuple[Json, ...] = ()) -> Json:
        """Add a run with its ConfigMaps, as if operator and user had written them."""
        run = copy.deepcopy(body)
        meta = run["metadata"]
        meta["resourceVersion"] = "1"
        meta.setdefault("creationTimestamp", "2026-11-29T10:00:00Z")
        self.runs[f"{meta['namespace']}/{meta['name']}"] = run
        for each in config_maps:
            about = each["metadata"]
            self.config_maps[f"{about['namespace']}/{about['name']}"] = each
        return run

    def answer(
        self, verb: str, target: str, body: Json | None, accept: str
    ) -> tuple[int, Json]:
        path, _, query = target.partition("?")
        self.calls.append((verb, path, body))
        for (refused, beginning), status in self.refused.items():
            if refused == verb and path.startswith(beginning):
                return status, {"kind": "Status", "message": "refused"}
        asked = {key: values[0] for key, values in parse_qs(query).items()}
        _, _, rest = path.partition("/namespaces/")
        namespace, _, place = rest.partition("/")
        plural, _, name = place.partition("/")
        if path == RUNS or (plural == "benchmarkruns" and not name):
            assert accept == TABLE
            return 200, self._table(namespace)
        if plural == "configmaps" and not name:
            assert accept == METADATA
            return 200, self._labelled(namespace, asked["labelSelector"])
        held = self.runs if plural == "benchmarkruns" else self.config_maps
        key = f"{namespace}/{name.removesuffix('/status')}"
        if key not in held:
            return 404, {"kind": "Status"}
        if verb == "PATCH":
            return self._patched(held[key], name, body)
        return 200, held[key]

    def _table(self, namespace: str) -> Json:
        rows = [
            {
                "cells": [run["metadata"]["name"], archived(run).get("status")],
                "object": {"metadata": run["metadata"]},
            }
            for run in self.runs.values()
            if namespace in ("", run["metadata"]["namespace"])
        ]
        columns = [{"name": name} for name in self.columns]
        return {"kind": "Table", "columnDefinitions": columns, "rows": rows}

    def _labelled(self, namespace: str, selector: str) -> Json:
        label, _, value = selector.partition("=")
        found = [
            {"metadata": each["metadata"]}
            for each in self.config_maps.values()
            if each["metadata"]["namespace"] == namespace
            and each["metadata"]["labels"].get(label) == value
        ]
        return {"kind": "PartialObjectMetadataList", "items": found}

    def _patched(self, run: Json, name: str, body: Any) -> tuple[int, Json]:
        assert name.endswith("/status")
        meta = run["metadata"]
        if any(meta[key] != value for key, value in body["metadata"].items()):
            return 409, {"kind": "Status"}
        self.written += 1
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)
        run["status"] |= body["status"]
        return 200, run


def archived(run: Json) -> Json:
    """Return the condition Archived of a run; empty if it has none."""
    found = run["status"].get("conditions", ())
    return next((each for each in found if each["type"] == "Archived"), {})
