"""`trtllm-serve`: pages and logs in the form that its source gives them, as benchrun reads them."""

from pathlib import Path

import pytest
from benchrun.measure import parse_facts, parse_sample
from benchrun.observe import diagnose_server
from benchrun.observe.last_words import errors, last_words
from benchrun.sizing import ServeArgs
from benchrun_client.engines import ENGINES, EngineSetting, ServedFiles
from benchrun_client.server.counter_snapshots import parse_metrics, settings_digest
from unit.observe.bodies import ended

TRTLLM = ENGINES["TensorRTLLM"]
PAGES = Path(__file__).parent / "pages"


def page(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


def test_a_sample_is_read_from_its_prometheus_page() -> None:
    sample = parse_sample(
        page("metrics.txt"), TRTLLM, at=1.0, role="server", pod="p"
    )
    assert (sample.running, sample.waiting, sample.kv_cache) == (3, 5, 0.25)
    assert (sample.prompt_tokens, sample.generation_tokens) == (2688, 504)
    assert (sample.prefix_queries, sample.prefix_hits) == (2688, 640)
    assert sample.requests_finished == 42
    assert (sample.preemptions, sample.start_time) == (None, None)


def test_counters_are_sums_over_reasons_and_what_it_lacks_is_absent() -> None:
    snapshot = parse_metrics(page("metrics.txt"), TRTLLM)
    assert snapshot is not None
    assert snapshot.running == 3
    assert snapshot.counters == {
        "generation_tokens_total": 504,
        "prefix_cache_hits_total": 640,
        "prefix_cache_queries_total": 2688,
        "prompt_tokens_total": 2688,
        "request_queue_time_seconds_count": 42,
        "request_queue_time_seconds_sum": 1.5,
        "request_success_total": 42,
        "time_to_first_token_seconds_count": 42,
        "time_to_first_token_seconds_sum": 2.1,
    }


def test_its_json_of_steps_is_no_page_of_metrics() -> None:
    assert parse_metrics('[{"numActiveRequests": 1}]', TRTLLM) is None


def test_settings_are_labels_of_several_series() -> None:
    facts = parse_facts(page("metrics.txt"), TRTLLM)
    assert facts.kv_cache_tokens == 32_000
    read = {
        setting: TRTLLM.reported(setting, facts.reported)
        for setting in TRTLLM.reported_settings
    }
    assert read == {
        EngineSetting.MAX_TOKENS: "8192",
        EngineSetting.PREFIX_CACHE: "True",
        EngineSetting.TENSOR_PARALLEL: "2",
        EngineSetting.PIPELINE_PARALLEL: "1",
    }
    assert "pid" not in facts.reported


@pytest.mark.parametrize(
    "lost", ["trtllm_kv_cache_max_blocks{", "trtllm_kv_cache_tokens_per_block{"]
)
def test_without_one_of_its_two_series_the_cache_is_not_known(lost: str) -> None:
    lines = [
        line
        for line in page("metrics.txt").splitlines()
        if not line.startswith(lost)
    ]
    facts = parse_facts("\n".join((*lines, "")), TRTLLM)
    assert facts.kv_cache_tokens is None
    assert facts.reported["max_model_len"] == "8192"


def test_caches_of_several_processes_add_up() -> None:
    text = page("metrics.txt")
    second = [
        line.replace('"87"', '"88"')
        for line in text.splitlines()
        if "_block" in line
    ]
    facts = parse_facts("\n".join((text, *second, "")), TRTLLM)
    assert facts.kv_cache_tokens == 64_000


def test_the_process_is_no_setting_and_any_other_label_is_one() -> None:
    text = page("metrics.txt")
    digest = settings_digest(text, TRTLLM)
    assert digest is not None
    assert settings_digest(text.replace('pid="87"', 'pid="9"'), TRTLLM) == digest
    for there, other in (
        ('"8192"', '"4096"'),
        ('"0.9"', '"0.8"'),
        ("H200", "H100"),
    ):
        assert settings_digest(text.replace(there, other), TRTLLM) != digest


def test_it_is_told_model_name_port_files_and_to_show_its_metrics() -> None:
    model = ServedFiles(
        "/model", "tiny", revision="r1", tokenizer="org/t", chat_template="/t"
    )
    assert TRTLLM.serve_args(model, ()) == [
        "/model",
        "--served_model_name=tiny",
        "--port=8000",
        "--host=0.0.0.0",
        "--set=return_perf_metrics=true",
        "--set=enable_iter_perf_stats=true",
        "--revision=r1",
        "--tokenizer=org/t",
        "--chat_template=/t",
    ]
    command = ["sh", "-c", 'exec trtllm-serve $(MODEL) --port $(PORT) "$@"']
    assert TRTLLM.serve_args(ServedFiles("/model", "tiny"), command) == [
        "--served_model_name=tiny",
        "--host=0.0.0.0",
        "--set=return_perf_metrics=true",
        "--set=enable_iter_perf_stats=true",
    ]


@pytest.mark.parametrize(
    ("words", "place", "said"),
    [
        (
            ["--max_batch_size=8", "--generation-config=auto", "--no-telemetry"],
            None,
            "",
        ),
        (["--set=kv_cache_config.enable_block_reuse=false"], None, ""),
        (["--free_gpu_memory_fraction", "0.8"], None, ""),
        (["--x", "--set=return_perf_metrics=false"], 1, "remove it"),
        (["--set", "enable_iter_perf_stats=false"], 0, "remove it"),
        (["--set=max_num_tokens=9"], 0, "give --max_num_tokens instead"),
        (["--set", "tensor_parallel_size=2"], 0, "give --tp_size instead"),
        (["--set=tokenizer=secret"], 0, "set model.tokenizer instead"),
        (["--max_batch_size=8", "--max-seq-len=9"], 1, "writes it --max_seq_len"),
        (["--extra_llm_api_options=f.yaml"], 0, "give --set=PATH=VALUE"),
        (["--config", "f.yaml"], 0, "--config belongs to the operator"),
        (["--hf_revision=secret"], 0, "set model.revision instead"),
        (["--served-model-name=x"], 0, "--served_model_name"),
        (["--grpc", "--max-seq-len=9"], 0, "sends HTTP"),
    ],
)
def test_what_would_not_work_is_refused_with_the_remedy(
    words: list[str], place: int | None, said: str
) -> None:
    found = TRTLLM.owned_flag(words)
    assert (None if found is None else found[0]) == place
    assert found is None or said in found[1]
    assert found is None or "secret" not in found[1]


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (["trtllm-serve", "serve", "$(MODEL)"], None),
        (["/opt/nvidia/nvidia_entrypoint.sh", "trtllm-serve", "serve"], None),
        (["trtllm-serve", "--port=$(PORT)"], None),
        (["trtllm-serve", "serve", "org/model"], 2),
        (["/usr/bin/trtllm-serve", "org/model"], 1),
        (["trtllm-serve", "serve", "--port=1"], 2),
    ],
)
def test_a_command_that_names_its_own_model_is_refused(
    command: list[str], place: int | None
) -> None:
    found = TRTLLM.command_problem(command)
    assert (None if found is None else found[0]) == place


