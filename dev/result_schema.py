"""The schema of the result document, and the page that says what the document is."""

import json
from typing import Any

from benchrun.api import (
    MAX_PACKED_RESULT_BYTES,
    MAX_RESULT_BYTES,
    RESULT_SCHEMA,
    VALIDATIONS,
    ResultDocument,
)

SCHEMA_FILE = "benchrun.result.v1.schema.json"
_MIB = 1024 * 1024


def result_schema_text() -> str:
    """Return the JSON schema; the same models always give the same bytes."""
    schema = _without_api_server_keys(
        ResultDocument.model_json_schema(mode="serialization")
    )
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_FILE,
    }
    return json.dumps(head | schema, indent=1, sort_keys=True) + "\n"


def _without_api_server_keys(value: Any) -> Any:
    """Return the schema without what only the API server reads."""
    if isinstance(value, list):
        return [_without_api_server_keys(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_api_server_keys(each)
        for key, each in value.items()
        if key != VALIDATIONS and not key.startswith("x-kubernetes-")
    }


def result_page() -> str:
    """Return the page of the result document as Markdown."""
    fields = ResultDocument.model_json_schema(mode="serialization")["properties"]
    rows = "".join(
        f"| `{name}` | {' '.join(field.get('description', '').split())} |\n"
        for name, field in fields.items()
    )
    return f"""\
# The result document

What benchrun found in a run, whole: `{RESULT_SCHEMA}`, JSON. It is written once, when the run has
ended. `status` holds a part of it, cut to 100 kB.

`benchrun export NAME --format result -o result.json` writes it. With `-f result.json` the commands
`get`, `report`, `export` and `compare` show the run without a cluster. Comparisons with a baseline
and the tables of sweeps are made of documents, too.

In the cluster it is in the ConfigMap that `status.resultDocument` names, under `result.json.gz`:

```bash
name=$(kubectl get bmr NAME -o jsonpath='{{.status.resultDocument.configMap}}')
kubectl get configmap "$name" -o jsonpath='{{.binaryData.result\\.json\\.gz}}' | base64 -d | gunzip
```

Another document has another name, so what a status refers to is never exchanged. Its SHA-256 and
its size, packed, are beside the name. The ConfigMap goes with the run; of what a finished run keeps
it is the last to be left out. Where the API server refuses it for ten minutes after the
measurement, the run ends without it: condition `Stored` says so.

A document has at most {MAX_RESULT_BYTES // _MIB} MiB, packed \
{MAX_PACKED_RESULT_BYTES // 1000} kB. Beyond that the least important lists are left out, and
`truncated` names them. It holds no clock's reading but those in `instants` and in the records: the
same records give the same bytes.

A reader of version 1 ignores fields that it does not know. A field never changes its meaning or
unit within a version; units are in names, latencies are milliseconds.

Its [JSON schema]({SCHEMA_FILE}) describes every field. At the top:

| Field | Description |
|---|---|
{rows}"""
