"""The page about sizing shows what the command prints."""

import json
import re
import shlex
from pathlib import Path

import pytest
from benchrun.cli.__main__ import main
from unit.golden_messages import golden

PAGE = (Path(__file__).parents[3] / "docs" / "sizing.md").read_text()
QWEN_2_5_32B_INSTRUCT = {
    "model_type": "qwen2", "hidden_size": 5120, "num_attention_heads": 40, "num_hidden_layers": 64,
    "num_key_value_heads": 8, "max_position_embeddings": 32_768, "sliding_window": 131_072,
    "use_sliding_window": False, "max_window_layers": 70, "torch_dtype": "bfloat16",
}  # fmt: skip
WEIGHTS_BYTES = 65_527_752_704
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "models" / "Qwen2.5-32B-Instruct"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(QWEN_2_5_32B_INSTRUCT))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": WEIGHTS_BYTES}}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def test_its_example_prints_what_it_shows(capsys: Capture) -> None:
    (block,) = re.findall(r"^```console\n\$ (.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    command, shown = re.split(r"(?<!\\)\n", block, maxsplit=1)
    name, *words = shlex.split(command.replace("\\\n", " "))
    assert name == "benchrun"
    assert main(words) == 0
    assert lines(capsys.readouterr().out) == lines(shown)


SAID = (
    "--max-model-len 65,536, but the model is made for 32,768 tokens: vLLM will not start; lower it, give --hf-overrides "
    "with max_position_embeddings and the RoPE scaling that is meant, or set VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"
)


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_limit_beyond_the_models_own_is_reported(output: str, capsys: Capture) -> None:
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
