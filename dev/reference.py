"""The reference pages of runs and sweeps, made from the schemas that the API server uses."""

from collections.abc import Iterator, Sequence
from typing import Any

from benchrun.api import MUTABLE_FIELDS, VALIDATIONS
from benchrun.api.crd import RUN, SWEEP, Schema
from benchrun.api.sweep import spec as sweep
from benchrun.names import API_VERSION, CATEGORY, KIND, SHORT_NAME

_TABLE_HEAD = (
    "| Field | Type | Default | Bounds | Description |\n|---|---|---|---|---|"
)


def reference_text() -> str:
    """Return the page of runs as Markdown; the same models always give the same bytes."""
    name = (
        "A name has at most 40 characters and is a DNS label, since names of children are made "
        "from it."
    )
    intro = _intro(KIND, SHORT_NAME, name)
    instead = "a new measurement is a new object"
    return _page(
        intro,
        RUN.printer_columns(),
        RUN.spec_schema(),
        RUN.status_schema(),
        MUTABLE_FIELDS,
        instead,
    )


def sweep_reference_text() -> str:
    """Return the page of sweeps as Markdown.

    The template and the models in the matrix are described only on the page of runs.
    """
    name = (
        f"A name has at most {sweep.MAX_NAME} characters and is a DNS label, since its runs are "
        "named after it."
    )
    intro = _intro(
        sweep.KIND,
        sweep.SHORT_NAME,
        f"{name}\nHow to use it: [sweeps](../sweeps.md).",
    )
    spec = SWEEP.spec_schema()
    template = spec["properties"]["template"]["description"].removesuffix(".")
    fields = "Its fields are those of [`BenchmarkRun.spec`](benchmarkrun.md)."
    described = {"type": "object", "description": f"{template}. {fields}"}
    spec = {**spec, "properties": {**spec["properties"], "template": described}}
    columns = SWEEP.printer_columns()
    status = SWEEP.status_schema()
    return _page(
        intro,
        columns,
        spec,
        status,
        sweep.MUTABLE_FIELDS,
        "other variants are another sweep",
    )


def _intro(kind: str, short: str, name: str) -> str:
    return f"""\
# {kind}

API version `{API_VERSION}`, kind `{kind}`, short name `{short}`, category `{CATEGORY}`. \
The same text is shown by
`kubectl explain {short}.spec`. {name}

Decimals are strings (`"0.5"`, `"inf"`): specs hold no floats. \
`[]` stands for the entries of a list, `{{}}` for the values of
a map. A field whose default is a dash is simply absent when it is left out."""


def _page(
    intro: str,
    columns: list[dict[str, Any]],
    spec: Schema,
    status: Schema,
    mutable: Sequence[str],
    instead: str,
) -> str:
    """Return the page of a kind. `instead` says what to do if a field can't be changed."""
    shown = [
        f"| {column['name']} | `{column['jsonPath']}` | "
        f"{'`-o wide`' if column.get('priority') else 'always'} |"
        for column in columns
    ]
    may_change = ", ".join(f"`{name}`" for name in mutable)
    parts = [
        intro,
        "\n".join(
            [
                "## Columns of `kubectl get`",
                "",
                "| Column | Field | Shown |",
                "|---|---|---|",
                *shown,
            ]
        ),
        f"## `spec`\n\n{spec['description']} Once written only {may_change} may change; {instead}.",
        _rules(
            "spec",
            [
                rule
                for rule in spec[VALIDATIONS]
                if "immutable" not in rule["message"]
            ],
        ),
        *_sections(spec, path="spec"),
        f"## `status`\n\n{status['description']}",
        *_sections(status, path="status"),
    ]
    return "\n\n".join(parts) + "\n"


def _sections(schema: Schema, *, path: str) -> Iterator[str]:
    """Yield a section for all plain fields, then one for each field that has fields of its own."""
    required = schema.get("required", ())
    plain = {
        name: child
        for name, child in schema["properties"].items()
        if not _fields_of(child)
    }
    rows = [
        _row(f"{path}.{name}", child, required=name in required)
        for name, child in plain.items()
    ]
    yield "\n".join([_TABLE_HEAD, *rows])
    for name, child in schema["properties"].items():
        if name not in plain:
            yield _section(f"{path}.{name}", child, required=name in required)


