"""Servers of two sides: what is the same, what differs, on purpose or not, and what is not known."""

from dataclasses import replace
from typing import Any

import pytest
from benchrun.api import ComparedSetting
from benchrun.judge.comparison.comparability import (
    MeasuredRun,
    obstacle,
    servers_of,
)
from benchrun.judge.comparison.compare import Compared
from benchrun.judge.comparison.settings import (
    MAX_LISTED,
    compared_settings,
    in_words,
    names_of,
)
from unit.judge.comparison.sides import compared, row, run
from unit.plan.specs import endpoint_body, spec

REAL = {
    "enable_prefix_caching": "True",
    "enable_chunked_prefill": "True",
    "dtype": "bfloat16",
    "quantization": "None",
    "cache_dtype": "auto",
}


def served(
    name: str,
    *args: str,
    image: str = "vllm/vllm-openai:v0.32.0",
    reported: dict[str, str] | None = None,
    server: dict[str, Any] | None = None,
    **changes: Any,
) -> MeasuredRun:
    started = {"image": image, "args": list(args), **(server or {})}
    told = REAL if reported is None else reported
    engine = started.get("engine", "VLLM")
    return run(
        name,
        [row(repeats=5, cv=1)],
        run_spec=spec(server=started, **changes),
        server={"engine": engine, "version": "1", "reported": told},
    )


def settings(before: MeasuredRun, after: MeasuredRun) -> dict[str, ComparedSetting]:
    found = compared_settings(servers_of([before], [after]))
    return {each.setting: each for each in found}


def told(found: Compared) -> dict[str, tuple[str, bool]]:
    return {
        each.setting: (each.word, each.on_purpose)
        for each in found.settings
        if each.word == "Differs"
    }


def test_every_setting_is_the_same_differs_or_is_unknown() -> None:
    before = served("a", "--max-num-seqs=8", "--enforce-eager")
    after = served(
        "b",
        "--max-num-seqs=16",
        reported={**REAL, "enable_prefix_caching": "False"},
    )
    found = settings(before, after)
    words = {name: each.word for name, each in found.items()}
    assert {name for name, word in words.items() if word == "Same"} == {
        "engine",
        "release",
        "dtype",
        "quantization",
        "type of the KV cache",
        "chunked prefill",
    }
    assert {
        n: (e.baseline, e.value, e.on_purpose, e.changes)
        for n, e in found.items()
        if e.word == "Differs"
    } == {
        "prefix cache": ("on", "off", False, ["Speed"]),
        "most running requests": ("8", "16", True, ["Speed", "Memory"]),
    }
    assert [n for n, e in found.items() if e.is_half_known] == ["eager execution"]
    assert found["speculation"].baseline is None
    assert found["speculation"].word == "Unknown"


def test_a_comparison_begins_with_what_differs() -> None:
    after = served("b", reported={**REAL, "enable_prefix_caching": "False"})
    found = compared(served("a"), after, limit=50, one_is_enough=True)
    begin = (
        "Settings differ that were not varied on purpose: prefix cache: on in a, off in b. "
        "not regressed"
    )
    assert found.message.startswith(begin)
    assert found.answer.startswith("not regressed")
    assert told(found) == {"prefix cache": ("Differs", False)}
    alike = compared(served("a"), served("b"), limit=50)
    assert alike.message.startswith(alike.answer)


CHANGES_ANSWERS = [
    ("dtype", {"dtype": "float16", "cache_dtype": "bfloat16"}),
    ("quantization", {"quantization": "fp8"}),
    ("type of the KV cache", {"cache_dtype": "fp8"}),
]


@pytest.mark.parametrize(("name", "reported"), CHANGES_ANSWERS)
def test_what_changes_answers_by_itself_makes_sides_not_comparable(
    name: str, reported: dict[str, str]
) -> None:
    # Another argument, so that the servers are not of one definition.
    after = served("b", "--max-num-seqs=8", reported={**REAL, **reported})
    found = compared(served("a"), after, limit=5)
    assert (found.outcome, found.gate) == ("NotComparable", "Inconclusive")
    assert name in found.message
    assert told(found)[name] == ("Differs", False)


