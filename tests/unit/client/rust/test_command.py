"""A load in the words of `vllm-rs bench serve`."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from benchrun_client.contract import LoadPoint
from benchrun_client.datasets.samples import Sample
from benchrun_client.engine import Load
from benchrun_client.rust.command import FLAGS, arguments, environment, prompt_lines
from benchrun_client.tokenizer import Api

USERS = LoadPoint(max_concurrency=8)
SAMPLES = (Sample("first", 1, 4), Sample('a "second"\n世界', 2, 9))


def words(point: LoadPoint = USERS, *, api: Api = "Completions", ignore_eos: bool = True) -> list[str]:
    load = Load(samples=SAMPLES, seed=7, point=point, api=api, ignore_eos=ignore_eos)
    return arguments(load, url="http://s:8000", model="tiny", percentiles=("50", "99.9"), folder=Path("/tmp/x"))


def value(said: list[str], flag: str) -> str | None:
    return next((after for word, after in pairwise(said) if word == flag), None)


@pytest.mark.parametrize(
    ("point", "rate", "burstiness", "users"),
    [
        pytest.param(LoadPoint(max_concurrency=8), "inf", "1", "8", id="users"),
        pytest.param(LoadPoint(request_rate="2.5", burstiness="0.5"), "2.5", "0.5", None, id="a rate"),
        pytest.param(LoadPoint(), "inf", "1", None, id="all at once"),
    ],
)
def test_load_points(point: LoadPoint, rate: str, burstiness: str, users: str | None) -> None:
    said = words(point)
    found = (value(said, "--request-rate"), value(said, "--burstiness"), value(said, "--max-concurrency"))
    assert found == (rate, burstiness, users)


def test_endpoints() -> None:
    completions, chat = words(), words(api="Chat")
    assert (value(completions, "--backend"), value(completions, "--endpoint")) == ("openai", "/v1/completions")
    assert (value(chat, "--backend"), value(chat, "--endpoint")) == ("openai-chat", "/v1/chat/completions")


def test_our_prompts_are_sent_each_once_in_our_order_and_nothing_before_them() -> None:
    said = words()
    assert {"--disable-shuffle", "--no-oversample", "--ignore-eos"} < set(said)
    assert value(said, "--num-prompts") == "2"
    assert value(said, "--num-warmups") == "0"
    assert value(said, "--ready-check-timeout-sec") == "0"
    assert value(said, "--custom-output-len") == "-1"
    assert value(said, "--seed") == "7"


def test_where_the_model_may_stop_it_is_not_told_to_go_on() -> None:
    assert "--ignore-eos" not in words(ignore_eos=False)


@pytest.mark.parametrize("api", ["Completions", "Chat"])
def test_every_flag_is_one_that_the_program_was_asked_about(api: Api) -> None:
    assert {word for word in words(api=api) if word.startswith("--")} <= set(FLAGS)


def test_prompts_are_lines_of_json_with_their_own_lengths() -> None:
    lines = list(prompt_lines(SAMPLES))
    assert all(line.count("\n") == 1 and line.endswith("\n") for line in lines)
    assert [json.loads(line) for line in lines] == [
        {"prompt": sample.prompt, "output_tokens": sample.output_tokens} for sample in SAMPLES
    ]


def test_nothing_silences_the_line_it_begins_with() -> None:
    ours = {"HOME": "/tmp", "RUST_LOG": "off", "VLLM_LOGGING_LEVEL": "ERROR", "OPENAI_API_KEY": "k"}
    assert environment(ours, ca_file=None) == {
        "HOME": "/tmp",
        "OPENAI_API_KEY": "k",
        "NO_COLOR": "1",
        "VLLM_LOGGING_LEVEL": "INFO",
    }


def test_the_authority_of_the_servers_certificate_is_ours() -> None:
    assert environment({"SSL_CERT_FILE": "/other"}, ca_file="/ca.crt")["SSL_CERT_FILE"] == "/ca.crt"