def test_settings_are_read_from_flags_as_it_writes_them() -> None:
    args = ServeArgs.of(
        ["--max_batch_size", "8", "--tensor_parallel_size=2", "--max-seq-len=1k"],
        TRTLLM,
    )
    assert args.whole(EngineSetting.MAX_RUNNING) == 8
    assert args.whole(EngineSetting.TENSOR_PARALLEL) == 2
    assert args.whole(EngineSetting.MAX_TOKENS) == 1000
    assert args.flag(EngineSetting.MAX_TOKENS) == "max_seq_len"
    assert args.text(EngineSetting.MEMORY_SHARE) is None


@pytest.mark.parametrize(
    ("log", "code", "reason", "words"),
    [
        ("unknown-flag", 2, "UsageError", "No such option: --no-such-flag"),
        ("no-set", 2, "UsageError", "1.4.0rc4 or later"),
        ("no-memory", 1, "OutOfGPUMemory", "insufficient GPU memory"),
        ("bad-value", 1, "InvalidArgument", "validation error for TorchLlmArgs"),
        ("no-model", 1, "ModelNotFound", "/no/model is not a local folder"),
    ],
)
def test_a_failed_start_is_explained(
    log: str, code: int, reason: str, words: str
) -> None:
    found = diagnose_server(
        [ended(code, restarts=3)], None, TRTLLM, log_tail=page(f"{log}.log")
    )
    assert found is not None
    assert (found.reason, found.terminal) == (reason, True)
    assert words in found.message


def test_a_line_of_its_log_loses_instant_rank_and_level() -> None:
    (first, second) = errors(page("no-memory.log"), TRTLLM)[:2]
    assert first.startswith("Failed to initialize executor on rank 0: Executor")
    assert second == "RuntimeError: Executor worker returned error"
    assert last_words(page("no-memory.log"), TRTLLM) == first
