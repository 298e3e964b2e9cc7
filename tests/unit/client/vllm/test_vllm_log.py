"""vLLM's log: phases of the start by the words of several versions and processes, and kernels
compiled while serving."""

import time
from pathlib import Path

import pytest
from benchrun.api import Reason
from benchrun_client.engines import ENGINES, StartupPhases
from benchrun_client.engines.vllm import log as vllm_log

VLLM = ENGINES["VLLM"]
PAGES = Path(__file__).parent / "pages"

CPU_0_32 = """\
(Worker pid=25433) INFO 11-21 14:59:03 [base_loader.py:82] Initializing model took 0.291762 seconds
(Worker pid=25433) INFO 11-21 14:59:03 [default_loader.py:501] Loading weights took 0.02 seconds
(Worker pid=25433) INFO 11-21 14:59:04 [cpu_model_runner.py:87] Warming up model for the compilation...
(Worker pid=25433) INFO 11-21 14:59:27 [monitor.py:91] [backbone] Initial profiling/warmup run took 0.04 s
(EngineCore pid=25220) INFO 11-21 14:59:28 [core.py:402] init engine (profile, create kv cache, warmup model) took 24.46 s
"""
"""As a server without GPUs wrote it, which compiles in its warm-up and does not say how long."""

GPU_0_32 = """\
(EngineCore pid=374) INFO 11-21 10:00:20 [weight_utils.py:532] Time spent downloading weights for org/m: 30.500000 seconds
(EngineCore pid=374) INFO 11-21 10:00:30 [default_loader.py:501] Loading weights took 8.13 seconds
(EngineCore pid=374) INFO 11-21 10:00:31 [gpu_model_runner.py:5149] Model loading took 14.99 GiB memory and 40.750000 seconds
(EngineCore pid=374) INFO 11-21 10:00:55 [monitor.py:62] [backbone] torch.compile took 12.90 s in total
(EngineCore pid=374) INFO 11-21 10:01:10 [gpu_model_runner.py:6581] Graph capturing finished in 9 secs, took 0.66 GiB
(EngineCore pid=374) INFO 11-21 10:01:12 [core.py:349] init engine (profile, create kv cache, warmup model) took 42.68 s \
(compilation: 13.01 s)
"""

OLDER = """\
INFO 06-05 09:07:40 [weight_utils.py:292] Time spent downloading weights for org/m: 4.250000 seconds
INFO 06-05 09:07:44 [loader.py:458] Loading weights took 3.51 seconds
INFO 06-05 09:07:45 [gpu_model_runner.py:1276] Model loading took 14.9889 GiB and 8.500000 seconds
INFO 06-05 09:08:00 [monitor.py:33] torch.compile takes 14.61 s in total
INFO 06-05 09:08:36 [core.py:167] init engine (profile, create kv cache, warmup model) took 47.64 seconds
"""


@pytest.mark.parametrize(
    ("expected", "log"),
    [
        pytest.param(
            StartupPhases(None, 0.02, None, 24.46), CPU_0_32, id="0.32 on CPUs"
        ),
        pytest.param(
            StartupPhases(30.5, 10.25, 13.01, 29.67), GPU_0_32, id="0.32 on a GPU"
        ),
        pytest.param(StartupPhases(4.25, 4.25, 14.61, 33.03), OLDER, id="of 2025"),
        pytest.param(StartupPhases(), "", id="no log"),
        pytest.param(
            StartupPhases(),
            "INFO: Application startup complete.\n" * 9,
            id="nothing of it",
        ),
        pytest.param(
            StartupPhases(compile=61.5),
            "torch.compile and initial profiling/warmup run together took 61.50 s in total",
            id="compiled within the first run",
        ),
        pytest.param(
            StartupPhases(compile=20.0, warm_up=10.0),
            "init engine (profile, create kv cache, warmup model) took 30.00 s (compilation: "
            "20.00 s — language_model: 15.00 s, "
            "encoder: 5.00 s)",
            id="with an encoder",
        ),
        pytest.param(
            StartupPhases(), "Loading weights took nan seconds", id="no number"
        ),
    ],
)
def test_startup_phases_are_read_from_the_log(
    expected: StartupPhases, log: str
) -> None:
    assert VLLM.startup_phases(log) == expected


