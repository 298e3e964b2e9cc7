"""Real vLLM: one long prompt or many short ones, with what the report says of it."""

import pytest
from kit.examples import benchrun, example, measured
from kit.kubectl import Namespace

pytestmark = pytest.mark.timeout(3000)

RUN = "BenchmarkRun"


def test_texts_packed_differently_stand_in_one_table(namespace: Namespace) -> None:
    objects = example("e4-one-long-or-many-short-tiny.yaml")
    wanted = objects["e4-packing-tiny"]
    namespace.apply(objects["e4-reviews"], wanted)
    status = measured(namespace, RUN, "e4-packing-tiny", timeout_seconds=2700)
    packed = {
        w["name"]: w["dataset"]["texts"].get("textsPerPrompt", 1)
        for w in wanted["spec"]["workloads"]
    }
    found = {row["workload"]: row["metrics"] for row in status["results"]}

    texts = {name: found[name]["completed"] * packed[name] for name in packed}
    few = texts.pop("packed-12-tenth")
    assert set(texts.values()) == {10 * few}, (
        "every other row classifies ten times as many"
    )
    # A text is a token of output, however packed; the instruction is sent once a prompt.
    assert {found[name]["total_output_tokens"] for name in texts} == set(
        texts.values()
    )
    fewest, *_, most = sorted(texts, key=lambda name: -packed[name])
    assert (
        found[most]["total_input_tokens"]
        > 1.1 * found[fewest]["total_input_tokens"]
    )
    # No copy came from the cache, which is off.
    assert {
        row["roles"][0].get("prefixHitPercent") for row in status["results"]
    } == {None}

    said = benchrun(namespace, "report", "e4-packing-tiny", "--wide")
    shown = {
        row["load point"].partition("/")[0]: row
        for row in said.table("load point", "req/s", "texts/s", "tok/s")
    }
    assert list(shown) == list(packed)
    for name, row in shown.items():
        # Three digits are shown, of the plateau where there is one; the whole stage's is vLLM's own
        # figure.
        assert float(row["texts/s"]) == pytest.approx(
            float(row["req/s"]) * packed[name], rel=0.01
        )
        assert float(row["stage tok/s"]) == pytest.approx(
            found[name]["output_throughput"], rel=0.01
        )

    # Is it full? A row for the tenth of the texts.
    in_all = said.table("texts in all", "figure", "12 a prompt")
    assert [
        row["texts in all"] for row in in_all if row["figure"] == "texts/s"
    ] == ["1920", "192"]
    # How long each took, over both repeats.
    for name, of in packed.items():
        assert found[name]["duration"] > 0
        if name != "packed-12-tenth":
            classified = found[name]["completed"] * of
            assert classified / found[name]["duration"] == pytest.approx(
                float(shown[name]["texts/s"]), rel=0.5
            )
    # What the server did is in a profile of the last workload, whatever it says on two cores.
    assert status["profile"]["evidence"]["workload"] == "single"
    assert sum(status["profile"]["kernels"].values()) > 0


def test_texts_in_one_prompt_stand_against_as_many_prompts(
    namespace: Namespace,
) -> None:
    wanted = example("e4-one-long-or-many-short-tiny.yaml")
    namespace.apply(wanted["e4-reviews"], wanted["e4-first-table-tiny"])
    status = measured(namespace, RUN, "e4-first-table-tiny", timeout_seconds=1500)
    figures = {row["workload"]: row["metrics"] for row in status["results"]}
    table = benchrun(namespace, "report", "e4-first-table-tiny").table(
        "texts in all", "figure", "all in one prompt"
    )
    assert {row["texts in all"] for row in table} == {"12", "3"}
    for row in table:
        n = row["texts in all"]
        for column, workload in (
            ("all in one prompt", f"{n}-in-one-prompt"),
            ("one a prompt", f"{n}-prompts-of-one"),
        ):
            key = {
                "total tok/s": "total_token_throughput",
                "tok/s": "output_throughput",
            }.get(row["figure"])
            assert key is None or float(row[column]) == pytest.approx(
                figures[workload][key], rel=0.01
            )


def test_a_prompt_that_was_sent_before_is_not_computed(
    namespace: Namespace,
) -> None:
    wanted = example("e4-one-long-or-many-short-tiny.yaml")
    namespace.apply(wanted["e4-reviews"], wanted["e4-served-tiny"])
    status = measured(namespace, RUN, "e4-served-tiny", timeout_seconds=1500)
    found = {row["workload"]: row for row in status["results"]}
    hits = {
        name: row["roles"][0].get("prefixHitPercent") for name, row in found.items()
    }
    assert hits["12-in-one-prompt-sent-before"] > 90
    assert hits["12-in-one-prompt"] == 0
    sent_before, computed = (
        found[name]["metrics"]["mean_ttft_ms"]
        for name in ("12-in-one-prompt-sent-before", "12-in-one-prompt")
    )
    assert sent_before < computed
