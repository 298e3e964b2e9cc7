"""Server arguments held against the flags that vLLM 0.32 told of itself."""

from __future__ import annotations

import pytest
from benchrun.preflight.remark import Remark
from benchrun.preflight.server_flags import flag_remarks, known_versions, table_for, version_of_image

IMAGE = "vllm/vllm-openai:v0.32.0"


def remarks(*args: str, image: str = IMAGE, version: str | None = None) -> list[Remark]:
    return flag_remarks(args, image=image, version=version, path="args")


@pytest.mark.parametrize(
    "args",
    [
        ("--max-model-len=8k", "--enforce-eager", "--gpu-memory-utilization", "0.7"),
        ("--max_model_len", "8192"),
        ("-tp", "4"),
        ("-tp=4",),
        ("-O3",),
        ("--no-enable-prefix-caching",),
        ("--kv-cache-dtype=fp8",),
        ("--speculative-config", '{"method": "ngram"}'),
        ("--speculative-config.method=ngram", "--speculative-config.num_speculative_tokens", "3"),
        ("--lora-modules", "a=/a", "b=/b"),
        ("--max-model-len", "-1"),
    ],
)
def test_flags_that_vllm_has(args: tuple[str, ...]) -> None:
    assert remarks(*args) == []


@pytest.mark.parametrize(
    ("args", "place", "text"),
    [
        (
            ("--max-model-len=8k", "--disable-log-requests"),
            1,
            "--disable-log-requests; did you mean --no-enable-log-requests?",
        ),
        (("--max-modl-len=8k",), 0, "did you mean --max-model-len?"),
        (("--max-model-len",), 0, "--max-model-len needs a value"),
        (("--max-model-len", "--enforce-eager"), 0, "--max-model-len needs a value"),
        (("--enforce-eager=true",), 0, "--enforce-eager is a switch"),
        (("--enforce-eager", "true"), 1, "'true' belongs to no flag"),
        (("--kv-cache-dtype=fp9",), 0, "does not take 'fp9'"),
        (("--kv-cache-dtype", "fp9"), 1, "did you mean fp8"),
        (("Qwen/Qwen3-4B",), 0, "one model only"),
        (("--max-model-len.tokens=4",), 0, "takes no parts"),
    ],
)
def test_what_vllm_would_end_on_is_an_error_at_its_place(args: tuple[str, ...], place: int, text: str) -> None:
    errors = [remark for remark in remarks(*args) if remark.level == "Error"]
    assert [remark.path for remark in errors] == [f"args[{place}]"]
    assert text in errors[0].text


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("--port=9000",), "probes port 8000"),
        (("--served_model_name", "x"), "model.servedName"),
        (("--api-key=secret",), "a secret"),
        (("--disable-log-stats",), "metrics"),
    ],
)
def test_what_works_against_the_measurement_is_a_warning(args: tuple[str, ...], text: str) -> None:
    warnings = [remark for remark in remarks(*args) if remark.level == "Warning"]
    assert len(warnings) == 1
    assert text in warnings[0].text


def test_a_secret_is_not_repeated() -> None:
    assert "topsecret" not in str(remarks("--api-key=topsecret"))


def test_of_a_flag_given_twice_the_last_holds_and_it_is_said() -> None:
    (only,) = remarks("--max-num-seqs=8", "--max-num-seqs=16")
    assert (only.level, only.path) == ("Note", "args[1]")


def test_an_abbreviation_is_understood_and_said() -> None:
    (only,) = remarks("--enforce-eag")
    assert only.level == "Note"
    assert "--enforce-eager" in only.text


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.32.0", "0.32"),
        ("registry:5000/vllm/vllm-openai:0.11.2-cu128", "0.11"),
        ("vllm/vllm-openai:v0.32.1@sha256:abc", "0.32"),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai@sha256:abc", None),
        ("registry:5000/vllm", None),
    ],
)
def test_the_version_is_that_of_the_tag(image: str, version: str | None) -> None:
    assert version_of_image(image) == version


@pytest.mark.parametrize(
    ("image", "text"),
    [("vllm/vllm-openai:v0.11.0", "vLLM 0.11: flags are known of 0.32"), ("vllm:latest", "names no version")],
)
def test_of_other_versions_nothing_is_claimed(image: str, text: str) -> None:
    (only,) = remarks("--no-such-flag", image=image)
    assert only.level == "NotChecked"
    assert text in only.text


def test_the_user_may_say_the_version() -> None:
    (only,) = remarks("--no-such-flag", image="vllm:latest", version="0.32.0")
    assert only.level == "Error"


def test_without_arguments_there_is_nothing_to_check() -> None:
    assert remarks(image="vllm:latest") == []


def test_the_table_is_whole() -> None:
    assert known_versions() == ("0.32",)
    table = table_for("0.32.0")
    assert table is not None
    assert len(table.flags) > 300
    assert table.flags["-tp"] == table.flags["--tensor-parallel-size"]
    assert table.flags["--enforce-eager"].takes == "nothing"
    assert table.flags["--compilation-config"].is_object