LOADED = (
    "(EngineCore pid=7) INFO 11-21 10:00:55 [backends.py:295] [backbone] Directly load the "
    "compiled graph(s) for compile range (1, 2048) from the cache, took 1.234 s"
)
LOADED_WHOLE = (
    "INFO 11-21 10:00:55 [decorators.py:319] Directly load AOT compilation from path "
    "/compile-cache/0/vllm/torch_compile_cache/torch_aot_compile/ab/rank_0_0/model"
)
COMPILED = (
    "INFO 11-21 10:00:55 [backends.py:382] Cache the graph of compile range (1, 2048) for later "
    "use\nINFO 11-21 10:00:55 [backends.py:398] Compiling a graph for compile range (1, 2048) "
    "takes 12.34 s"
)
SAVED_WHOLE = (
    "(Worker pid=28857) INFO 11-30 01:18:44 [decorators.py:743] [backbone] saved AOT compiled "
    "function to /compile-cache/0/vllm/torch_compile_cache/torch_aot_compile/186c/rank_0_0/model"
)
NOT_SAVED = (
    "(Worker pid=28857) WARNING 11-30 01:18:44 [decorators.py:749] [backbone] unable to save AOT "
    "compiled function to /compile-cache/0/vllm/torch_aot_compile/186c/model: Permission denied"
)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        pytest.param(LOADED, True, id="graphs"),
        pytest.param(LOADED_WHOLE, True, id="all at once"),
        pytest.param(COMPILED, False, id="compiled"),
        pytest.param(f"{LOADED}\n{COMPILED}", False, id="a part was compiled"),
        pytest.param(SAVED_WHOLE, False, id="all at once, compiled"),
        pytest.param(NOT_SAVED, False, id="compiled, and not kept"),
        pytest.param(GPU_0_32, None, id="not told"),
    ],
)
def test_the_log_tells_whether_graphs_came_from_a_cache(
    log: str, expected: bool | None
) -> None:
    assert VLLM.startup_phases(log).from_cache is expected


CONFIG = (
    "(EngineCore pid=374) INFO 11-21 10:00:02 [core.py:133] Initializing a V1 LLM engine "
    "(v0.32.0) with config: model='org/m', "
    "speculative_config=None, tokenizer='org/m', skip_tokenizer_init=False, tokenizer_mode=auto, "
    "revision=None, "
    "tokenizer_revision=None, trust_remote_code=False, dtype=torch.bfloat16, max_seq_len=4096, "
    "download_dir=None, "
    "load_format=auto, quantization=fp8, quantization_config=None, enforce_eager=False, "
    "kv_cache_dtype=auto"
)
"""In the form of `VllmConfig.__str__` of vLLM 0.32, logged by `v1/engine/core.py`; written by
hand."""


@pytest.mark.parametrize(
    ("expected", "log"),
    [
        pytest.param(
            {
                "dtype": "bfloat16",
                "quantization": "fp8",
                "speculative_config": "None",
                "max_model_len": "4096",
                "enforce_eager": "False",
                "cache_dtype": "auto",
            },
            CONFIG,
            id="configuration",
        ),
        pytest.param(
            {
                "dtype": "bfloat16",
                "quantization": "None",
                "speculative_config": "None",
                "max_model_len": "512",
                "tensor_parallel_size": "1",
                "pipeline_parallel_size": "1",
                "data_parallel_size": "1",
                "enforce_eager": "True",
                "cache_dtype": "auto",
                "enable_prefix_caching": "True",
                "enable_chunked_prefill": "True",
            },
            (PAGES / "config-0.32.0-cpu.log").read_text(),
            id="configuration of a real server",
        ),
        pytest.param(
            {"max_num_batched_tokens": "512"},
            "(APIServer pid=1) INFO 11-30 00:30:11 [scheduler.py:307] Chunked prefill is enabled "
            "with max_num_batched_tokens=512.",
            id="tokens of a step",
        ),
        pytest.param(
            {"speculative_config": "eagle3 of /models/a draft, 4 tokens"},
            "Initializing a V1 LLM engine (v0.32.0) with config: model='m', "
            "speculative_config=SpeculativeConfig(method='eagle3', model='/models/a draft', "
            "num_spec_tokens=4), tokenizer='m'",
            id="speculation",
        ),
        pytest.param(
            {"speculative_config": "mtp, 1 tokens"},
            "Initializing a V1 LLM engine (v0.32.0) with config: model='/m', "
            "speculative_config=SpeculativeConfig(method='mtp', model='/m', "
            "num_spec_tokens=1), tokenizer='m'",
            id="speculation by the model itself",
        ),
        pytest.param(
            {"speculative_config": "ngram, 4 tokens"},
            "Initializing a V1 LLM engine (v0.32.0) with config: model='/m', "
            "speculative_config=SpeculativeConfig(method='ngram', model=None, "
            "num_spec_tokens=4), tokenizer='m'",
            id="speculation without a model",
        ),
        pytest.param(
            {"enable_chunked_prefill": "False"},
            "Initializing a V1 LLM engine (v0.8.4) with config: model='m', "
            "chunked_prefill_enabled=False, use_async_output_proc=True\nx, dtype=torch.half, ",
            id="of 2025, and no further than its line",
        ),
        pytest.param(
            {"attention_backend": "FLASH_ATTN"},
            "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', "
            "'TRITON_ATTN'].\n" * 8,
            id="every rank says it",
        ),
        pytest.param(
            {"attention_backend": "FLASH_ATTN, TRITON_ATTN"},
            "Using TRITON_ATTN attention backend out of x.\nUsing FLASH_ATTN attention backend "
            "out of x.",
            id="ranks differ",
        ),
        pytest.param(
            {"attention_backend": "Flash Attention"},
            "INFO Using Flash Attention backend on V1 engine.",
            id="of 2025",
        ),
        pytest.param(
            {"moe_backend": "TRITON Unquantized"},
            "Using TRITON Unquantized MoE backend out of potential backends: ['TRITON'].",
            id="experts",
        ),
        pytest.param(
            {"available_kv_cache_gib": "50.81, 50.82"},
            "(Worker_TP0 pid=1) INFO 11-21 10:00:02 [gpu_worker.py:759] Available KV cache "
            "memory: 50.82 GiB\n"
            "(Worker_TP1 pid=2) INFO 11-21 10:00:02 [gpu_worker.py:759] Available KV cache "
            "memory: 50.81 GiB",
            id="memory for the KV cache, by rank",
        ),
        pytest.param(
            {},
            "Using backend TORCH_SDPA for vit attention\nUsing max model len 4096",
            id="nothing of it",
        ),
    ],
)
def test_chosen_settings_are_read_from_the_log(
    expected: dict[str, str], log: str
) -> None:
    assert VLLM.startup_phases(log).chosen == expected


