"""Every answer that the experiments' page names is there: objects and workloads in the manifests of
its section, fields in the CRDs, tables and columns in the report, codes and words in the judge,
flags in vLLM."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from kit.every_case import every
from unit.api.examples import EXAMPLES, Example

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "experiments" / "README.md"
PACKAGE = ROOT / "operator" / "benchrun"
CLIENT = ROOT / "client-image" / "benchrun_client"
FLAGS = PACKAGE / "preflight" / "vllm_flags" / "0.32.0.json"
SAYING = ("report", "cli", "judge", "api", "measure")
"""Packages whose texts people read."""


class Answer(NamedTuple):
    """A row of one of the tables."""

    section: str
    question: str
    text: str


def answers() -> Iterator[Answer]:
    section = ""
    for line in PAGE.read_text().partition("## Every question")[2].splitlines():
        if line.startswith("### "):
            section = line.removeprefix("### ")
        load_points = [
            load_point.strip() for load_point in line.strip("|").split(" | ")
        ]
        if line.startswith("| ") and load_points[0] not in (
            "question or table",
            "option or tool",
        ):
            assert len(load_points) == 3, line
            yield Answer(section, load_points[0].strip("`"), load_points[1])


ANSWERS = list(answers())


def linked(answer: Answer) -> set[str]:
    """Files of examples that a row or the head of its section names."""
    return set(re.findall(r"examples/([a-z0-9.-]+\.yaml)", PAGE.read_text())) & {
        *re.findall(r"([a-z0-9.-]+\.yaml)", answer.section + answer.text)
    }


def objects(answer: Answer) -> list[Example]:
    return [each for each in EXAMPLES if each.file in linked(answer)]


@cache
def texts() -> frozenset[str]:
    """Every text in the code of those packages, and of the client."""
    found: set[str] = set()
    for folder in (*(PACKAGE / package for package in SAYING), CLIENT):
        for file in sorted(folder.rglob("*.py")):
            nodes = ast.walk(ast.parse(file.read_text()))
            found |= {
                node.value
                for node in nodes
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
    return frozenset(found)


@cache
def schemas() -> tuple[dict[str, Any], ...]:
    files = sorted((ROOT / "crds").glob("*.yaml"))
    versions = [
        yaml.load(file.read_bytes(), yaml.CSafeLoader)["spec"]["versions"][0]
        for file in files
    ]
    return tuple(version["schema"]["openAPIV3Schema"] for version in versions)


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    children = [*schema.get("properties", {}).values(), schema.get("items")]
    more = schema.get("additionalProperties")
    for child in [*children, more]:
        if isinstance(child, dict):
            yield from nodes(child)


@cache
def every_node() -> tuple[dict[str, Any], ...]:
    return tuple(node for schema in schemas() for node in nodes(schema))


@cache
def enums() -> frozenset[str]:
    return frozenset(
        str(value) for node in every_node() for value in node.get("enum", ())
    )


def is_field(path: str) -> bool:
    """Whether these names lie below each other somewhere in a spec or a status. Of a map of figures
    any name is one that the code has."""
    names = path.replace("[]", "").split(".")
    return any(_leads(node, names) for node in every_node())


def _leads(node: dict[str, Any], names: list[str]) -> bool:
    if not names:
        return True
    first, *rest = names
    node = node.get("items", node)
    if first in node.get("properties", {}):
        return _leads(node["properties"][first], rest)
    return bool(node.get("additionalProperties")) and not rest and first in texts()


@cache
def flags() -> frozenset[str]:
    listed = json.loads(FLAGS.read_text())
    return frozenset(re.findall(r"--[a-z0-9-]+", json.dumps(listed)))


OWN_FLAGS = frozenset(
    {"--wide", "--markdown", "--length", "--serve", "--gpu-memory"}
)
# Of older versions, or of the client: the row says what stands in their place.
OTHERS = frozenset(
    {
        "--disable-log-requests",
        "--logprobs",
        "--min-p",
        "--metadata",
        "--use-beam-search",
    }
)
COMMANDS = re.compile(
    r"benchrun (get|report|check|export|kv-cache)\b|kv-cache\b|make [a-z-]+"
)


def is_there(span: str, answer: Answer) -> bool:
    """Whether what stands in backquotes is something of ours, or of vLLM."""
    if span.startswith("--"):
        return all(
            flag in flags() | OWN_FLAGS | OTHERS
            for flag in re.findall(r"--[a-z0-9-]+", span)
        )
    if COMMANDS.match(span):
        return True
    named = {each.name for each in EXAMPLES}
    if re.fullmatch(r"e[1-4]-[a-z0-9-]+", span):
        return span in named
    if span.startswith("{") or ": {" in span:
        words = re.findall(r"[A-Za-z_]+", span)
        return all(is_field(word) or f"{{{word}}}" in span for word in words)
    return (
        span in texts()
        or span in enums()
        or span in named
        or span in sent_by(answer)
        or is_field(span)
        or span in flags()
        or f"--{span}" in flags()
    )


def sent_by(answer: Answer) -> set[str]:
    """Workloads and variants of the manifests of this row."""
    found: set[str] = set()
    for example in objects(answer):
        spec = example.body.get("spec", {})
        found |= {
            w["name"] for w in spec.get("template", spec).get("workloads", ())
        }
        found |= {
            each["name"] for each in spec.get("matrix", {}).get("variants", ())
        }
    return found


# What is no name in code: values, and words of other tools.
WORDS = frozenset({"nsys", "...-at-once", "USD/Mtok"})


@every("answer", ANSWERS, ids=lambda a: a.question[:40])
def test_what_a_row_names_exists(answer: Answer) -> None:
    plain = re.sub(r"\]\([^)]*\)", "]", answer.text)
    spans = {span.strip('"') for span in re.findall(r"`([^`]+)`", plain)}
    unknown = {span for span in spans - WORDS if not is_there(span, answer)}
    assert unknown == set()


@every("answer", ANSWERS, ids=lambda a: a.question[:40])
def test_a_table_that_a_row_names_is_one_of_the_report(answer: Answer) -> None:
    plain = re.sub(r"\]\([^)]*\)", "]", answer.text)
    titles = re.findall(r"(?<!\*)\*([A-Z][^*]+)\*", plain)
    said = [text.lower() for text in texts()]
    for title in titles:
        # Numbers of a sentence stand for themselves.
        first = re.split(r" [A-Z] |\bN\b", title)[0].strip().lower()
        assert any(first in text for text in said), title


def test_every_object_of_a_manifest_is_named_in_its_section() -> None:
    for number in (1, 2, 3, 4):
        (file,) = {
            e.file
            for e in EXAMPLES
            if e.file.startswith(f"e{number}-")
            and not e.file.endswith("-tiny.yaml")
        }
        of_section = " ".join(
            answer.section + answer.text
            for answer in ANSWERS
            if file in answer.section
        )
        for each in EXAMPLES:
            if each.file == file and each.kind != "ConfigMap":
                assert each.name in of_section, each.name


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "experiments").glob("w*.md"))
)
def test_each_page_says_what_its_document_got_wrong(page: Path) -> None:
    assert re.search(r"## What this document got wrong\n\n- \*", page.read_text())
