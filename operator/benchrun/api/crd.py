"""The CustomResourceDefinitions, made from the models.

The API server checks the same as pydantic does in the operator. pydantic's JSON Schema shares
definitions by `$ref`, writes "optional" as a union with null, and leaves out defaults made by a
factory. A structural schema is a plain tree; anything that it can't express is an error here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, NoDefault
from pydantic_core import core_schema

from benchrun.api.base import VALIDATIONS, SpecModel, StatusModel
from benchrun.api.spec import MUTABLE_FIELDS, BenchmarkRunSpec
from benchrun.api.status import BenchmarkRunStatus
from benchrun.api.sweep import BenchmarkSweepStatus, spec as sweep
from benchrun.names import (
    CATEGORY,
    GROUP,
    KIND,
    MAX_RUN_NAME,
    PLURAL,
    SHORT_NAME,
    VERSION,
)

Schema = dict[str, Any]

_KEPT = (
    "type",
    "format",
    "enum",
    "nullable",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
)
_HANDLED = {
    "title",
    "description",
    "default",
    "properties",
    "required",
    "items",
    "additionalProperties",
}


def structural_schema(model: type[BaseModel], *, defaults: bool) -> Schema:
    """Return the structural schema of a model, with defaults for the API server or without.

    Raise ValueError, naming the field, for anything that a structural schema cannot say.
    """
    raw = model.model_json_schema(
        by_alias=True, schema_generator=_WithFactoryDefaults
    )
    return _Translation(raw.pop("$defs", {}), defaults).node(
        raw, path=model.__name__
    )


class _WithFactoryDefaults(GenerateJsonSchema):
    """A JSON Schema generator that also writes down defaults made by a factory.

    They are as short as a user would write them: inner defaults fill the rest.
    """

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        if "default_factory" in schema and not schema.get(
            "default_factory_takes_data"
        ):
            return schema["default_factory"]()  # type: ignore[call-arg]
        return schema.get("default", NoDefault)

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, BaseModel):
            return dft.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return super().encode_default(dft)

    def nullable_schema(self, schema: core_schema.NullableSchema) -> Schema:
        return self.generate_inner(schema["schema"]) | {"nullable": True}


@dataclass(frozen=True, slots=True)
class _Translation:
    """The translation of one JSON schema to a structural schema."""

    definitions: dict[str, Schema]
    defaults: bool

    def node(self, raw: Schema, *, path: str) -> Schema:
        while "$ref" in raw or "anyOf" in raw:
            outer = {
                key: value
                for key, value in raw.items()
                if key not in ("$ref", "anyOf")
            }
            ref = raw.get("$ref", "").removeprefix("#/$defs/")
            raw = _merged(
                self.definitions[ref]
                if ref
                else _integer_or_string(raw["anyOf"], path=path),
                outer,
            )
        unknown = {
            key
            for key in raw
            if key not in _HANDLED
            and key not in _KEPT
            and not key.startswith("x-kubernetes-")
        }
        if unknown:
            raise ValueError(
                f"{path}: {', '.join(sorted(unknown))} can't be expressed in a structural schema"
            )
        out: Schema = {}
        if "description" in raw:
            out["description"] = " ".join(raw["description"].split())
        out |= {key: raw[key] for key in _KEPT if key in raw}
        out |= self._children(raw, path=path)
        out |= {
            key: value
            for key, value in sorted(raw.items())
            if key.startswith("x-kubernetes-")
        }
        if "default" in raw:
            out.pop("nullable", None)
        if (
            self.defaults
            and raw.get("default") is not None
            and _is_meaningful(raw["default"], out)
        ):
            out["default"] = raw["default"]
        return out

    def _children(self, raw: Schema, *, path: str) -> Schema:
        out: Schema = {}
        if "properties" in raw:
            out["properties"] = {
                name: self.node(child, path=f"{path}.{name}")
                for name, child in raw["properties"].items()
            }
        if raw.get("required"):
            out["required"] = list(raw["required"])
        if "items" in raw:
            out["items"] = self.node(raw["items"], path=f"{path}[]")
        values = raw.get("additionalProperties")
        if isinstance(values, dict):
            out["additionalProperties"] = self.node(values, path=f"{path}{{}}")
        elif values is True and not raw.get("x-kubernetes-preserve-unknown-fields"):
            raise ValueError(
                f"{path}: a map of values without a type; give dict[str, ...] a value type"
            )
        return out


def _integer_or_string(members: list[Schema], *, path: str) -> Schema:
    if sorted(member.get("type", "") for member in members) != [
        "integer",
        "string",
    ]:
        raise ValueError(
            f"{path}: a union of other types than integer and string, which a structural schema "
            "can't express"
        )
    bounds = {
        key: value
        for member in members
        for key, value in member.items()
        if key != "type"
    }
    return {"x-kubernetes-int-or-string": True, **bounds}


def _merged(inner: Schema, outer: Schema) -> Schema:
    """Merge the schema of a type with that of its field.

    Keys of the field replace keys of the type. The type's description is appended to the field's,
    and the rules of both apply.
    """
    merged = inner | outer
    if (
        "description" in inner
        and "description" in outer
        and inner["description"] != outer["description"]
    ):
        merged["description"] = f"{outer['description']} {inner['description']}"
    rules = [
        *inner.get("x-kubernetes-validations", ()),
        *outer.get("x-kubernetes-validations", ()),
    ]
    if rules:
        merged["x-kubernetes-validations"] = rules
    return merged


def _is_meaningful(default: Any, node: Schema) -> bool:
    """Return whether this default matters to a reader or a rule.

    `[]` does not, nor does `{}` with no defaults or rules within.
    """
    if default == []:
        return False
    return (
        default != {}
        or "x-kubernetes-validations" in node
        or any("default" in child for child in node.get("properties", {}).values())
    )


_DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""Children are named after the object, and the name of a Service must be a DNS label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The definition of one of the API's kinds."""

    kind: str
    plural: str
    short_name: str
    max_name: int
    description: str
    noun: str  # What messages call an object of it.
    spec: type[SpecModel]
    mutable_fields: Sequence[str]
    status: type[StatusModel]
    changes: Sequence[
        dict[str, str]
    ] = ()  # Rules about change that need the status as well.
    # Of `kubectl get`: heading, path and description.
    columns: Sequence[tuple[str, str, str]]
    # Columns shown only with `-o wide`.
    wide_columns: Sequence[tuple[str, str, str]]

    @property
    def name(self) -> str:
        """Return the name of the CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"

    def manifest(self) -> dict[str, Any]:
        """Return the whole manifest, ready to be written as YAML.

        Keys come in the order that a reader expects.
        """
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {
                    "kind": self.kind,
                    "listKind": f"{self.kind}List",
                    "plural": self.plural,
                    "singular": self.kind.lower(),
                    "shortNames": [self.short_name],
                    "categories": [CATEGORY],
                },
                "versions": [
                    {
                        "name": VERSION,
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "additionalPrinterColumns": self.printer_columns(),
                        "selectableFields": _selectable(self.status),
                        "schema": {"openAPIV3Schema": self.root_schema()},
                    }
                ],
            },
        }

    def root_schema(self) -> Schema:
        """Return the schema of the object as a whole."""
        name = {"type": "string", "maxLength": self.max_name, "pattern": _DNS_LABEL}
        return {
            "description": self.description,
            "type": "object",
            "required": ["spec"],
            "properties": {
                "apiVersion": {
                    "type": "string",
                    "description": f"Version of this schema: {GROUP}/{VERSION}.",
                },
                "kind": {"type": "string", "description": f"Always {self.kind}."},
                "metadata": {"type": "object", "properties": {"name": name}},
                "spec": self.spec_schema(),
                "status": self.status_schema(),
            },
        } | ({VALIDATIONS: [*self.changes]} if self.changes else {})

    def spec_schema(self) -> Schema:
        """Return the schema of `spec`.

        It has a rule for every field that may not change, and one for the one-way switch `cancel`.
        """
        schema = structural_schema(self.spec, defaults=True)
        schema[VALIDATIONS] += [
            _immutable(name, required=name in schema["required"], noun=self.noun)
            for name in schema["properties"]
            if name not in self.mutable_fields
        ]
        never_back = f"cancel can't be taken back; create a new {self.noun}"
        schema[VALIDATIONS].append(
            _transition(
                "!oldSelf.cancel || self.cancel", never_back, path=".cancel"
            )
        )
        return schema

    def status_schema(self) -> Schema:
        """Return the schema of `status`.

        Its one default marks an object that no operator has seen yet.
        """
        return structural_schema(self.status, defaults=False) | {
            "default": {"observedGeneration": -1}
        }

    def printer_columns(self) -> list[dict[str, Any]]:
        """Return the columns of `kubectl get`; columns of priority 1 come with `-o wide`."""
        columns, wide_columns = (
            [
                {
                    "name": name,
                    "type": "string",
                    "jsonPath": path,
                    "description": text,
                }
                for name, path, text in group
            ]
            for group in (self.columns, self.wide_columns)
        )
        age = {
            "name": "Age",
            "type": "date",
            "jsonPath": ".metadata.creationTimestamp",
        }
        return [
            *columns,
            age,
            *(column | {"priority": 1} for column in wide_columns),
        ]


_SELECTABLE = ("phase", "verdict")
"""Fields of the status that `kubectl get --field-selector` selects by.