def test_what_a_log_says_was_chosen_is_bounded() -> None:
    log = "\n".join(
        f"Using BACKEND_{n} attention backend out of any." for n in range(5000)
    )
    assert len(VLLM.startup_phases(log).chosen["attention_backend"]) == 100


def test_the_slowest_rank_counts() -> None:
    lines = (
        f"(Worker_TP{rank} pid={rank}) INFO Loading weights took {seconds} seconds"
        for rank, seconds in enumerate((3.5, 9.25))
    )
    assert VLLM.startup_phases("\n".join(lines)).load == 9.25


def test_a_draft_model_is_loaded_after_the_model() -> None:
    lines = [
        "(EngineCore pid=7) INFO Loading weights took 3.5 seconds",
        "(EngineCore pid=7) INFO Loading weights took 0.5 seconds",
    ]
    assert VLLM.startup_phases("\n".join(lines)).load == 4.0


def test_parts_are_never_negative() -> None:
    log = (
        "Time spent downloading weights for m: 9.0 seconds\nModel loading took 1 GiB memory and "
        "8.9 seconds"
    )
    assert VLLM.startup_phases(log) == StartupPhases(download=9.0, load=0.0)


AT = "2026-11-21T12:00:{}Z"
PREFIX = "(EngineCore_0 pid=7) WARNING 11-21 12:00:01 [jit_monitor.py:120]"
END = "This causes a latency spike; consider extending warmup to cover this shape/config."
TRITON = f"{PREFIX} Triton kernel JIT compilation during inference: _topk. {END}"
TILELANG = f"{PREFIX} TileLang JIT compilation during inference: mhc. {END}"
NOISE = 'INFO: 10.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK'
ZERO = 1_795_262_400.0


def log(*lines: tuple[str, str]) -> str:
    return "\n".join(f"{AT.format(second)} {text}" for second, text in lines)


def test_each_is_reported_with_the_kubelets_instant() -> None:
    text = log(
        ("01.5", NOISE), ("02.123456789", TRITON), ("03", NOISE), ("04", TILELANG)
    )
    assert vllm_log.compilations(text) == (ZERO + 2.123456, ZERO + 4)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(log(("01", NOISE)), id="none"),
        pytest.param("", id="empty log"),
        pytest.param(TRITON, id="no instant"),
        pytest.param(
            f"2026-11-21T12:00:00 {TRITON}", id="an instant without a zone"
        ),
        pytest.param(f"99999-99-99T00:00:00Z {TRITON}", id="not an instant"),
        pytest.param(
            log(
                (
                    "01",
                    "Kernel JIT monitor activated; monitored JIT compilations during inference",
                )
            ),
            id="start",
        ),
    ],
)
def test_no_compilation(text: str) -> None:
    assert vllm_log.compilations(text) == ()


def test_causes_have_reasons_of_the_operator() -> None:
    assert {cause.reason for cause in VLLM.log_causes} <= set(vars(Reason).values())


def cost(unit: str) -> float:
    """CPU seconds for a log of long lines of this alone, the least of three."""
    log = ((unit * 200)[:2000] + "\n") * 32
    seconds = []
    for _ in range(3):
        began = time.thread_time()
        VLLM.startup_phases(log)
        seconds.append(time.thread_time() - began)
    return min(seconds)


def test_a_line_that_begins_a_setting_again_and_again_costs_little_more_than_another() -> (
    None
):
    assert cost("Initializing a V1 LLM engine , ") < 8 * cost(
        "Initializing a V1 , , , , , , "
    )
