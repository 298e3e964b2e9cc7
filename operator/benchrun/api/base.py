"""Building blocks of the API models.

Names in camelCase, models that reject unknown fields, rules between fields, decimals as strings,
and text that is safe to show.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import Annotated, Any, ClassVar, Self, TypeVar
from zlib import crc32

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from benchrun.api.spec_rules import RULE_FUNCTIONS

_ACRONYMS = {
    "ignore_eos": "ignoreEOS",
    "share_gpt": "shareGPT",
    "p99_ttft": "p99TTFT",
    "throughput_per_gpu": "throughputPerGPU",
    "mean_tpot_ms": "meanTPOTMs",
    "per_gpu_hour": "perGPUHour",
    "no_gpu_telemetry_reason": "noGPUTelemetryReason",
}


def json_name(name: str) -> str:
    """Return the name of a field in JSON: `maxConcurrency` for `max_concurrency`.

    Known acronyms are in capitals: `ignoreEOS` for `ignore_eos`.
    """
    return _ACRONYMS.get(name) or to_camel(name)


T = TypeVar("T")
VALIDATIONS = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule about a value that a type alone can't express.

    A rule stands in a model's `rules`, or in a field's `Annotated` type. It is written once, in
    CEL; `make crds` translates it to a Python function. So the operator checks it too, because an
    object may be older than the rule.
    """

    cel: str  # True where the rule is kept; `self` is the value.
    message: str
    cel_message: str | None = None
    """CEL for a message with figures in it; the API server uses `message` if that CEL fails."""
    path: str | None = None  # Field below the value that the API server shall name.

    def check(self, value: T) -> T:
        """Return the value if it keeps the rule.

        Else raise PydanticCustomError with the rule's message.
        """
        if RULE_FUNCTIONS[crc32(self.cel.encode())](value):
            return value
        text = (
            RULE_FUNCTIONS[crc32(self.cel_message.encode())](value)
            if self.cel_message
            else self.message
        )
        raise PydanticCustomError(
            "rule", "{text}", {"text": text, "path": self.path or ""}
        )

    def entry(self) -> dict[str, str]:
        """Return the rule as one entry of `x-kubernetes-validations`."""
        full = {
            "rule": self.cel,
            "message": self.message,
            "messageExpression": self.cel_message,
            "fieldPath": self.path,
        }
        return {name: value for name, value in full.items() if value is not None}

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            self.check, handler(source)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        json_schema = handler(schema)
        json_schema[VALIDATIONS] = [*json_schema.get(VALIDATIONS, ()), self.entry()]
        return json_schema


def refused(text: str, path: str = "") -> PydanticCustomError:
    """Build the error of a validator; its message is shown unchanged.

    `path` is the field below the value that is wrong.
    """
    return PydanticCustomError("rule", "{text}", {"text": text, "path": path})


def exactly_one(*names: str) -> Rule:
    """Build the rule that exactly one of these fields, given by their Python names, is set."""
    members = [json_name(name) for name in names]
    if len(members) == 2:
        cel = f"has(self.{members[0]}) != has(self.{members[1]})"
    else:
        cel = f"[{', '.join(f'has(self.{member})' for member in members)}].filter(x, x).size() == 1"
    return Rule(
        cel=cel,
        message=f"must set exactly one of {', '.join(members[:-1])} and {members[-1]}",
    )


@dataclass(frozen=True, slots=True)
class Unique:
    """A list without duplicates.

    Duplicates are equal entries, or entries with the same value of the field `key`.
    """

    key: str | None = None

    def check(self, entries: list[T]) -> list[T]:
        """Return the list if nothing is in it twice; else raise PydanticCustomError."""
        values = (
            entries
            if self.key is None
            else [getattr(entry, self.key) for entry in entries]
        )
        if len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            raise PydanticCustomError(
                "duplicate", "{twice} is listed twice", {"twice": repr(twice)}
            )
        return entries

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            self.check, handler(source)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(schema) | (SET if self.key is None else list_map(self.key))


