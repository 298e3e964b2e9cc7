"""`benchrun check`: a manifest before it is applied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from benchrun.cli.__main__ import main
from unit.preflight.checks import manifest
from unit.sizing.configs import QWEN_32B

Capture = pytest.CaptureFixture[str]
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


def written(folder: Path, *objects: object) -> str:
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_have_no_errors(example: Path, capsys: Capture) -> None:
    assert main(["check", "-f", str(example)]) == 0
    assert "0 errors" in capsys.readouterr().out


def test_all_that_is_known_comes_together(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN_32B))
    path = written(
        tmp_path,
        manifest(
            {
                "server.args": ["--disable-log-requests", "--max-model-len=1k"],
                "workloads.0.load": {"concurrencies": [999]},
            }
        ),
        manifest({"repeats": 0}, metadata={"name": "second"}),
    )
    assert main(["check", "-f", path, "--model", str(tmp_path), "--gpu-memory=80GiB", "--weights=61GiB"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "error spec.server.args[0] vLLM 0.32.0 has no flag --disable-log-requests" in told
    assert "error spec.workloads[0].dataset 1,024 tokens of prompt and 128 of answer are 1,152" in told
    assert "warning spec.workloads[0].load 999 requests at once" in told
    assert "warning spec.workloads[0].requests 100 requests a load point give p99" in told
    assert "1 stage, 100 requests" in told
    assert "error spec.repeats" in told
    assert "3 errors" in told


def test_for_programs_it_is_json(tmp_path: Path, capsys: Capture) -> None:
    assert main(["check", "-f", written(tmp_path, manifest()), "-o", "json"]) == 0
    (only,) = json.loads(capsys.readouterr().out)
    assert (only["kind"], only["name"], only["volume"]["stages"]) == ("BenchmarkRun", "chat", 2)
    assert {"level", "path", "text"} == set(only["remarks"][0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no object"),
        ("kind: Secret\napiVersion: v1\nmetadata: {name: s}\n", "holds no BenchmarkRun"),
        ("a: [1\nb: 2\n", "line 2"),
        ("just words", "apiVersion and kind"),
    ],
)
def test_a_file_without_a_benchmark_is_an_error(tmp_path: Path, text: str, said: str, capsys: Capture) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    assert main(["check", "-f", str(path)]) == 1
    assert said in capsys.readouterr().err


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    assert main(["check", "-f", str(tmp_path / "none.yaml")]) == 1
    assert "none.yaml" in capsys.readouterr().err
