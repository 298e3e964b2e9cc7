"""Every whole object of ours that a page spells out is one that the API takes."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from benchrun.api import BenchmarkRunSpec
from benchrun.api.sweep import KIND as SWEEP, BenchmarkSweepSpec
from benchrun.names import API_VERSION, KIND
from pydantic import BaseModel

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```yaml\n(.*?)^```|<<'?YAML'?\n(.*?)^YAML$", re.MULTILINE | re.DOTALL)
OURS: Mapping[str, type[BaseModel]] = {KIND: BenchmarkRunSpec, SWEEP: BenchmarkSweepSpec}


def objects(page: Path) -> Iterator[dict[str, Any]]:
    """Every Kubernetes object on the page; a function's parameters stand for a number."""
    for match in BLOCK.finditer(page.read_text()):
        text = re.sub(r"\$\d", "64", match[1] or match[2])
        if re.search(r"^apiVersion:", text, re.MULTILINE):
            yield from yaml.safe_load_all(text)


def named(page: Path, body: dict[str, Any]) -> str:
    return f"{page.relative_to(ROOT)}:{body['kind']}:{next(iter(body['metadata'].values()))}"


FOUND = {named(page, body): body for page in PAGES for body in objects(page)}
OF_US = {name: body for name, body in FOUND.items() if str(body["apiVersion"]).startswith("benchrun.dev/")}
OF_KUBERNETES = {name: body for name, body in FOUND.items() if name not in OF_US}


@pytest.mark.parametrize("body", OF_US.values(), ids=OF_US)
def test_every_inline_manifest_is_valid(body: dict[str, Any]) -> None:
    assert body["apiVersion"] == API_VERSION
    assert OURS[body["kind"]].model_validate(body["spec"])


@pytest.mark.parametrize("body", OF_KUBERNETES.values(), ids=OF_KUBERNETES)
def test_other_objects_are_kubernetes_own(body: dict[str, Any]) -> None:
    kubernetes_validate.validate(body, kubernetes_validate.latest_version(), strict=True)


def test_the_pages_that_spell_out_runs_are_read() -> None:
    pages = {name.partition(":")[0] for name in OF_US}
    assert {"README.md", "docs/tutorial.md", "docs/recipes.md"} <= pages