def _section(path: str, schema: Schema, *, required: bool) -> str:
    rows = [_row(path, schema, required=required), *_rows_below(path, schema)]
    text = "\n".join([f"### `{path}`", "", _TABLE_HEAD, *rows])
    rules = [_rules(where, found) for where, found in _rules_below(path, schema)]
    return "\n\n".join([text, "\n".join(rules)]) if rules else text


def _rows_below(path: str, schema: Schema) -> Iterator[str]:
    inner, suffix = _inner(schema)
    for name, child in inner.get("properties", {}).items():
        below = f"{path}{suffix}.{name}"
        yield _row(below, child, required=name in inner.get("required", ()))
        yield from _rows_below(below, child)


def _rules_below(
    path: str, schema: Schema
) -> Iterator[tuple[str, list[dict[str, str]]]]:
    if VALIDATIONS in schema:
        yield path, schema[VALIDATIONS]
    inner, suffix = _inner(schema)
    if suffix:
        yield from _rules_below(f"{path}{suffix}", inner)
        return
    for name, child in inner.get("properties", {}).items():
        yield from _rules_below(f"{path}.{name}", child)


def _rules(path: str, rules: list[dict[str, str]]) -> str:
    return "\n".join(
        f"- `{path}{rule.get('fieldPath', '')}`: {rule['message']}."
        for rule in rules
    )


def _row(path: str, schema: Schema, *, required: bool) -> str:
    default = (
        "**required**"
        if required
        else _code(schema["default"])
        if "default" in schema
        else "-"
    )
    cells = (
        f"`{path}`",
        _type(schema),
        default,
        _bounds(schema),
        schema.get("description", ""),
    )
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _inner(schema: Schema) -> tuple[Schema, str]:
    """Return the schema of the items of a list or a map, and how a path shows that.

    The suffix is "[]" for a list, "{}" for a map, and empty for any other schema, returned
    unchanged.
    """
    if "items" in schema:
        return schema["items"], "[]"
    if "additionalProperties" in schema:
        return schema["additionalProperties"], "{}"
    return schema, ""


def _fields_of(schema: Schema) -> Schema:
    inner, suffix = _inner(schema)
    fields: Schema = inner.get("properties", {})
    return fields if fields or not suffix else _fields_of(inner)


def _type(schema: Schema) -> str:
    inner, suffix = _inner(schema)
    if suffix:
        return f"{'list' if suffix == '[]' else 'map'} of {_type(inner)}"
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    return str(schema.get("type", "any"))


def _bounds(schema: Schema) -> str:
    """Describe the bounds of a field, then the bounds of its items."""
    inner, suffix = _inner(schema)
    own = [
        " or ".join(f"`{value}`" for value in schema.get("enum", ())),
        _range(schema, "minimum", "maximum", ""),
        _range(schema, "minLength", "maxLength", " characters"),
        _range(schema, "minItems", "maxItems", " entries"),
        _range(schema, "minProperties", "maxProperties", " entries"),
        f"`{schema['pattern']}`" if "pattern" in schema else "",
        schema.get("format", ""),
        *(
            f"`{key}` differs"
            for key in schema.get("x-kubernetes-list-map-keys", ())
        ),
        "no duplicates" if schema.get("x-kubernetes-list-type") == "set" else "",
    ]
    text = ", ".join(bound for bound in own if bound)
    each = "" if not suffix or "properties" in inner else _bounds(inner)
    return f"{text}; each: {each}" if each else text


def _range(schema: Schema, low: str, high: str, unit: str) -> str:
    if low in schema and schema.get(high) == schema[low]:
        return f"exactly {schema[low]}{unit}"
    if low in schema and high in schema:
        return f"{schema[low]} to {schema[high]}{unit}"
    if high in schema:
        return f"at most {schema[high]}{unit}"
    return f"at least {schema[low]}{unit}" if low in schema else ""


def _code(value: Any) -> str:
    return f"`{_flow(value)}`"


def _flow(value: Any) -> str:
    """Format a default as one line of YAML."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(_flow(inner) for inner in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
