"""Values that a definition's schema describes: of the right types and within their bounds. Most
keep the rules between fields, some break one."""

import random
import re
from typing import Any

from benchrun.api.base import VALIDATIONS
from benchrun.api.crd import Schema
from fuzz.mutations import Path, paths_of, replaced
from unit.api.agreement import keeps_its_rules

_TEXTS = [
    "1",
    "2",
    "4",
    "8",
    "0.5",
    "1.5",
    "2.0",
    "99",
    "50",
    "99.9",
    "100",
    "inf",
    "1000",
    "0",
    "1e3",
    "5m",
    "16Gi",
    "512Mi",
    "1k",
    "a",
    "b",
    "w",
    "chat",
    "m",
    "EUR",
    "Auto",
    "auto",
    "vllm/vllm-openai:v0.32.0",
    "org/model",
    "/models/m",
    "/data/rows",
    "https://data.example/rows",
    "http://llm",
    "http://llm.example:8000",
    "rows.jsonl",
    "question",
    "llm-0",
    "eu-central-1",
    "A",
    "VLLM_SERVER_DEV_MODE",
    "nvidia.com/gpu",
    "HF_TOKEN",
    "RateNotAchieved",
    "ClientSaturated",
    "--max-num-seqs=64",
    "--max-model-len=4096",
    "-tp",
    "2",
    "{{x}}",
    "main",
    "{model}",
]
_FRAGMENTS: tuple[Any, ...] = (
    {},
    [],
    "text",
    7,
    True,
    {"emptyDir": {}},
    {"name": "v", "hostPath": {"path": "/"}},
    {"name": "v", "mountPath": "/v"},
    {"secretKeyRef": {"name": "s", "key": "k"}},
    {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
    [{"key": "nvidia.com/gpu", "operator": "Exists"}],
)
_KEYS = (
    "cpu",
    "memory",
    "nvidia.com/gpu",
    "secretKeyRef",
    "configMapKeyRef",
    "a",
    "b",
)
_PAIR = re.compile(r"has\(self\.(\w+)\) != has\(self\.(\w+)\)$")
_ONE_OF = re.compile(
    r"\[(has\(self\.\w+\)(?:, )?)+\]\.filter\(x, x\)\.size\(\) [<=]= 1"
)
_RARELY_LEFT_OUT = {"load", "dataset"}
_RARELY_CHOSEN = {
    *("mix", "timedTrace", "traceSpeeds", "batchSizes", "offline", "sessions")
}
"""They ask for others elsewhere in the spec."""
MANY = 20
"""Entries of a list that is long, where so many may be."""
ATTEMPTS = 4


def _unions(schema: Schema) -> list[set[str]]:
    """Members of each union of the object, of which exactly one is to be there."""
    rules = [rule["rule"] for rule in schema.get(VALIDATIONS, ())]
    pairs = [set(found.groups()) for rule in rules if (found := _PAIR.search(rule))]
    lists = [rule for rule in rules if _ONE_OF.fullmatch(rule)]
    return pairs + [set(re.findall(r"self\.(\w+)", rule)) for rule in lists]


def _schema_at(schema: Schema, path: Path) -> Schema:
    for step in path:
        if isinstance(step, int):
            schema = schema.get("items", {})
        else:
            others = schema.get("additionalProperties", {})
            schema = schema.get("properties", {}).get(step, others)
    return schema


class Drawing:
    """Draws values of schemas from one generator."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._texts: dict[tuple[str, int, int], list[str]] = {}

    def like(self, example: Any, schema: Schema) -> Any:
        """The example with one to four of its parts drawn anew."""
        for _ in range(self._rng.choice([1, 1, 2, 3, 4])):
            path = self._rng.choice(list(paths_of(example))[1:])
            example = replaced(example, path, self.value(_schema_at(schema, path)))
        return example

    def value(self, schema: Schema) -> Any:
        """A value of the schema. Of several attempts the first that keeps the schema's own rules;
        once in sixteen times the first, whatever it is."""
        rules = schema.get(VALIDATIONS, ())
        for _ in range(1 if self._rng.random() < 1 / 16 else ATTEMPTS):
            found = self._any(schema)
            if not rules or keeps_its_rules(found, schema):
                break
        return found

    def _any(self, schema: Schema) -> Any:
        if "enum" in schema:
            return self._rng.choice(schema["enum"])
        either = (
            ["integer", "string"]
            if schema.get("x-kubernetes-int-or-string")
            else None
        )
        kind = (
            self._rng.choice(either) if either else schema.get("type", "fragment")
        )
        return getattr(self, f"_{kind}")(schema)

    def _object(self, schema: Schema) -> dict[str, Any]:
        if "additionalProperties" in schema:
            fewest = schema.get("minProperties", 0)
            count = min(
                schema["maxProperties"], max(fewest, self._rng.choice([0, 1, 2]))
            )
            names = self._rng.sample(_KEYS, k=count)
            return {
                name: self.value(schema["additionalProperties"]) for name in names
            }
        fields = schema.get("properties", {})
        required = schema.get("required", ())
        share = self._rng.choice([0.0, 0.0, 0.1, 0.1, 0.3, 0.6])
        usual = {*required, *_RARELY_LEFT_OUT}
        drawn = {
            name for name in fields if name in usual or self._rng.random() < share
        }
        for members in _unions(schema):
            usual_members = sorted(members - _RARELY_CHOSEN or members)
            drawn = (drawn - members) | {self._rng.choice(usual_members)}
            if self._rng.random() < 1 / 8:
                drawn = (drawn - members) | {self._rng.choice(sorted(members))}
        return {name: self.value(fields[name]) for name in fields if name in drawn}

    def _array(self, schema: Schema) -> list[Any]:
        fewest = schema.get("minItems", 0)
        most = schema.get("maxItems", MANY)
        count = self._rng.choice([1] * 20 + [2] * 8 + [3, fewest, MANY])
        found = [
            self.value(schema["items"])
            for _ in range(max(fewest, min(most, count)))
        ]
        if schema.get("x-kubernetes-list-type") == "set":
            return [
                each
                for place, each in enumerate(found)
                if each not in found[:place]
            ]
        keys = schema.get("x-kubernetes-list-map-keys", ())
        return [
            {
                **each,
                **dict.fromkeys(keys, f"{self._text_of_keys(each, keys)}{place}"),
            }
            if len(found) > 1 and len(keys) == 1
            else each
            for place, each in enumerate(found)
        ]

    def _text_of_keys(self, entry: dict[str, Any], keys: list[str]) -> str:
        return str(entry.get(keys[0], "a"))[:30]

    def _string(self, schema: Schema) -> str:
        pattern = schema.get("pattern", "")
        fewest = schema.get("minLength", 0)
        most = schema.get("maxLength", 4096)
        found = self._texts.setdefault((pattern, fewest, most), [])
        if not found:
            longest = [each * most for each in "a1/"]
            cut = [each[:most] for each in (*_TEXTS, "", *longest)]
            found += [
                each
                for each in cut
                if len(each) >= fewest and re.search(pattern, each)
            ]
            assert found, f"no text for {pattern}"
        return self._rng.choice(found)

    def _integer(self, schema: Schema) -> int:
        low = schema.get("minimum", -(2**31))
        high = schema.get("maximum", 2**31)
        drawn = self._rng.choice(
            [low, high, 1, 2, 3, 8, 60, 100, schema.get("default", 5)]
        )
        return int(max(low, min(high, drawn)))

    def _boolean(self, _: Schema) -> bool:
        return self._rng.random() < 0.5

    def _fragment(self, _: Schema) -> Any:
        return self._rng.choice(_FRAGMENTS)
