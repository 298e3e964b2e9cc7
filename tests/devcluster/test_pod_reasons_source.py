"""The list of reasons why a pod does not start is what the source of Kubernetes has, which is in Go's
module cache once the devcluster was built."""

from pathlib import Path
from subprocess import run

import pytest
import yaml

LIST = Path(__file__).parents[1] / "unit/observe/pod-reasons-1.36.yaml"
REASONS: dict[str, dict[str, list[str]]] = yaml.safe_load(LIST.read_text())
RELEASES = {
    "k8s.io/kubernetes": "v1.36.3",
    "k8s.io/cri-api": "v0.36.3",
    "k8s.io/api": "v0.36.3",
}
PUT_TOGETHER = " (missing"  # in the source, of two texts


@pytest.mark.parametrize(
    ("kind", "file"), [(k, f) for k in REASONS for f in REASONS[k]]
)
def test_the_list_is_what_the_source_has(kind: str, file: str) -> None:
    module = next(
        (each for each in RELEASES if file.startswith(f"{each}/")),
        "k8s.io/kubernetes",
    )
    asked = run(
        ["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True
    )
    root = Path(asked.stdout.strip()) / f"{module}@{RELEASES[module]}"
    source = (root / file.removeprefix(f"{module}/")).read_text()
    listed = [each for each in REASONS[kind][file] if PUT_TOGETHER not in each]
    assert [each for each in listed if f'"{each}"' not in source] == []
