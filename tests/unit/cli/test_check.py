"""`benchrun check`: a manifest before it is applied."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.cli.__main__ import main
from benchrun.cli.commands.check import as_json, show_check, volume_sentence
from benchrun.preflight.manifest_checks import Checked
from benchrun.preflight.remark import Remark, error, not_checked, note, warning
from benchrun.preflight.request_volume import Volume
from rich.console import Console
from unit.golden_messages import golden
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
    assert (
        main(
            [
                "check",
                "-f",
                path,
                "--model",
                str(tmp_path),
                "--gpu-memory=80GiB",
                "--weights=61GiB",
            ]
        )
        == 1
    )
    output = " ".join(capsys.readouterr().out.split())
    golden(output)


def test_for_programs_it_is_json(tmp_path: Path, capsys: Capture) -> None:
    assert main(["check", "-f", written(tmp_path, manifest()), "-o", "json"]) == 0
    (only,) = json.loads(capsys.readouterr().out)
    assert (only["kind"], only["name"], only["volume"]["stages"]) == (
        "BenchmarkRun",
        "chat",
        2,
    )
    assert {"level", "path", "text"} == set(only["remarks"][0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no object"),
        (
            "kind: Secret\napiVersion: v1\nmetadata: {name: s}\n",
            "holds no BenchmarkRun",
        ),
        ("a: [1\nb: 2\n", "line 2"),
        ("just words", "apiVersion and kind"),
    ],
)
def test_a_file_without_a_benchmark_is_an_error(
    tmp_path: Path, text: str, message: str, capsys: Capture
) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    assert main(["check", "-f", str(path)]) == 1
    assert message in capsys.readouterr().err


def test_a_file_that_is_not_there_is_an_error(
    tmp_path: Path, capsys: Capture
) -> None:
    assert main(["check", "-f", str(tmp_path / "none.yaml")]) == 1
    assert "none.yaml" in capsys.readouterr().err


def volume(**fields: Any) -> Volume:
    values: dict[str, Any] = {
        "stages": 4,
        "requests": 400,
        "probe_stages": 0,
        "gpus": 2,
        "open_stages": 0,
        "least_seconds": 0,
        "warmup_seconds": 0,
        "gpu_seconds": None,
    }
    return Volume(**(values | fields))


@pytest.mark.parametrize(
    ("sentence", "fields"),
    [
        ("4 stages, 400 requests. How long they take depends on the server.", {}),
        (
            "1 stage, 1 request. How long they take depends on the server.",
            {"stages": 1, "requests": 1},
        ),
        (
            "4 stages, 1,234,567 requests at most, if searches take all their probes. "
            "How long they take depends on the server.",
            {"probe_stages": 1, "requests": 1_234_567},
        ),
        (
            "1,000 runs, 4 stages, 400 requests. How long they take depends on the server.",
            {"runs": 1000},
        ),
        (
            "4 stages, 400 requests. The stages at a finite rate take 5 min at least.",
            {"open_stages": 4, "least_seconds": 300},
        ),
        (
            "4 stages, 400 requests. The stages at a finite rate take 5 min at least; how "
            "long the other stages take depends on the server.",
            {"open_stages": 3, "least_seconds": 300},
        ),
        (
            "4 stages, 400 requests. How long they take depends on the server. Warm-up takes up "
            "to 1 min 30 s.",
            {"warmup_seconds": 90},
        ),
        (
            "4 stages, 400 requests. How long they take depends on the server. Measuring on 2 "
            "GPUs takes 1,200 GPU-seconds "
            "at least; start-up is not counted.",
            {"gpu_seconds": 1200},
        ),
        (
            "4 stages, 400 requests. How long they take depends on the server. Measuring on 1 GPU "
            "takes 0 GPU-seconds "
            "at least; start-up is not counted.",
            {"gpu_seconds": 0, "gpus": 1},
        ),
        (
            "2 runs, 4 stages, 400 requests. How long they take depends on the server. Measuring "
            "on all GPUs takes "
            "9 GPU-seconds at least; start-up is not counted.",
            {"gpu_seconds": 9, "runs": 2},
        ),
    ],
)
def test_how_large_a_run_is(sentence: str, fields: dict[str, Any]) -> None:
    assert volume_sentence(volume(**fields)) == sentence


def checked(
    *remarks: Remark,
    name: str = "chat",
    kind: str = "BenchmarkRun",
    volume: Volume | None = None,
) -> Checked:
    return Checked(remarks, volume, kind=kind, name=name)


def shown(*objects: Checked) -> list[str]:
    out = io.StringIO()
    show_check(Console(file=out, width=120, highlight=False), objects)
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


ALL = (
    note("d", "fourth"),
    not_checked("e", "last"),
    warning("b", "second"),
    error("a", "first"),
    warning("c", "third"),
)


def test_the_worst_comes_first_and_equals_stay_in_order() -> None:
    golden(*shown(checked(*ALL)))


@pytest.mark.parametrize(
    ("summary", "remarks"),
    [
        ("0 errors", ()),
        ("0 errors, 1 warning", (warning("", "x"),)),
        ("2 errors", (error("", "x"), error("", "x"))),
        ("0 errors, 2 notes", (note("", "x"), note("", "x"))),
        ("0 errors, 2 not checked", (not_checked("", "x"), not_checked("", "x"))),
    ],
)
def test_errors_are_counted_even_where_there_are_none(
    summary: str, remarks: tuple[Remark, ...]
) -> None:
    assert shown(checked(*remarks))[-1] == summary


def test_objects_are_distinguished_and_counted_together() -> None:
    lines = shown(
        checked(error("a", "x"), volume=volume()),
        checked(error("b", "y"), name="", kind=""),
    )
    golden(*lines)


def test_what_a_manifest_holds_is_no_markup() -> None:
    assert "error spec[0] [red]x[/red]" in shown(
        checked(error("spec[0]", "[red]x[/red]"), name="[b]n")
    )
    assert shown(checked(name="[b]n"))[0] == "[b]n BenchmarkRun"


def test_for_programs_nothing_is_worded() -> None:
    (output,) = as_json(
        [
            checked(
                error("a", "x"),
                volume=volume(gpu_seconds=7, least_seconds=5, warmup_seconds=3),
            )
        ]
    )
    assert output == {
        "kind": "BenchmarkRun",
        "name": "chat",
        "remarks": [{"level": "Error", "path": "a", "text": "x"}],
        "volume": {
            "runs": 1,
            "stages": 4,
            "requests": 400,
            "gpus": 2,
            "leastSeconds": 5,
            "warmupSeconds": 3,
            "gpuSeconds": 7,
        },
    }
    assert as_json([checked()])[0]["volume"] is None
