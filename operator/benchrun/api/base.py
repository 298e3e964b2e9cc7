"""Shared building blocks of the API models: casing, closedness, decimals written as strings."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, WithJsonSchema, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from benchrun.api.casing import json_name
from benchrun.api.rules import VALIDATIONS, Rule

GROUP = "benchrun.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "BenchmarkRun"
PLURAL = "benchmarkruns"
SHORT_NAME = "bmr"
CATEGORY = "benchrun"


class SpecModel(BaseModel):
    """Base of everything a user writes: camelCase on the wire, unknown fields and wrong types refused, immutable."""

    model_config = ConfigDict(
        alias_generator=json_name, populate_by_name=True, extra="forbid", frozen=True, strict=True
    )
    rules: ClassVar[tuple[Rule, ...]] = ()
    """What must hold between the fields."""

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        for rule in self.rules:
            rule.check(self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        json_schema = handler(schema)
        if cls.rules:
            handler.resolve_ref_schema(json_schema)[VALIDATIONS] = [rule.entry() for rule in cls.rules]
        return json_schema


class StatusModel(BaseModel):
    """Base of what the operator writes: camelCase, unknown fields of a newer operator ignored, immutable."""

    model_config = ConfigDict(alias_generator=json_name, populate_by_name=True, extra="ignore", frozen=True)


NUMBER = "'^(inf|[0-9]+([.][0-9]+)?)$'"
"""What CEL's double() takes. The API server runs rules on what breaks its pattern too, and a failing double() is no message."""
ABOVE_ZERO = Rule(
    cel=f"!self.matches({NUMBER}) || double(self) > 0.0", holds=lambda text: float(text) > 0, message="must be above 0"
)

Decimal = Annotated[str, Field(max_length=24, pattern=r"^[0-9]{1,12}(\.[0-9]{1,6})?$")]
"""A non-negative decimal as a string: specs hold no floats."""
PositiveDecimal = Annotated[Decimal, ABOVE_ZERO]
Rate = Annotated[str, Field(max_length=24, pattern=r"^(inf|[0-9]{1,9}(\.[0-9]{1,6})?)$"), ABOVE_ZERO]
"""Requests a second: a decimal above 0, or "inf" for all at once."""
Percentile = Annotated[str, Field(max_length=6, pattern=r"^[0-9]{1,2}(\.[0-9]{1,3})?$"), ABOVE_ZERO]
"""A percentile between 0 and 100, both left out, for example "99" or "99.9"."""
DIFFERENT_NUMBERS = Rule(
    cel=f"self.all(a, !a.matches({NUMBER}) || self.exists_one(b, b.matches({NUMBER}) && double(a) == double(b)))",
    holds=lambda texts: len({float(text) for text in texts}) == len(texts),
    message="must differ from one another as numbers",
)
DnsLabel = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Key = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
Text = Annotated[str, Field(min_length=1, max_length=1024)]
KubernetesValue = Annotated[Any, WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})]
KubernetesObject = Annotated[dict[str, KubernetesValue], Field(max_length=32)]
"""A fragment of Kubernetes' own types, checked by the API server when the child is made.

A map of unknown values, not an unknown object: of the latter the API server's CEL does not notice when a key is exchanged
for another, and the spec must be immutable.
"""
