"""`benchrun kv-cache`: from files to tables."""

import json
import struct
from pathlib import Path

import pytest
from benchrun.cli.__main__ import main
from unit.golden_messages import golden
from unit.sizing.configs import DEEPSEEK_V3, GEMMA_3_4B, QWEN_32B, Config

Capture = pytest.CaptureFixture[str]


def model(folder: Path, config: Config) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def printed(capsys: Capture) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_the_sizing_of_experiment_2(tmp_path: Path, capsys: Capture) -> None:
    words = [
        "kv-cache",
        str(model(tmp_path, QWEN_32B)),
        "--length",
        "131072",
        "--gpu-memory",
        "48GiB",
        "--weights",
        "64GiB",
    ]
    serve = ["-tp", "4", "--gpu-memory-utilization=0.7", "--max-model-len", "65536", "--block-size=32"]
    assert main([*words, "--overhead", "0", "--serve", *serve]) == 0
    output = printed(capsys)
    golden(output)


def test_a_file_or_a_folder(tmp_path: Path, capsys: Capture) -> None:
    folder = model(tmp_path, DEEPSEEK_V3)
    output = []
    for place in (folder, folder / "config.json"):
        assert main(["kv-cache", str(place), "-o", "json"]) == 0
        output.append(json.loads(capsys.readouterr().out))
    assert (output[0], output[0]["bytesPerToken"]) == (output[1], 61 * 576 * 2)
    assert output[0]["cacheTokens"] is None


def test_a_model_in_the_hubs_cache_goes_by_its_id(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = tmp_path / "models--google--gemma-3-4b-it"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("abc")
    (cached / "snapshots" / "abc").mkdir(parents=True)
    model(cached / "snapshots" / "abc", GEMMA_3_4B)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert main(["kv-cache", "google/gemma-3-4b-it"]) == 0
    golden(printed(capsys))


def test_weights_are_read_from_the_index(tmp_path: Path, capsys: Capture) -> None:
    folder = model(tmp_path, QWEN_32B)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 64 * 2**30}}))
    assert main(["kv-cache", str(folder), "--gpu-memory=48GiB", "--serve", "-tp=4"]) == 0
    golden(printed(capsys))


def test_weights_are_read_from_the_headers(tmp_path: Path, capsys: Capture) -> None:
    folder = model(tmp_path, QWEN_32B)
    for name, size in (("a", 2**30), ("b", 2**31)):
        header = json.dumps({"w": {"dtype": "BF16", "shape": [1], "data_offsets": [0, size]}}).encode()
        (folder / f"{name}.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    assert main(["kv-cache", str(folder), "--gpu-memory=48GiB"]) == 0
    golden(printed(capsys))


def test_a_limit_that_does_not_fit_is_reported(tmp_path: Path, capsys: Capture) -> None:
    words = ["kv-cache", str(model(tmp_path, QWEN_32B)), "--serve", "--kv-cache-memory-bytes=8GiB"]
    assert main(words) == 0
    golden(printed(capsys))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", []),
        ("[]", []),
        ("{}", []),
        (json.dumps(QWEN_32B), ["--gpu-memory=48GiB"]),
        (json.dumps(QWEN_32B), ["--serve", "--block-size=none"]),
        (json.dumps(QWEN_32B), ["--serve", "--kv-cache-dtype=fp9"]),
    ],
)
def test_a_model_of_unknown_size_is_an_error(tmp_path: Path, content: str, words: list[str], capsys: Capture) -> None:
    (tmp_path / "config.json").write_text(content)
    assert main(["kv-cache", str(tmp_path), *words]) == 1
    golden(capsys.readouterr().err)


@pytest.mark.parametrize("name", ["no/such", "../../etc", "nothing"])
def test_a_model_that_is_nowhere_is_an_error(
    name: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert main(["kv-cache", name]) == 1
    assert name in capsys.readouterr().err


def test_broken_weights_are_an_error(tmp_path: Path, capsys: Capture) -> None:
    folder = model(tmp_path, QWEN_32B)
    (folder / "model.safetensors").write_bytes(b"short")
    assert main(["kv-cache", str(folder), "--gpu-memory=48GiB"]) == 1
    assert "model.safetensors" in capsys.readouterr().err
