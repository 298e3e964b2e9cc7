"""`benchrun kv-cache`: from files to tables."""

import json
import re
import shlex
import struct
from pathlib import Path
from typing import Any

import pytest
from benchrun.cli.__main__ import main
from benchrun.cli.model_folder import bytes_by_header, bytes_by_index, check_files
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
    serve = [
        "-tp",
        "4",
        "--gpu-memory-utilization=0.7",
        "--max-model-len",
        "65536",
        "--block-size=32",
    ]
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
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 64 * 2**30}})
    )
    assert (
        main(["kv-cache", str(folder), "--gpu-memory=48GiB", "--serve", "-tp=4"])
        == 0
    )
    golden(printed(capsys))


def test_weights_are_read_from_the_headers(tmp_path: Path, capsys: Capture) -> None:
    folder = model(tmp_path, QWEN_32B)
    for name, size in (("a", 2**30), ("b", 2**31)):
        header = json.dumps(
            {"w": {"dtype": "BF16", "shape": [1], "data_offsets": [0, size]}}
        ).encode()
        (folder / f"{name}.safetensors").write_bytes(
            struct.pack("<Q", len(header)) + header
        )
    assert main(["kv-cache", str(folder), "--gpu-memory=48GiB"]) == 0
    golden(printed(capsys))


def test_a_limit_that_does_not_fit_is_reported(
    tmp_path: Path, capsys: Capture
) -> None:
    words = [
        "kv-cache",
        str(model(tmp_path, QWEN_32B)),
        "--serve",
        "--kv-cache-memory-bytes=8GiB",
    ]
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
def test_a_model_of_unknown_size_is_an_error(
    tmp_path: Path, content: str, words: list[str], capsys: Capture
) -> None:
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


# The page about sizing shows what the command prints.

PAGE = (Path(__file__).parents[3] / "docs" / "sizing.md").read_text()
QWEN_2_5_32B_INSTRUCT = {
    "model_type": "qwen2", "hidden_size": 5120, "num_attention_heads": 40, "num_hidden_layers": 64,
    "num_key_value_heads": 8, "max_position_embeddings": 32_768, "sliding_window": 131_072,
    "use_sliding_window": False, "max_window_layers": 70, "torch_dtype": "bfloat16",
}  # fmt: skip
WEIGHTS_BYTES = 65_527_752_704


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "models" / "Qwen2.5-32B-Instruct"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(QWEN_2_5_32B_INSTRUCT))
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": WEIGHTS_BYTES}})
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def test_its_example_prints_what_it_shows(capsys: Capture) -> None:
    (block,) = re.findall(
        r"^```console\n\$ (.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )
    command, shown = re.split(r"(?<!\\)\n", block, maxsplit=1)
    name, *words = shlex.split(command.replace("\\\n", " "))
    assert name == "benchrun"
    assert main(words) == 0
    assert lines(capsys.readouterr().out) == lines(shown)


SAID = (
    "--max-model-len 65,536, but the model is made for 32,768 tokens: vLLM will not start; lower "
    "it, give --hf-overrides "
    "with max_position_embeddings and the RoPE scaling that is meant, or set "
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"
)


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_limit_beyond_the_models_own_is_reported(
    output: str, capsys: Capture
) -> None:
    words = ["kv-cache", "models/Qwen2.5-32B-Instruct", "-o", output, "--serve"]
    assert main([*words, "--max-model-len=65536"]) == 0
    assert SAID in capsys.readouterr().out
    assert main([*words, "--max-model-len=32768"]) == 0
    assert "is made for" not in capsys.readouterr().out


def test_overriding_the_model_gives_a_note(capsys: Capture) -> None:
    flags = ["--max-model-len=65536", '--hf-overrides={"rope_scaling": {}}']
    assert main(["kv-cache", "models/Qwen2.5-32B-Instruct", "--serve", *flags]) == 0
    output = capsys.readouterr().out
    assert "will not start" not in output
    golden(output)


# The size of weights, from what safetensors files say of themselves.


def test_an_index_states_the_total_size() -> None:
    assert (
        bytes_by_index(
            {"metadata": {"total_size": 65_527_752_704}, "weight_map": {}}
        )
        == 65_527_752_704
    )


def test_a_header_says_where_its_tensors_end() -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [8, 16]},
        "a": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]},
    }
    assert bytes_by_header(header) == 16


@pytest.mark.parametrize(
    "index",
    [
        {},
        {"metadata": {}},
        {"metadata": []},
        {"metadata": {"total_size": "much"}},
        {"metadata": {"total_size": True}},
        {"metadata": {"total_size": 0}},
        {"metadata": {"total_size": -1}},
        {"metadata": {"total_size": float("inf")}},
    ],
)
def test_an_index_without_it_is_rejected(index: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as raised:
        bytes_by_index(index)
    golden(str(raised.value))


@pytest.mark.parametrize(
    ("names", "is_known"),
    [
        ([], True),
        (["model.safetensors"], True),
        (["consolidated.safetensors"], True),
        (["consolidated.safetensors", "model.safetensors"], False),
        (
            [
                "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors",
            ],
            True,
        ),
        (["model-00001-of-00002.safetensors"], False),
    ],
)
def test_files_are_one_models_weights_whole_and_once(
    names: list[str], is_known: bool
) -> None:
    if is_known:
        check_files(names)
        return
    with pytest.raises(ValueError):
        check_files(names)


def test_a_header_without_tensors_is_rejected() -> None:
    with pytest.raises(ValueError, match="lists no tensors"):
        bytes_by_header({"__metadata__": {}})


@pytest.mark.parametrize(
    "tensor",
    [
        1,
        None,
        [],
        {},
        {"data_offsets": 8},
        {"data_offsets": [8]},
        {"data_offsets": ["0", "8"]},
        {"dtype": "BF16"},
    ],
    ids=str,
)
def test_a_tensor_that_is_nowhere_is_named(tensor: Any) -> None:
    with pytest.raises(ValueError) as raised:
        bytes_by_header({"a": {"data_offsets": [0, 8]}, "lm_head": tensor})
    golden(str(raised.value))


def test_sizes_written_as_floats_are_read_as_whole_bytes() -> None:
    assert bytes_by_index({"metadata": {"total_size": 1024.0}}) == 1024
    assert bytes_by_index({"metadata": {"total_size": 1}}) == 1
