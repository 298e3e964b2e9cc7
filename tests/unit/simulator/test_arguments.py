"""The command line, as `vllm serve` takes and refuses it."""

import argparse
import json
import re
from pathlib import Path

import pytest
from benchrun_simulator.arguments import human_readable_int, parse
from benchrun_simulator.launch import SOURCE_ROOT
from benchrun_simulator.pace import Disturbances
from benchrun_simulator.refusals import FAILING_STARTS, Refusal
from benchrun_simulator.settings import Faults, Foreign, Settings
from benchrun_simulator.sim_flags import add_sim_flags


def parsed(*arguments: str, **environment: str) -> Settings:
    return parse(list(arguments), environment=environment)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("32768", 32768),
        ("32k", 32_000),
        ("32K", 32_768),
        ("25.6k", 25_600),
        ("2M", 2 * 2**20),
    ],
)
def test_lengths_take_vllms_suffixes(text: str, number: int) -> None:
    assert human_readable_int(text) == number


@pytest.mark.parametrize(
    "arguments",
    [("serve", "m"), ("m",), ("--model", "m"), ("--port=1", "m"), ("--model=m",)],
)
def test_the_model_is_found_wherever_it_stands(arguments: tuple[str, ...]) -> None:
    assert parsed(*arguments).model == "m"


def test_the_given_model_is_served() -> None:
    settings = parsed(
        "org/model",
        *("--served-model-name", "a", "b"),
        *("--max-model-len", "4K", "--max_num_seqs=7", "--block-size", "32"),
        *(
            "--no-enable-prefix-caching",
            "--sim-kv-tokens",
            "64K",
            "--sim-ttft-ms",
            "80",
        ),
    )
    assert settings.served_names == ("a", "b")
    assert (settings.max_model_len, settings.max_sequences, settings.kv_blocks) == (
        4096,
        7,
        2048,
    )
    assert not settings.prefix_caching
    assert settings.timing.first_token_seconds == pytest.approx(0.08)


def test_without_the_hub_a_model_is_its_commit_in_the_cache(tmp_path: Path) -> None:
    stored = tmp_path / "models--org--tiny"
    (stored / "snapshots" / "abc").mkdir(parents=True)
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text("abc")
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path)}
    for asked in (["--revision=abc"], []):
        found = parse(["serve", "org/tiny", *asked], environment=offline)
        assert found.served_names == ("org/tiny",)
        assert found.root == "org/tiny"
        assert found.tokenizer_folder == stored / "snapshots" / "abc"
    with pytest.raises(Refusal):
        parse(["serve", "org/tiny", "--revision=abd"], environment=offline)


def test_other_flags_of_vllm_are_taken_and_reported() -> None:
    settings = parsed(
        *(
            "m",
            "--enforce-eager",
            "--dtype=bfloat16",
            "-tp",
            "2",
            "--trust-remote-code",
        ),
        *(
            "--ec-transfer-config",
            '{"ec_connector": "Some"}',
            "--compilation-config.mode",
            "3",
        ),
    )
    assert settings.declared["enforce_eager"] is True
    assert (
        settings.declared["dtype"],
        settings.declared["tensor_parallel_size"],
    ) == (
        "bfloat16",
        2,
    )
    assert settings.declared["ec_transfer_config"] == {"ec_connector": "Some"}


def test_keys_come_from_flag_or_environment_and_are_never_reported() -> None:
    assert parsed("m", VLLM_API_KEY="secret").api_keys == ("secret",)
    settings = parsed("m", "--api-key", "secret")
    assert settings.api_keys == ("secret",)
    assert "secret" not in f"{settings.declared} {settings}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("m", "--foo", "bar"), "vllm: error: unrecognized arguments: --foo bar\n"),
        (
            ("m", "--swap-space=4"),
            "vllm: error: unrecognized arguments: --swap-space=4\n",
        ),
        (
            ("m", "--ec-transfer-config", "{bad"),
            "vllm serve: error: argument --ec-transfer-config: invalid",
        ),
    ],
)
def test_usage_errors_read_and_end_as_vllms_do(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--gpu-memory-utilization=0", "Input should be greater than 0"),
        (
            "--max-num-seqs=0",
            "max_num_seqs\n  Input should be greater than or equal to 1",
        ),
        (
            "--stream-interval=0",
            "stream_interval\n  Input should be greater than or equal to 1",
        ),
        (
            "--max-num-queued-reqs=-1",
            "max_num_queued_reqs\n  Input should be greater than or equal to 0",
        ),
    ],
)
def test_values_vllm_refuses_end_with_one(argument: str, words: str) -> None:
    with pytest.raises(Refusal) as refused:
        parsed("m", argument)
    assert refused.value.code == 1
    assert words in refused.value.text


def test_the_models_own_length_is_the_default_and_the_limit(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"max_position_embeddings": 2048})
    )
    assert parsed(str(tmp_path)).max_model_len == 2048
    with pytest.raises(Refusal, match="greater than the derived max_model_len"):
        parsed(str(tmp_path), "--max-model-len=4096")
    allowed = parsed(
        str(tmp_path), "--max-model-len=4096", VLLM_ALLOW_LONG_MAX_MODEL_LEN="1"
    )
    assert allowed.max_model_len == 4096


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("oom-gpu", "torch.OutOfMemoryError: CUDA out of memory."),
        ("gpu-memory-taken", "is less than desired GPU memory utilization"),
        ("no-kv-cache-memory", "No available memory for the cache blocks."),
        (
            "kv-cache-too-small",
            "KV cache is needed, which is larger than the available KV cache memory",
        ),
        ("gated-model", "You are trying to access a gated repo."),
        (
            "model-not-found",
            "org/m is not a local folder and is not a valid model identifier",
        ),
        ("not-enough-gpus", "is larger than the number of available GPUs"),
        ("crash", "Engine core initialization failed."),
    ],
)
def test_failing_starts_say_what_the_real_ones_say(name: str, words: str) -> None:
    refusal = FAILING_STARTS[name]("org/m")
    assert words in refusal.text
    assert refusal.code == 1


def test_without_flags_nothing_misbehaves() -> None:
    settings = parsed("m")
    assert (settings.faults, settings.disturbances, settings.foreign) == (
        Faults(),
        Disturbances(),
        Foreign(),
    )


def test_the_readme_has_every_flag_and_no_other() -> None:
    parser = argparse.ArgumentParser()
    add_sim_flags(parser)
    words = parser.format_help() + "--sim-kv-tokens"
    text = (SOURCE_ROOT / "README.md").read_text()
    flags = re.compile(r"--sim-[a-z-]*[a-z]")
    assert set(flags.findall(text)) == set(flags.findall(words))
