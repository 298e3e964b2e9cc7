"""Whatever is in a manifest: an answer, never a traceback; and what the operator would refuse,
`check` refuses at that field."""

from typing import Any

from benchrun.api import BenchmarkRunSpec
from benchrun.preflight.manifest_checks import (
    CHECKS,
    Known,
    check_object,
    check_run,
)
from benchrun.preflight.remark import LEVELS
from benchrun.sizing import model_shape
from hypothesis import given, settings, strategies as st
from unit.api.agreement import broken_in_python
from unit.api.generated_specs import RUN_SPECS
from unit.api.spec_cases import minimal
from unit.preflight.checks import manifest
from unit.sizing.configs import LLAMA_8B

KNOWN = Known(
    shape=model_shape(LLAMA_8B),
    gpu_bytes=80 * 2**30,
    weights_bytes=15 * 2**30,
    overhead_bytes=2**30,
)
SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
)
WORDS = st.sampled_from(
    [
        "spec",
        "metadata",
        "name",
        "generateName",
        "apiVersion",
        "kind",
        "model",
        "server",
        "workloads",
        "load",
        "args",
    ]
) | st.text(max_size=3)
ANYTHING = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4)
    ),
)
FLAGS = st.lists(
    st.sampled_from(
        [
            "--max-model-len",
            "=",
            "8k",
            "-tp",
            "--no-such",
            "--enforce-eager",
            "-O",
            "--kv-cache-dtype=fp9",
            "--",
            "-",
            "",
        ]
    )
    | st.text(alphabet="-=.a1", max_size=6),
    max_size=6,
)


@given(
    st.dictionaries(WORDS, ANYTHING, max_size=4),
    st.sampled_from([*CHECKS, "Secret", ""]),
)
def test_an_object_of_any_form_is_answered(body: dict[str, Any], kind: str) -> None:
    found = check_object({**body, "kind": kind}, KNOWN)
    assert found.remarks != ()
    assert all(remark.level in LEVELS and remark.text for remark in found.remarks)


@given(st.dictionaries(st.sampled_from(list(minimal())), ANYTHING, min_size=1))
def test_a_spec_of_any_form_is_answered_at_its_fields(
    changes: dict[str, Any],
) -> None:
    found = check_run(manifest(changes), KNOWN)
    broken, something_else = broken_in_python(BenchmarkRunSpec, minimal(changes))
    assert found.has_errors or not (broken or something_else)
    assert {
        r.path.split(".")[0].split("[")[0]
        for r in found.remarks
        if r.level == "Error"
    } <= {"spec"}


@settings(max_examples=100)
@given(RUN_SPECS)
def test_every_rule_that_is_broken_is_named_at_its_field(
    spec: dict[str, Any],
) -> None:
    found = check_run(manifest(spec=spec), KNOWN)
    broken, _ = broken_in_python(BenchmarkRunSpec, spec)
    errors = {
        (remark.path, remark.text)
        for remark in found.remarks
        if remark.level == "Error"
    }
    assert (found.volume is None) is bool(broken)
    if broken:
        assert errors <= broken
        assert {path for path, _ in errors} == {path for path, _ in broken}


@given(FLAGS)
def test_arguments_of_any_form_are_answered_each_at_its_place(
    args: list[str],
) -> None:
    found = check_run(manifest({"server.args": args}), KNOWN)
    places = [
        r.path for r in found.remarks if r.path.startswith("spec.server.args[")
    ]
    assert {
        int(path.removeprefix("spec.server.args[").rstrip("]")) for path in places
    } <= set(range(len(args)))
