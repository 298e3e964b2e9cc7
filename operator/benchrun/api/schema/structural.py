"""Models made into structural OpenAPI v3 schemas, the only kind a CustomResourceDefinition takes.

JSON Schema as pydantic writes it has more, and in another form: it shares definitions by `$ref`, spells "optional" as a
union with null, and leaves out defaults made by a factory. A structural schema is a plain tree. Whatever has no place in that
tree is an error here, not something the API server finds out, or silently forgets.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, NoDefault
from pydantic_core import core_schema

Schema = dict[str, Any]

_KEPT = (
    "type", "format", "enum", "nullable", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems",
    "minProperties", "maxProperties",
)  # fmt: skip
_HANDLED = {
    "$ref", "anyOf", "title", "description", "default", "properties", "required", "items", "additionalProperties",
}  # fmt: skip
_NULL = {"type": "null"}


def structural_schema(model: type[BaseModel], *, defaults: bool) -> Schema:
    """The structural schema of a model, with the defaults the API server shall fill in, or with none.

    Raises ValueError, naming the field, for anything a structural schema cannot say.
    """
    raw = model.model_json_schema(by_alias=True, schema_generator=_WithFactoryDefaults)
    definitions: dict[str, Schema] = raw.pop("$defs", {})
    return _Translation(definitions, defaults=defaults).node(raw, path=model.__name__)


class _WithFactoryDefaults(GenerateJsonSchema):
    """Writes down defaults made by a factory too, as short as a user would write them: inner defaults fill the rest."""

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        if "default_factory" in schema and not schema.get("default_factory_takes_data"):
            return schema["default_factory"]()  # type: ignore[call-arg]
        return schema.get("default", NoDefault)

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, BaseModel):
            return dft.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return super().encode_default(dft)


class _Translation:
    """One walk over a JSON schema."""

    def __init__(self, definitions: dict[str, Schema], *, defaults: bool) -> None:
        self._definitions = definitions
        self._defaults = defaults

    def node(self, raw: Schema, *, path: str) -> Schema:
        raw, nullable = self._plain(raw, path=path)
        unknown = {
            key for key in raw if key not in _HANDLED and key not in _KEPT and not key.startswith("x-kubernetes-")
        }
        if unknown:
            raise ValueError(f"{path}: a structural schema has no place for {', '.join(sorted(unknown))}")
        out: Schema = {}
        if "description" in raw:
            out["description"] = " ".join(raw["description"].split())
        out |= {key: raw[key] for key in _KEPT if key in raw}
        out |= self._children(raw, path=path)
        out |= {key: value for key, value in sorted(raw.items()) if key.startswith("x-kubernetes-")}
        if nullable and "default" not in raw:
            out["nullable"] = True
        if self._defaults and raw.get("default") is not None and _is_meaningful(raw["default"], out):
            out["default"] = raw["default"]
        return out

    def _plain(self, raw: Schema, *, path: str) -> tuple[Schema, bool]:
        """Follow the reference and take null out of the union, until neither is left. What stands outside wins."""
        nullable = False
        while "$ref" in raw or "anyOf" in raw:
            outer = {key: value for key, value in raw.items() if key not in ("$ref", "anyOf")}
            if "$ref" in raw:
                inner = self._definitions[raw["$ref"].removeprefix("#/$defs/")]
            else:
                inner, null = _without_null(raw["anyOf"], path=path)
                nullable = nullable or null
            raw = _merged(inner, outer)
        return raw, nullable

    def _children(self, raw: Schema, *, path: str) -> Schema:
        out: Schema = {}
        if "properties" in raw:
            out["properties"] = {
                name: self.node(child, path=f"{path}.{name}") for name, child in raw["properties"].items()
            }
        if raw.get("required"):
            out["required"] = list(raw["required"])
        if "items" in raw:
            out["items"] = self.node(raw["items"], path=f"{path}[]")
        values = raw.get("additionalProperties")
        if isinstance(values, dict):
            out["additionalProperties"] = self.node(values, path=f"{path}{{}}")
        elif values is True and not raw.get("x-kubernetes-preserve-unknown-fields"):
            raise ValueError(f"{path}: a map must say what its values are")
        return out


def _without_null(members: list[Schema], *, path: str) -> tuple[Schema, bool]:
    others = [member for member in members if member != _NULL]
    if len(others) == 1:
        return others[0], len(others) < len(members)
    if sorted(member.get("type", "") for member in others) == ["integer", "string"]:
        bounds = {key: value for member in others for key, value in member.items() if key != "type"}
        return {"x-kubernetes-int-or-string": True, **bounds}, len(others) < len(members)
    raise ValueError(f"{path}: a structural schema has no unions but integer | string")


def _merged(inner: Schema, outer: Schema) -> Schema:
    """Outer keys win; the description of a field is followed by that of its type, and rules add up."""
    merged = inner | outer
    if "description" in inner and "description" in outer and inner["description"] != outer["description"]:
        merged["description"] = f"{outer['description']} {inner['description']}"
    rules = [*inner.get("x-kubernetes-validations", ()), *outer.get("x-kubernetes-validations", ())]
    if rules:
        merged["x-kubernetes-validations"] = rules
    return merged


def _is_meaningful(default: Any, node: Schema) -> bool:
    """Whether this default matters to a reader or a rule: `[]`, and `{}` with no defaults or rules within, do not."""
    if default == []:
        return False
    return (
        default != {}
        or "x-kubernetes-validations" in node
        or any("default" in child for child in node.get("properties", {}).values())
    )