# A list that is applied as a whole.
ATOMIC: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}
SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}
"""A list without duplicates, whose entries may have different owners."""


def list_map(key: str) -> dict[str, Any]:
    """Build the schema keys of a list whose entries differ in one of their fields.

    The entries may have different owners.
    """
    return {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [json_name(key)],
    }


def entries(
    most: int, description: str | None = None, *, key: str | None = None
) -> Any:
    """Build the field of a list of at most `most` entries, empty by default.

    With a key the list is a map by that key; without one it is applied as a whole.
    """
    kind = ATOMIC if key is None else list_map(key)
    return Field(
        default_factory=list,
        max_length=most,
        description=description,
        json_schema_extra=kind,
    )


@cache
def _notes(module: str) -> dict[tuple[str, str], str]:
    """Return the string that stands below each field of a module, by class and field name."""
    found = {}
    classes = (
        each
        for each in ast.walk(ast.parse(inspect.getsource(sys.modules[module])))
        if isinstance(each, ast.ClassDef)
    )
    for each in classes:
        for lines in pairwise(each.body):
            match lines:
                case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(
                    value=ast.Constant(value=str(note))
                ):
                    found[each.name, field] = note
    return found


class _Model(BaseModel):
    """Base of the models of spec and status: camelCase in JSON, immutable.

    A field is described by its `description`, or by the string below it. That string is read only
    when a schema is made; pydantic's `use_attribute_docstrings` would read it at every start.
    """

    model_config = ConfigDict(
        alias_generator=json_name, populate_by_name=True, frozen=True
    )
    rules: ClassVar[tuple[Rule, ...]] = ()  # What must hold between the fields.

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        json_schema = handler(schema)
        resolved = handler.resolve_ref_schema(json_schema)
        for name, field in cls.model_fields.items():
            notes = (
                _notes(each.__module__).get((each.__name__, name))
                for each in cls.__mro__
                if issubclass(each, _Model)
            )
            if note := next(filter(None, notes), None):
                resolved["properties"][field.alias].setdefault("description", note)
        if cls.rules:
            resolved[VALIDATIONS] = [rule.entry() for rule in cls.rules]
        return json_schema


class SpecModel(_Model):
    """Base of everything a user writes: unknown fields and wrong types refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        for rule in self.rules:
            rule.check(self)
        return self


class StatusModel(_Model):
    """Base of what the operator writes: unknown fields of a newer operator ignored."""

    model_config = ConfigDict(extra="ignore")


NUMBER = "'^(inf|[0-9]+([.][0-9]+)?)$'"
"""Text that CEL's double() accepts. The API server evaluates rules also on text that breaks its
pattern, and a rule in which double() fails gives no message."""
ABOVE_ZERO = Rule(
    cel=f"!self.matches({NUMBER}) || double(self) > 0.0", message="must be above 0"
)
AT_MOST_100 = Rule(
    cel=f"!self.matches({NUMBER}) || double(self) <= 100.0",
    message="must be at most 100",
)

Decimal = Annotated[
    str, Field(max_length=24, pattern=r"^[0-9]{1,12}(\.[0-9]{1,6})?$")
]
"""A non-negative decimal as a string: specs hold no floats."""
PositiveDecimal = Annotated[Decimal, ABOVE_ZERO]
Rate = Annotated[
    str,
    Field(max_length=24, pattern=r"^(inf|[0-9]{1,9}(\.[0-9]{1,6})?)$"),
    ABOVE_ZERO,
]
"""Requests a second: a decimal above 0, or "inf" for all at once."""
Percentile = Annotated[
    str, Field(max_length=6, pattern=r"^[0-9]{1,2}(\.[0-9]{1,3})?$"), ABOVE_ZERO
]
"""A percentile between 0 and 100, both left out, for example "99" or "99.9"."""
DIFFERENT_NUMBERS = Rule(
    cel=(
        f"self.all(a, !a.matches({NUMBER}) || self.exists_one(b, b.matches({NUMBER}) && double(a) "
        "== double(b)))"
    ),
    message="must differ from one another as numbers",
)
DnsLabel = Annotated[
    str,
    Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
]
WorkloadName = Annotated[DnsLabel, Field(max_length=40)]
ObjectName = Annotated[
    str,
    Field(
        min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
    ),
]
NameOrNone = Annotated[
    str, Field(max_length=253, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$")
]
"""Name of an object; empty: none, also where the platform has a default."""
Key = Annotated[
    str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")
]
Text = Annotated[str, Field(min_length=1, max_length=1024)]


class _Shallow:
    """A value that is nested at most `MAX_DEPTH` lists and objects deep."""

    @staticmethod
    def check(value: T) -> T:
        """Return the value if it is shallow enough; else raise PydanticCustomError."""
        level: list[Any] = [value]
        for _ in range(MAX_DEPTH):
            level = [inner for outer in level for inner in _inside(outer)]
            if not level:
                return value
        raise PydanticCustomError(
            "depth", "must not be nested more than {most} deep", {"most": MAX_DEPTH}
        )

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            self.check, handler(source)
        )


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


MAX_DEPTH = 64
"""Most levels of lists and objects. Kubernetes' own types have a dozen; pydantic writes at most
255."""
KubernetesValue = Annotated[
    Any, _Shallow(), WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})
]
KubernetesObject = Annotated[dict[str, KubernetesValue], Field(max_length=32)]
"""A fragment of Kubernetes' own types, checked by the API server when the child is made.

