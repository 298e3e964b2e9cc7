"""Every example for a GPU runs as it is where a namespace has a LimitRange, quotas, and restricted
Pod Security; and every manifest in the docs asks for CPU and memory."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.api import BenchmarkRunSpec
from benchrun.api.sweep import KIND as SWEEP, BenchmarkSweepSpec
from benchrun.names import KIND
from benchrun.plan import planned_variants
from kit.every_case import every
from kit.restricted_scc import pods_of
from kit.strict_namespace import AMOUNTS, MOST_RATIO, problems, quantity
from unit.api.examples import EXAMPLES, Example
from unit.plan.objects import objects
from unit.plan.specs import OWNER

ROOT = Path(__file__).parents[3]
DEVELOPMENT = ":dev"
"""Tag of images that only the embedded cluster has."""


def specs_of(example: Example) -> list[BenchmarkRunSpec]:
    body = example.body["spec"]
    if example.kind == SWEEP:
        swept = BenchmarkSweepSpec.model_validate(body)
        return [variant.spec for variant in planned_variants(swept)]
    return [BenchmarkRunSpec.model_validate(body)]


def pods_by_kind(example: Example) -> Iterator[tuple[bool, dict[str, Any]]]:
    """Yield each pod, and whether its run's images can be pulled on a cluster with GPUs."""
    for spec in specs_of(example):
        image = "" if spec.started is None else spec.started.image
        for made in objects(OWNER, spec):
            for pod in pods_of(made):
                yield not image.endswith(DEVELOPMENT), pod


BENCHMARKS = [
    pytest.param(each, id=f"{each.file}:{each.name}")
    for each in EXAMPLES
    if each.kind in (KIND, SWEEP)
]


@every("example", BENCHMARKS)
def test_every_pod_of_an_example_is_admitted_by_a_strict_namespace(
    example: Example,
) -> None:
    pods = list(pods_by_kind(example))
    assert pods
    for is_for_gpus, pod in pods:
        found = problems(pod)
        # On the embedded cluster a limit beside the measured client would show in the figures.
        limits = ".limits."
        assert [each for each in found if is_for_gpus or limits not in each] == []


def test_there_are_examples_for_gpus_and_for_the_embedded_cluster() -> None:
    kinds = [
        kind
        for each in EXAMPLES
        if each.kind in (KIND, SWEEP)
        for kind, _ in pods_by_kind(each)
    ]
    assert {True, False} == set(kinds)


SECURITY = {
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
ENOUGH = {
    "requests": {"cpu": "500m", "memory": "1Gi"},
    "limits": {"cpu": "2", "memory": "4Gi"},
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"resources": {"limits": ENOUGH["limits"]}}, []),
        (
            {"resources": {"requests": ENOUGH["requests"]}},
            ["c.limits.cpu", "c.limits.memory"],
        ),
        (
            {"resources": {**ENOUGH, "limits": {"cpu": "2001m", "memory": "4Gi"}}},
            ["c.ratio.cpu"],
        ),
        (
            {"resources": {**ENOUGH, "limits": {"cpu": "2", "memory": "512Mi"}}},
            ["c.ratio.memory"],
        ),
        (
            {"securityContext": {**SECURITY, "runAsUser": 0}},
            ["c.runAsUser", "c.runAsNonRoot"],
        ),
        (
            {"securityContext": {**SECURITY, "runAsNonRoot": False}},
            ["c.runAsNonRoot"],
        ),
        (
            {
                "securityContext": {
                    k: v for k, v in SECURITY.items() if k != "seccompProfile"
                }
            },
            ["c.seccompProfile"],
        ),
    ],
)
def test_what_a_strict_namespace_refuses(
    changes: dict[str, Any], expected: list[str]
) -> None:
    container = {
        "name": "c",
        "resources": ENOUGH,
        "securityContext": SECURITY,
        **changes,
    }
    assert problems({"containers": [container]}) == expected
    assert MOST_RATIO == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500m", 0.5),
        ("2", 2),
        (1, 1),
        ("1Ki", 1024),
        ("1.5G", 1.5e9),
        ("2Ti", 2**41),
    ],
)
def test_a_quantity_is_a_number(text: str | int, expected: float) -> None:
    assert quantity(text) == expected


PAGES = [
    ROOT / "README.md",
    ROOT / "charts/benchrun/Chart.yaml",
    ROOT / "charts/benchrun/templates/NOTES.txt",
    *sorted((ROOT / "docs").rglob("*.md")),
]
AMOUNTS_IN_A_LINE = [
    pytest.param(yaml.safe_load(found[1]), id=f"{page.name}:{number}")
    for page in PAGES
    for number, line in enumerate(page.read_text().splitlines(), start=1)
    if (found := re.search(r"resources: (\{.*/gpu: \d+\}\})", line)) is not None
]


def test_every_page_that_gives_a_gpu_is_read() -> None:
    """No other notation hides one: each has its amounts in one line."""
    given = [
        f"{page.name}: {line}"
        for page in PAGES
        for line in page.read_text().splitlines()
        if re.search(r"limits: .*/gpu: \d", line)
    ]
    assert len(given) == len(AMOUNTS_IN_A_LINE) > 5


@pytest.mark.parametrize("amounts", AMOUNTS_IN_A_LINE)
def test_a_manifest_of_the_docs_that_takes_a_gpu_gives_cpu_and_memory(
    amounts: dict[str, Any],
) -> None:
    assert set(AMOUNTS) <= amounts["limits"].keys()