Both are texts of few values. An API server keeps each object's value of them beside its key, so
that a watch of one value is not sent the other objects.
"""


def _selectable(status: type[StatusModel]) -> list[dict[str, str]]:
    """Return the selectable fields of a kind. Raise KeyError if its status lacks one."""
    return [
        {"jsonPath": f".status.{status.model_fields[name].alias or name}"}
        for name in _SELECTABLE
    ]


def _immutable(name: str, *, required: bool, noun: str) -> dict[str, str]:
    same = f"self.{name} == oldSelf.{name}"
    both = (
        f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || {same})"
    )
    return _transition(
        same if required else both,
        f"spec.{name} is immutable; create a new {noun}",
        path=f".{name}",
    )


def _transition(cel: str, message: str, *, path: str) -> dict[str, str]:
    """Build a rule that uses oldSelf. It has no Python function, which sees only one object."""
    return {"rule": cel, "message": message, "fieldPath": path}


def _only_lowered(name: str) -> dict[str, str]:
    """Build the rule that an accepted run's deadline is only lowered.

    How long a server may be held without an operator is written on the server when it is created.
    So a deadline that is raised later would have no effect there.
    """
    is_free = "!has(oldSelf.status) || !has(oldSelf.status.acceptedTime)"
    is_over = "has(oldSelf.status.completionTime)"
    old = f"oldSelf.spec.{name}"
    new = f"self.spec.{name}"
    is_lower = f"{old} == 0 || ({new} > 0 && {new} <= {old})"
    return _transition(
        f"{is_free} || {is_over} || {is_lower}",
        f"spec.{name} can only be lowered once the run is accepted: suspend it before its server "
        "exists, or create a new run",
        path=f".spec.{name}",
    )


RUN = Definition(
    kind=KIND,
    plural=PLURAL,
    short_name=SHORT_NAME,
    max_name=MAX_RUN_NAME,
    description=(
        "A benchmark of one LLM server as an object: server, traffic, measurement and verdict."
    ),
    noun="run",
    spec=BenchmarkRunSpec,
    mutable_fields=MUTABLE_FIELDS,
    status=BenchmarkRunStatus,
    changes=tuple(
        map(_only_lowered, ("startupDeadlineSeconds", "runDeadlineSeconds"))
    ),
    columns=(
        ("Phase", ".status.phase", "Current phase of the run."),
        (
            "Progress",
            ".status.progress.summary",
            "Stages measured, out of all stages.",
        ),
        ("Verdict", ".status.verdict", "Whether the numbers can be trusted."),
        (
            "Answer",
            ".status.answer",
            "Whether objectives are met, and a figure regressed.",
        ),
        (
            "Tok/s",
            ".status.headline.throughput",
            "Output tokens a second at the best load point.",
        ),
        (
            "P99 TTFT",
            ".status.headline.p99TTFT",
            "Time to first token at that load point, in milliseconds.",
        ),
    ),
    wide_columns=(
        ("Load point", ".status.headline.loadPoint", "The best load point."),
        (
            "Version",
            ".status.servers[0].version",
            "Version of the server, as it reports it.",
        ),
        ("GPU", ".status.servers[0].gpu", "GPU model."),
        (
            "Archived",
            '.status.conditions[?(@.type=="Archived")].status',
            "Whether the run is in an archive outside the cluster.",
        ),
        ("Ended", ".status.completionTime", "When the run ended."),
        (
            "TTL",
            ".spec.ttlSecondsAfterFinished",
            "Seconds it is kept after its end.",
        ),
        (
            "Observed",
            ".status.observedGeneration",
            "Generation of the spec that the operator has acted on.",
        ),
        (
            "Document",
            ".status.resultDocument.configMap",
            "ConfigMap of the result document.",
        ),
        ("Message", ".status.message", "What the run waits for, or why it ended."),
    ),
)
SWEEP = Definition(
    kind=sweep.KIND,
    plural=sweep.PLURAL,
    short_name=sweep.SHORT_NAME,
    max_name=sweep.MAX_NAME,
    description=(
        "A benchmark in many variants: runs that differ in what is swept, and the table that "
        "compares them."
    ),
    noun="sweep",
    spec=sweep.BenchmarkSweepSpec,
    mutable_fields=sweep.MUTABLE_FIELDS,
    status=BenchmarkSweepStatus,
    columns=(
        ("Phase", ".status.phase", "Current phase of the sweep."),
        ("Runs", ".status.runs.summary", "Ended runs, out of all runs."),
        ("Verdict", ".status.verdict", "Whether the numbers can be trusted."),
        (
            "Best",
            ".status.best[0].variant",
            "Variant with the highest throughput in the first workload.",
        ),
    ),
    wide_columns=(
        (
            "Baseline",
            ".status.baseline",
            "Variant that the others are compared with.",
        ),
        ("Message", ".status.message", "What happens now, or why the sweep ended."),
    ),
)
