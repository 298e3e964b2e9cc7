"""`benchrun compare TOOL=FILE TOOL=FILE`: result files of other tools, by the command."""

import json

import pytest
from benchrun.cli.__main__ import main
from unit.foreign.foreign_files import FILES

Capture = pytest.CaptureFixture[str]
VLLM = f"vllm={FILES / 'vllm-0.32-concurrency-4.json'}"
GUIDELLM = f"guidellm={FILES / 'guidellm-0.8.1-concurrency-4.json'}"
RATE = f"vllm={FILES / 'vllm-0.32-chat-rate-8.json'}"


def said(capture: Capture) -> str:
    """Return what was printed, errors too, without line breaks."""
    return " ".join(" ".join(capture.readouterr()).split())


def test_figures_words_and_refusals_are_json(capsys: Capture) -> None:
    assert main(["compare", VLLM, GUIDELLM, "-o", "json"]) == 0
    (load_point,) = json.loads(capsys.readouterr().out)["loadPoints"]
    figures = {each["name"]: each for each in load_point["figures"]}
    assert load_point["load"] == "concurrency=4"
    assert load_point["unequal"]
    assert figures["p50_ttft_ms"]["word"] == "Unknown"
    assert figures["p50_ttft_ms"]["changePercent"] > 0
    assert "p50_itl_ms" in load_point["refused"]


def test_the_terminal_shows_intervals_and_what_is_refused(capsys: Capture) -> None:
    assert main(["compare", VLLM, GUIDELLM]) == 0
    words = said(capsys)
    assert "vllm/tiny/concurrency=4 against guidellm/tiny/concurrency=4" in words
    assert "not comparable: prompts have 32.18 and 48.07 tokens" in words
    assert "Unknown steady part" in words
    assert "none by our definition" in words


def test_two_files_of_one_side_are_its_repeats(capsys: Capture) -> None:
    assert main(["compare", f"{VLLM},{VLLM.partition('=')[2]}", VLLM]) == 0
    assert "NotDetected steady part" in said(capsys)


@pytest.mark.parametrize(
    ("sides", "why"),
    [
        (("a-run", VLLM), "give TOOL=FILE on both sides"),
        (("loadgen=x.json", VLLM), "loadgen"),
        ((VLLM, "vllm="), "--save-detailed"),
        ((VLLM, RATE), "no load was measured on both sides"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    sides: tuple[str, str], why: str, capsys: Capture
) -> None:
    assert main(["compare", *sides]) == 1
    assert why in said(capsys)
