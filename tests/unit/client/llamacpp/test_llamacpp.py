"""llama.cpp's server: pages and logs of a real one, build b10434 on a CPU, as benchrun reads them."""

import json
from pathlib import Path
from typing import Any

import pytest
from benchrun.measure import bounded_settings, parse_facts, parse_sample
from benchrun.observe import diagnose_server
from benchrun.observe.last_words import errors, last_words
from benchrun.sizing import ServeArgs, UnreadableValue
from benchrun_client.engines import ENGINES, EngineSetting, ServedFiles
from benchrun_client.server.counter_snapshots import (
    parse_metrics,
    served_model,
    settings_digest,
)
from unit.observe.bodies import ended

LLAMACPP = ENGINES["LlamaCpp"]
PAGES = Path(__file__).parent / "pages"


def page(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


def properties() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page("props.json"))
    return found


def test_gauges_and_counters_of_a_busy_server_are_read() -> None:
    sample = parse_sample(
        page("metrics-busy.txt"), LLAMACPP, at=1.0, role="server", pod="p"
    )
    assert (sample.running, sample.waiting) == (2, 2)
    assert (sample.prompt_tokens, sample.prefix_hits) == (82, 0)
    assert sample.generation_tokens == 0  # Both requests go on.


def test_prompt_tokens_include_those_of_the_cache() -> None:
    text = page("metrics-idle.txt")
    sample = parse_sample(text, LLAMACPP, at=1.0, role="server", pod="p")
    assert (sample.prompt_tokens, sample.prefix_queries) == (164, 164)
    assert sample.prefix_hits == 80
    snapshot = parse_metrics(text, LLAMACPP)
    assert snapshot is not None
    assert snapshot.running == 0
    assert snapshot.counters == {
        "generation_tokens_total": 6000,
        "prefix_cache_hits_total": 80,
        "prefix_cache_queries_total": 164,
        "prompt_tokens_total": 164,
        "spec_decode_num_draft_tokens_total": 0,
        "spec_decode_num_accepted_tokens_total": 0,
    }


def test_what_its_page_lacks_is_absent_and_never_0() -> None:
    sample = parse_sample(
        page("metrics-idle.txt"), LLAMACPP, at=1.0, role="server", pod="p"
    )
    lacking = (
        sample.kv_cache,
        sample.requests_finished,
        sample.preemptions,
        sample.start_time,
    )
    assert lacking == (None, None, None, None)


def test_without_a_counter_of_the_cache_prompt_tokens_are_not_known() -> None:
    old = "".join(
        f"{line}\n"
        for line in page("metrics-idle.txt").splitlines()
        if "cached" not in line
    )
    sample = parse_sample(old, LLAMACPP, at=1.0, role="server", pod="p")
    assert (sample.prompt_tokens, sample.prefix_queries) == (None, None)
    snapshot = parse_metrics(old, LLAMACPP)
    assert snapshot is not None
    assert not {"prompt_tokens_total", "prefix_cache_queries_total"} & {
        *snapshot.counters
    }


def test_a_part_that_is_not_believable_leaves_the_sum_unknown() -> None:
    text = page("metrics-idle.txt").replace("cached_total 80", "cached_total -1")
    sample = parse_sample(text, LLAMACPP, at=1.0, role="server", pod="p")
    assert sample.prompt_tokens is None


def test_settings_are_those_of_props() -> None:
    settings = LLAMACPP.answered_settings(properties())
    assert settings == {
        "total_slots": "2",
        "n_ctx": "2048",
        "model_ftype": "all F32",
        "dtype": "float32",
        "quantization": "none",
        "speculation": "none",
    }
    assert LLAMACPP.reported(EngineSetting.MAX_RUNNING, settings) == "2"
    assert LLAMACPP.reported(EngineSetting.MAX_TOKENS, settings) == "2048"
    assert properties()[LLAMACPP.version_key] == "b1-7e4c0a9"
    assert parse_facts(page("metrics-idle.txt"), LLAMACPP).reported == {}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"default_generation_settings": [1]},
        {"default_generation_settings": {"n_ctx": {}}, "total_slots": [2]},
        {"total_slots": None},
        {"default_generation_settings": {"params": ["speculative.types"]}},
    ],
)
def test_settings_of_a_strange_answer_are_absent(answer: dict[str, Any]) -> None:
    assert LLAMACPP.answered_settings(answer) == {}


@pytest.mark.parametrize(
    ("kind", "weights"),
    [
        ("F16", {"quantization": "none", "dtype": "float16"}),
        ("BF16 (guessed)", {"quantization": "none", "dtype": "bfloat16"}),
        ("Q4_K - Medium", {"quantization": "Q4_K - Medium"}),
    ],
)
def test_the_kind_of_a_file_tells_how_weights_are_stored(
    kind: str, weights: dict[str, str]
) -> None:
    found = LLAMACPP.answered_settings({"model_ftype": kind})
    assert found == {"model_ftype": kind, **weights}


def test_long_settings_are_cut() -> None:
    settings = LLAMACPP.answered_settings({"model_ftype": "x" * 10_000})
    assert len(bounded_settings(settings)["model_ftype"]) == 253