It is a map of unknown values, and not an unknown object: in an unknown object, the API server's CEL
does not notice that one key was replaced by another, and the spec must be immutable. """


MESSAGE_BYTES = 1000  # A message stands in up to nine conditions at once.

_OBEYED = re.compile(
    # What terminals take as commands: colours and the cursor; the window's title, links, the
    # clipboard; the rest.
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b[]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]{0,8}[0-~]?"
    # Control characters but tab and line feed, what turns the direction of writing, and halves of
    # characters.
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f"
    r"\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
    r"\ud800-\udfff]"
)


def plain_text(text: str) -> str:
    """Remove everything from a text that a terminal would take as a command.

    This removes control characters (but not tab and line feed), escape sequences, and marks that
    change the direction of writing.
    """
    return _OBEYED.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def sentence(text: str) -> str:
    """Return the beginning of a text, as plain text of at most 1,000 bytes."""
    data = plain_text(text).encode()
    kept = data if len(data) <= MESSAGE_BYTES else data[: MESSAGE_BYTES - 3]
    return kept.decode(errors="ignore") + ("" if kept is data else "…")


def as_many_as_fit(
    given: Iterable[T], size_of: Callable[[T], int], room: int
) -> list[T]:
    """Return the first items, as many as fit into `room` together."""
    each = list(given)
    return [
        item
        for item, upto in zip(each, accumulate(map(size_of, each)), strict=True)
        if upto <= room
    ]


def is_gpu(resource: str) -> bool:
    """Return whether the resource is a GPU, a whole device or a slice, of any vendor.

    Examples are `nvidia.com/gpu`, `nvidia.com/mig-1g.10gb` and `gpu.intel.com/i915`.
    """
    return (
        resource.endswith(("/gpu", ".gpu"))
        or "/mig-" in resource
        or resource.startswith("gpu.")
    )


def first_problem(error: ValidationError, *, root: str = "spec") -> str:
    """Describe the first problem with its path below `root`, and say how many more there are."""
    problem = error.errors(include_url=False, include_input=False)[0]
    parts = without_branch(problem["loc"])
    # A rule is about a field below the object that has it.
    path = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts
    ) + problem.get("ctx", {}).get("path", "")
    more = error.error_count() - 1
    return f"{root}{path}: {problem['msg']}" + (
        f" (and {more} more)" if more else ""
    )


def without_branch(location: Sequence[int | str]) -> Sequence[int | str]:
    """Remove from an error's location the union branch that pydantic adds, such as `int`.

    Such a branch is not a field.
    """
    members = ("int", "str", "constrained-int", "constrained-str")
    return location[:-1] if location and location[-1] in members else location
