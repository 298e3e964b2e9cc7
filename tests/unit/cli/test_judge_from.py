"""`benchrun judge --from`: result files of other tools, by the command."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from benchrun.cli.__main__ import main
from unit.foreign.foreign_files import FILES, text_of

Capture = pytest.CaptureFixture[str]
VLLM = FILES / "vllm-0.32-concurrency-4.json"


def said(capture: Capture) -> str:
    """Return what was printed, errors too, without line breaks."""
    return " ".join(" ".join(capture.readouterr()).split())


def test_rows_verdict_and_answers_are_json(capsys: Capture) -> None:
    assert main(["judge", "--from", "vllm", str(VLLM), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (load_point,) = found["loadPoints"]
    (measured,) = load_point["measurements"]
    assert (found["tool"], found["verdict"]) == ("vllm", "Suspect")
    assert (measured["answered"], measured["file"]) == (60, str(VLLM))
    rules = {each["code"]: each for each in load_point["rules"]}
    assert rules["WindowTooShort"]["severity"] == "Suspect"
    assert rules["ColdStart"]["answer"] == "NotFound"
    (needed,) = rules["Preempted"]["needed"]
    assert needed["input"] == "serverCounters"
    assert [each["code"] for each in found["findings"]] == [
        "WindowTooShort",
        "TooFewSamples",
    ]


def test_the_terminal_shows_figures_findings_and_what_is_missing(
    capsys: Capture,
) -> None:
    assert main(["judge", "--from", "vllm", str(VLLM)]) == 0
    words = said(capsys)
    assert "p99_ttft_ms 89.9 same 90.7 60 to 152" in words
    assert "Suspect WindowTooShort" in words
    assert "cannot be known from these files: 50 rules" in words
    assert "ttft is our ttft" in words


def test_a_severity_holds() -> None:
    command = ["judge", "--from", "vllm", str(VLLM)]
    assert main([*command, "--severity", "WindowTooShort=Invalid"]) == 4


def test_what_is_off_is_no_finding_and_still_found(capsys: Capture) -> None:
    command = ["judge", "--from", "vllm", str(VLLM), "-o", "json"]
    assert main([*command, "--severity", "WindowTooShort=Off"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["code"] for each in found["findings"]] == ["TooFewSamples"]
    rules = {each["code"]: each for each in found["loadPoints"][0]["rules"]}
    off = rules["WindowTooShort"]
    assert (off["answer"], off["severity"]) == ("Found", None)


def test_a_threshold_holds(capsys: Capture) -> None:
    command = ["judge", "--from", "vllm", str(VLLM), "-o", "json"]
    assert main([*command, "--threshold", "window-seconds=1"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "Unknown"


def test_a_folder_stands_for_its_files(tmp_path: Path, capsys: Capture) -> None:
    for name in ("a.json", "b.json"):
        shutil.copy(VLLM, tmp_path / name)
    assert main(["judge", "--from", "vllm", str(tmp_path), "-o", "json"]) == 0
    (load_point,) = json.loads(capsys.readouterr().out)["loadPoints"]
    assert len(load_point["measurements"]) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["vlm", "x.json"], "did you mean vllm?"),
        (["vllm"], "--save-detailed"),
        (["vllm", "missing.json"], "missing.json can't be read"),
        (["vllm", "."], "has no *.json"),
        (["vllm", "x.json", "-f", "run.yaml"], "leave NAME, -f and --records out"),
    ],
    ids=["tool", "no file", "missing", "empty folder", "run too"],
)
def test_errors_name_the_remedy(
    options: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["judge", "--from", *options]) == 1
    assert words in said(capsys)


def test_a_hostile_file_is_an_error_of_one_line(
    tmp_path: Path, capsys: Capture
) -> None:
    def hostile(content: dict[str, Any]) -> None:
        content["ttfts"][3] = "\x1b[31m" * 1000

    path = tmp_path / "x.json"
    path.write_bytes(text_of(VLLM.name, hostile))
    assert main(["judge", "--from", "vllm", str(path)]) == 1
    error = capsys.readouterr().err
    assert f"{path}: ttfts[3] must be a number" in " ".join(error.split())
    assert "\x1b" not in error
    assert len(error) < 600