def test_equal_servers_have_the_digest_of_their_settings() -> None:
    one = LLAMACPP.answered_settings(properties())
    other = LLAMACPP.answered_settings(properties() | {"total_slots": 4})
    digest = settings_digest("", LLAMACPP, one)
    assert digest == settings_digest("x", LLAMACPP, one)
    assert digest != settings_digest("", LLAMACPP, other)
    assert settings_digest("", LLAMACPP, {}) is None


def test_the_model_is_known_by_its_alias_and_not_by_its_root() -> None:
    served = served_model(json.loads(page("models.json")), "tiny")
    assert served is not None
    assert (served.id, served.root) == ("tiny", None)


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        # As the real server says in its log (n_ctx_slot).
        (["--ctx-size", "4096", "--parallel", "4"], 1024),
        (["-c", "3000", "-np", "3"], 1024),
        (["--ctx-size", "4096", "--parallel", "3"], 1536),
        (["--ctx-size", "3000", "--parallel", "3", "--kv-unified"], 3072),
        (["--ctx-size", "4096"], 4096),
        # Not known from flags.
        (["--ctx-size", "0", "--parallel", "4"], None),
        (["--parallel", "4"], None),
        (["--ctx-size", "4096", "--no-kv-unified"], None),
        ([], None),
    ],
)
def test_the_longest_sequence_is_that_of_one_slot(
    words: list[str], tokens: int | None
) -> None:
    args = ServeArgs.of(words, LLAMACPP)
    assert args.whole(EngineSetting.MAX_TOKENS) == tokens


def test_slots_left_to_the_server_are_not_known() -> None:
    args = ServeArgs.of(["--parallel", "-1"], LLAMACPP)
    assert args.whole(EngineSetting.MAX_RUNNING) is None
    with pytest.raises(UnreadableValue, match="--parallel"):
        ServeArgs.of(["-np", "many"], LLAMACPP).whole(EngineSetting.MAX_RUNNING)


def test_flags_and_values_are_separate_words() -> None:
    model = ServedFiles("/models/t.gguf", "tiny", chat_template="/t")
    assert LLAMACPP.serve_args(model, ()) == [
        *("--model", "/models/t.gguf", "--alias", "tiny", "--port", "8080"),
        *("--chat-template-file", "/t", "--host", "0.0.0.0", "--metrics"),
    ]
    hub = ServedFiles("org/m-GGUF", "tiny", revision="r1", tokenizer="org/m")
    assert LLAMACPP.serve_args(hub, ("run", "$(SERVED_NAME)"))[:4] == [
        *("--hf-repo", "org/m-GGUF", "--port", "8080"),
    ]


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["--parallel", "4", "--no-cache-prompt", "-ngl", "99"], None),
        (["--override-kv", "a.b=bool:false"], None),
        (["--parallel=4"], 0),
        (["-ngl", "99", "--ctx-size=1024"], 2),
        (["-m", "x"], 0),
        (["-ngl", "99", "--alias", "x"], 2),
        (["--hf-file", "m-Q8_0.gguf"], None),
        (["--chat-template-kwargs", "{}"], None),
        (["--chat_template_file", "x"], 0),
    ],
)
def test_owned_and_joined_flags_are_refused(
    words: list[str], place: int | None
) -> None:
    found = LLAMACPP.owned_flag(words)
    assert (None if found is None else found[0]) == place
    assert found is None or "1024" not in found[1]  # The value may be secret.


@pytest.mark.parametrize(
    ("log", "reason", "words"),
    [
        ("unknown-flag", "UsageError", "error: invalid argument: --nonsense"),
        ("no-value", "UsageError", "expected value for argument"),
        ("no-file", "ModelNotFound", "failed to open GGUF file"),
        ("no-gguf", "ModelNotFound", "invalid magic characters"),
        ("no-hub", "ModelNotFound", "HTTPS is not supported"),
    ],
)
def test_a_failed_start_is_explained(log: str, reason: str, words: str) -> None:
    text = page(f"{log}.log")
    assert words in last_words(text, LLAMACPP)
    pod = ended(1, restarts=3)
    found = diagnose_server([pod], None, LLAMACPP, log_tail=text)
    assert found is not None
    assert (found.reason, found.terminal) == (reason, True)
    assert words in found.message


def test_an_error_that_a_client_caused_is_none_of_the_server() -> None:
    told = "0.40.125.997 E srv    send_error: task id = 20, error: request (5504 tokens) exceeds"
    assert errors(told, LLAMACPP) == ()
    begun = "0.00.075.514 E gguf_init_from_file: failed to open GGUF file '/x'"
    assert errors(f"{told}\n{begun}", LLAMACPP) == (begun[15:],)


def test_the_parts_of_a_start_are_read_from_its_log() -> None:
    phases = LLAMACPP.startup_phases(page("started.log"))
    assert (phases.load, phases.warm_up) == (0.165964, 0.087741)
    assert (phases.download, phases.compile) == (None, None)
    assert LLAMACPP.startup_phases("").load is None
