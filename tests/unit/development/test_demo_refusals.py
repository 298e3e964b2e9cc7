"""What `dev/demo.sh` can't show it says in one line, before it builds or installs anything."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from unit.development.commands import ROOT, typed


def refused(settings: Mapping[str, str]) -> str:
    done = typed("dev/demo.sh", settings=settings)
    assert (done.returncode, done.stdout) == (2, ""), done
    (line,) = done.stderr.splitlines()
    return line


def test_the_simulator_is_on_no_cluster_but_the_embedded_one() -> None:
    line = refused({"CLUSTER": "current", "SIMULATOR": "1"})
    assert "SIMULATOR=1 needs" in line
    assert "EXAMPLE=FILE" in line


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(None, "there is no file", id="no file"),
        pytest.param("a: [", "not YAML of Kubernetes objects", id="not YAML"),
        pytest.param(
            "kind: BenchmarkRun\nmetadata: {generateName: x-}\n",
            "each with a name",
            id="no name",
        ),
        pytest.param(
            "kind: ConfigMap\nmetadata: {name: x}\n---\n",
            "holds no BenchmarkRun",
            id="nothing to show",
        ),
    ],
)
def test_an_example_without_runs_is_rejected(
    tmp_path: Path, text: str | None, problem: str
) -> None:
    example = tmp_path / "example.yaml"
    if text is not None:
        example.write_text(text)
    line = refused({"EXAMPLE": str(example)})
    assert problem in line
    assert str(example) in line


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    for name in ("bash", "dirname"):
        (tmp_path / name).symlink_to(Path("/usr/bin") / name)
    line = refused({"CLUSTER": "current", "PATH": str(tmp_path)})
    assert "kubectl is missing" in line


def test_the_example_for_other_clusters_needs_nothing_that_only_the_embedded_one_has() -> (
    None
):
    run = yaml.safe_load((ROOT / "examples/quickstart-gpu.yaml").read_text())
    assert "source" not in run["spec"]["model"]  # the hub, which is the default
    assert run["spec"]["server"]["image"].startswith("vllm/vllm-openai:v")
    limits = run["spec"]["server"]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == 1
    assert limits.keys() == {"cpu", "memory", "nvidia.com/gpu"}