def test_what_changes_answers_on_purpose_is_compared_and_told() -> None:
    after = served(
        "b", "--quantization=fp8", reported={**REAL, "quantization": "fp8"}
    )
    found = compared(served("a"), after)
    assert found.outcome == "NoDetectableDifference"
    assert told(found) == {"quantization": ("Differs", True)}
    assert "quantization" not in found.message


def test_an_endpoints_settings_are_nobodys_to_set() -> None:
    def at(url: str, name: str, dtype: str) -> MeasuredRun:
        given = endpoint_body({"url": url})
        return run(
            name,
            [row(repeats=5, cv=1)],
            run_spec=spec(**{"server": None, **given}),
            server={"reported": {"dtype": dtype}},
        )

    before = at("http://a.lab:8000", "a", "bfloat16")
    after = at("http://b.lab:8000", "b", "float16")
    found = compared(before, after)
    assert found.outcome == "NoDetectableDifference"
    assert told(found) == {"dtype": ("Differs", False)}


def engines(**reported: str) -> tuple[MeasuredRun, MeasuredRun]:
    llamacpp = {"engine": "LlamaCpp", "args": ["--parallel", "4"]}
    model = {"name": "Qwen/Qwen3-4B", "tokenizer": "org/m"}
    source = {"source": {"path": {"path": "/models/m.gguf"}}}
    before = served("a", "--max-num-seqs=8", model=model)
    after = served(
        "b",
        image="llama:1",
        server=llamacpp,
        reported={"dtype": "float32", "total_slots": "4", **reported},
        model=model | source,
    )
    return before, after


def test_engines_may_be_compared_and_their_differences_are_named() -> None:
    before, after = engines()
    found = compared(before, after)
    assert found.outcome == "NoDetectableDifference"
    assert found.message.startswith(
        "The engines differ: vLLM in a, llama.cpp in b. "
    )
    assert "Known of one side only: " in found.message
    assert told(found) == {
        "engine": ("Differs", True),
        # Another engine needs other files, and nobody asked for another type.
        "dtype": ("Differs", False),
        "most running requests": ("Differs", True),
    }
    assert obstacle([before], [after], swept=True) is None


def test_servers_of_a_side_that_are_not_alike_have_all_their_values() -> None:
    sides = [
        [
            served("a1"),
            served("a2", reported={**REAL, "enable_prefix_caching": "False"}),
        ],
        [served("b1"), served("b2")],
    ]
    found = compared_settings(servers_of(*sides))
    (cache,) = (each for each in found if each.setting == "prefix cache")
    assert (cache.baseline, cache.value, cache.word) == (
        "on and off",
        "on",
        "Differs",
    )
    sides[0][1] = served("a2", reported={})
    found = compared_settings(servers_of(*sides))
    (cache,) = (each for each in found if each.setting == "prefix cache")
    assert (cache.baseline, cache.word) == (None, "Unknown")


def test_measured_caches_of_equal_servers_are_the_same() -> None:
    def holding(name: str, tokens: int) -> MeasuredRun:
        found = served(name)
        (server,) = found.status.servers
        kept = server.model_copy(update={"kv_cache_tokens": tokens})
        status = found.status.model_copy(update={"servers": [kept]})
        return replace(found, status=status)

    before = [holding("a1", 1000), holding("a2", 1004)]
    for least, word in ((1003, "Same"), (900, "Differs")):
        after = [holding("b1", least), holding("b2", least + 7)]
        found = compared_settings(servers_of(before, after))
        (cache,) = (e for e in found if e.setting == "tokens of the KV cache")
        assert (cache.baseline, cache.value) == ("1000", str(least))
        assert cache.word == word


def test_many_differences_are_counted_in_a_sentence_and_all_in_the_list() -> None:
    names = [
        "block_size",
        "max_num_seqs",
        "max_model_len",
        "max_num_batched_tokens",
        "tensor_parallel_size",
        "data_parallel_size",
    ]
    sides = servers_of(
        [served("a", reported=dict.fromkeys(names, "1"))],
        [served("b", reported=dict.fromkeys(names, "2"))],
    )
    found = compared_settings(sides)
    assert sum(each.word == "Differs" for each in found) == len(names)
    (text,) = in_words(found, names_of(sides))
    assert text.count(" in a, ") == MAX_LISTED
    assert text.endswith(f"; and {len(names) - MAX_LISTED} more")
