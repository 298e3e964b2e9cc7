"""What the arguments of `vllm serve` tell."""

import pytest
from benchrun.api import BenchmarkRunStatus
from benchrun.report.export.formats import flags_of, parallelism_of, parsed
from benchrun_client.engines import ENGINES
from hypothesis import given, strategies as st
from unit.report.export.runs import ARGS, endpoint_spec, run, status
from unit.report.export.split_runs import split_run, split_status

VLLM = ENGINES["VLLM"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param([], {}, id="none"),
        pytest.param(["/models/m", "--port=8000"], {"--port": "8000"}, id="equals"),
        pytest.param(
            ["--max-model-len", "4096"], {"--max-model-len": "4096"}, id="next-word"
        ),
        pytest.param(
            ["--enforce-eager", "--seed", "-1"],
            {"--enforce-eager": None, "--seed": "-1"},
            id="switch-and-number",
        ),
        pytest.param(
            ["--max_model_len=1", "--max-model-len=2"],
            {"--max-model-len": "2"},
            id="the-last-holds",
        ),
        pytest.param(["-tp", "4"], {"--tensor-parallel-size": "4"}, id="short"),
        pytest.param(["--port=8000", "stray"], {"--port": "8000"}, id="stray-word"),
    ],
)
def test_flags(args: list[str], expected: dict[str, str | None]) -> None:
    assert parsed(args, VLLM) == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param([], (1, 1, 1, 1), id="default"),
        pytest.param(["-tp=2", "-pp", "3", "-dp=4"], (2, 3, 4, 1), id="all"),
        pytest.param(
            ["-tp=2", "-dp=4", "--enable-expert-parallel"],
            (2, 1, 4, 8),
            id="expert",
        ),
        pytest.param(["-tp=$(TP)", "-pp=0"], (1, 1, 1, 1), id="no-number"),
    ],
)
def test_parallelism(args: list[str], expected: tuple[int, ...]) -> None:
    assert tuple(parallelism_of(parsed(args, VLLM), VLLM).values()) == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param(
            ["--a=b=c"], {"--a": "b=c"}, id="only-the-first-equals-splits"
        ),
        pytest.param(["--a="], {"--a": ""}, id="empty-value"),
        pytest.param(["--a", "x", "y"], {"--a": "x"}, id="one-value-a-flag"),
        pytest.param(["x", "--a"], {"--a": None}, id="a-word-before-any-flag"),
        pytest.param(
            ["--a", "--b", "x"], {"--a": None, "--b": "x"}, id="a-flag-is-no-value"
        ),
        pytest.param(["--a", "-0.5"], {"--a": "-0.5"}, id="a-negative-number-is"),
        pytest.param(["--a", "-1e3"], {"--a": "-1e3"}, id="with-an-exponent"),
        pytest.param(["--a=1", "-5"], {"--a": "1"}, id="a-number-of-no-flag"),
        pytest.param(["--a=1", "--a"], {"--a": None}, id="a-switch-after-a-value"),
        pytest.param(
            ["--a_b_c", "d_e"],
            {"--a-b-c": "d_e"},
            id="values-keep-their-underscores",
        ),
        pytest.param(
            ["-pp=2", "-dp", "3"],
            {"--pipeline-parallel-size": "2", "--data-parallel-size": "3"},
            id="short",
        ),
        pytest.param(["-tpx=2"], {"--tpx": "2"}, id="nearly-short"),
    ],
)
def test_words_become_flags(
    args: list[str], expected: dict[str, str | None]
) -> None:
    assert parsed(args, VLLM) == expected


@given(
    st.dictionaries(
        st.from_regex(r"--[a-z][a-z0-9-]{0,12}", fullmatch=True),
        st.text(max_size=8),
        max_size=6,
    )
)
def test_what_is_written_with_equals_is_read_back(flags: dict[str, str]) -> None:
    assert (
        parsed([f"{name}={value}" for name, value in flags.items()], VLLM) == flags
    )


@given(st.lists(st.text(max_size=8), max_size=8))
def test_no_argument_is_too_odd(args: list[str]) -> None:
    assert min(parallelism_of(parsed(args, VLLM), VLLM).values()) >= 1


@pytest.mark.parametrize(
    "value", ["", "0", "00", "-2", "2.0", "two", "²", "1e1", " 4", None]
)
def test_a_size_that_is_no_number_counts_as_not_given(value: str | None) -> None:
    assert set(
        parallelism_of({"--tensor-parallel-size": value}, VLLM).values()
    ) == {1}


@pytest.mark.parametrize(
    ("args", "expert"),
    [
        (["-tp=4"], 1),
        (["-tp=4", "--enable-expert-parallel"], 4),
        (["-dp=2", "--enable-expert-parallel"], 2),
    ],
)
def test_experts_are_spread_over_tensor_and_data_ranks_where_requested(
    args: list[str], expert: int
) -> None:
    assert parallelism_of(parsed(args, VLLM), VLLM)["ep"] == expert


def test_what_ran_comes_before_what_was_requested() -> None:
    assert flags_of(run(of_status=status(args=["serve", "--seed=7"]))) == {
        "--seed": "7"
    }
    assert flags_of(run(of_status=status(args=[]))) == parsed(ARGS, VLLM)
    assert flags_of(run(of_status=BenchmarkRunStatus())) == parsed(ARGS, VLLM)


@pytest.mark.parametrize(
    "documented", [True, False], ids=["by-what-ran", "by-what-was-asked-for"]
)
def test_every_role_has_flags_of_its_own_and_decode_answers(
    documented: bool,
) -> None:
    split = split_run(of_status=split_status(args=documented))
    assert parallelism_of(flags_of(split, "prefill"), VLLM) == {
        "tp": 1,
        "pp": 1,
        "dp": 1,
        "ep": 1,
    }
    assert parallelism_of(flags_of(split, "decode"), VLLM) == {
        "tp": 1,
        "pp": 1,
        "dp": 2,
        "ep": 2,
    }
    assert flags_of(split) == flags_of(split, "decode")


def test_the_arguments_of_an_endpoint_are_unknown() -> None:
    assert (
        flags_of(run(of_spec=endpoint_spec(), of_status=BenchmarkRunStatus())) == {}
    )
