"""Server engines: what each of them has, by names that all share."""

from typing import get_args

import pytest
from benchrun.api import SAMPLE_FIGURES
from benchrun.sizing import ServeArgs
from benchrun_client.engines import (
    ENGINES,
    Engine,
    EngineName,
    EngineSetting,
    ServedFiles,
)
from benchrun_client.engines.metrics_text import is_whole
from benchrun_simulator.dialects import DIALECTS

SGLANG = ENGINES["SGLang"]
NAMES = sorted(ENGINES)
MODEL = ServedFiles(
    "/model", "tiny", revision="r1", tokenizer="org/tokenizer", chat_template="/t"
)


@pytest.fixture(params=NAMES)
def engine(request: pytest.FixtureRequest) -> Engine:
    name: EngineName = request.param
    return ENGINES[name]


def test_engines_stand_beside_each_other() -> None:
    assert {name: engine.port for name, engine in ENGINES.items()} == {
        "LlamaCpp": 8080,
        "SGLang": 30000,
        "TensorRTLLM": 8000,
        "VLLM": 8000,
    }


def test_every_name_of_an_engine_in_specs_has_one_that_the_simulator_speaks_too() -> (
    None
):
    assert set(get_args(EngineName)) == set(ENGINES) == set(DIALECTS)


def test_every_figure_of_an_engine_is_one_of_a_sample(engine: Engine) -> None:
    figures = {*engine.sample_series, *engine.sample_sums}
    assert figures <= SAMPLE_FIGURES.keys()
    assert {"running", "waiting"} <= engine.sample_series.keys()
    assert not engine.sample_series.keys() & engine.sample_sums.keys()


def test_no_engine_has_a_counter_by_a_name_of_its_own(engine: Engine) -> None:
    every = ENGINES["VLLM"]
    known = {*every.counter_series, *every.labelled_counters}
    assert {
        *engine.counter_series,
        *engine.counter_sums,
        *engine.counters_at_first_event,
    } <= known


def test_a_flag_of_a_setting_is_read_by_its_beginning_too(engine: Engine) -> None:
    sizes = (
        EngineSetting.MAX_RUNNING,
        EngineSetting.MAX_TOKENS,
        EngineSetting.TENSOR_PARALLEL,
    )
    flags = {engine.setting_flags.get(size) for size in sizes} - {None}
    assert flags <= engine.readable_flags


def test_what_the_operator_gives_is_refused_to_users(engine: Engine) -> None:
    own = [arg for arg in engine.serve_args(MODEL, ()) if arg.startswith("--")]
    refused = [arg for arg in own if engine.owned_flag([arg]) is not None]
    assert set(own) - set(refused) <= {"--enable-metrics", "--metrics"}


def test_a_flag_is_read_as_the_engine_writes_it(engine: Engine) -> None:
    other = {"-": "_", "_": "-"}[engine.flag_separator]
    for name in engine.setting_flags.values():
        assert other not in name
        args = ServeArgs.of(
            [f"--{name.replace(engine.flag_separator, other)}=1"], engine
        )
        assert args.given == {name: "1"}


def test_sglang_is_told_model_name_port_and_files() -> None:
    assert SGLANG.serve_args(MODEL, ()) == [
        "--model-path=/model",
        "--served-model-name=tiny",
        "--port=30000",
        "--host=0.0.0.0",
        "--enable-metrics",
        "--revision=r1",
        "--tokenizer-path=org/tokenizer",
        "--chat-template=/t",
    ]


def test_a_command_carries_what_it_has_a_placeholder_for() -> None:
    command = ["python3", "-m", "sglang.launch_server", "--model-path", "$(MODEL)"]
    assert SGLANG.command_problem(command) is None
    assert SGLANG.filled_in(command, MODEL)[-1] == "/model"
    assert not any(
        "--model-path" in arg for arg in SGLANG.serve_args(MODEL, command)
    )


@pytest.mark.parametrize(
    ("body", "empty"),
    [
        ("Cache flushed.\nPlease check backend logs for more details.", True),
        ("Flush cache failed.", False),
        ("", False),
    ],
)
def test_sglang_says_that_its_cache_is_empty(body: str, empty: bool) -> None:
    assert SGLANG.is_reset(body) is empty


@pytest.mark.parametrize(
    "line",
    [
        "[2026-07-27 08:54:44] The server is fired up and ready to roll!",
        "[2026-03-11 13:53:23 TP0] KV Cache is allocated.",
        "[2026-03-11 13:53:23 DP1 TP0] KV Cache is allocated.",
    ],
)
def test_lines_of_sglang_begin_with_instant_and_ranks(line: str) -> None:
    found = SGLANG.log_prefix.match(line)
    assert found is not None
    assert line[found.end() :].startswith(("The server", "KV Cache"))


OF_OPEN_METRICS = (
    "# TYPE a_seconds counter\n# UNIT a_seconds seconds\na_seconds_total 1.5\n"
)


@pytest.mark.parametrize(
    ("page", "is_page_cut"),
    [
        ("", False),
        ("a 12\n", False),
        ("a 12\r\n", False),
        ("a 12", True),
        ("a 12\n# TYPE b gau", True),
        (OF_OPEN_METRICS, True),
        (OF_OPEN_METRICS + "# EOF", False),
        (OF_OPEN_METRICS + "# EOF\n", False),
        (OF_OPEN_METRICS + "# EOF\r\n", False),
        (OF_OPEN_METRICS + "# EO", True),
        ("# EOF\n", False),
        ("a 12\n# EOF\na 13\n# EOF\n", True),
        ("a 12\n# EOF\na 13\n", True),
        ('a_total 3 # {trace_id="4b"} 1\n', True),
        ('a_total 3 # {trace_id="4b"} 1\n# EOF\n', False),
    ],
)
def test_a_page_is_whole_where_its_format_says_that_it_ends(
    page: str, is_page_cut: bool
) -> None:
    assert is_whole(page) is not is_page_cut
