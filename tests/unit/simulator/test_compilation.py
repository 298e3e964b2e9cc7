"""When kernels are compiled, and what the log says then."""

import re

from benchrun_simulator.compilation import Compilations, Compiler

VLLMS_WARNING = re.compile(
    r"Triton kernel JIT compilation during inference: \w+\. "
    r"This causes a latency spike; consider extending warmup to cover this shape/config\."
)


def stalls(compilations: Compilations, *prompts: int) -> tuple[list[float], list[str]]:
    lines: list[str] = []
    compiler = Compiler(compilations, warn=lines.append)
    found = [compiler.stall_seconds(number, prompt_tokens=tokens) for number, tokens in enumerate(prompts, 1)]
    return found, lines


def test_none_by_default() -> None:
    assert stalls(Compilations(), 1, 2, 3) == ([0, 0, 0], [])


def test_one_at_the_named_request_in_vllms_words() -> None:
    found, lines = stalls(Compilations(at_request=2, seconds=0.4), 8, 8, 8)
    assert found == [0, 0.4, 0]
    assert len(lines) == 1
    assert VLLMS_WARNING.fullmatch(lines[0])


def test_each_power_of_two_compiles_once() -> None:
    found, lines = stalls(Compilations(for_each_length=True, seconds=0.4), 100, 128, 129, 256, 90, 1)
    assert found == [0.4, 0, 0.4, 0, 0, 0.4]
    assert [warning.split(": ")[1].split(".")[0] for warning in lines] == [
        "_kernel_up_to_128_tokens",
        "_kernel_up_to_256_tokens",
        "_kernel_up_to_1_tokens",
    ]


def test_a_request_admitted_twice_compiles_once() -> None:
    compiler = Compiler(Compilations(at_request=1, seconds=0.4), warn=lambda _: None)
    assert [compiler.stall_seconds(1, prompt_tokens=5) for _ in range(2)] == [0.4, 0]
