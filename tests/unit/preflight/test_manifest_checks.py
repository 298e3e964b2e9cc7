"""Objects of several kinds in one manifest, and sweeps: what is said of each, and of all variants
together."""

from typing import Any

import pytest
from benchrun.preflight.manifest_checks import (
    Checked,
    Known,
    check_object,
    check_sweep,
)
from benchrun.preflight.request_volume import volume_of
from benchrun.sizing import model_shape
from unit.api.spec_cases import minimal
from unit.golden_messages import golden
from unit.preflight.checks import manifest, messages, spec
from unit.sizing.configs import LLAMA_8B

ARGS = "spec.template.server.args"


def sweep(
    template: dict[str, Any] | None = None,
    *,
    known: Known | None = None,
    **changes: Any,
) -> Checked:
    body = {
        "template": minimal(template),
        "matrix": {"variants": [{"name": "base"}, {"name": "other"}]},
        **changes,
    }
    whole = {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkSweep",
        "metadata": {"name": "s"},
        "spec": body,
    }
    return check_sweep(whole, known or Known())


@pytest.mark.parametrize(
    ("body", "level", "text"),
    [
        (
            {"kind": "Secret", "apiVersion": "v1"},
            "Note",
            "not a benchmark; not checked",
        ),
        ({"kind": "", "apiVersion": "v1"}, "Note", "not a benchmark; not checked"),
        (
            {"kind": "BenchmarkRuns", "apiVersion": "benchrun.dev/v1alpha1"},
            "Error",
            "'BenchmarkRuns': this benchrun knows BenchmarkRun, BenchmarkSweep",
        ),
        (
            {"apiVersion": "benchrun.dev/v1"},
            "Error",
            "'': this benchrun knows BenchmarkRun, BenchmarkSweep",
        ),
    ],
)
def test_a_kind_that_is_none_of_ours(
    body: dict[str, Any], level: str, text: str
) -> None:
    found = check_object(body, Known())
    assert [(r.level, r.path, r.text) for r in found.remarks] == [
        (level, "kind", text)
    ]
    assert found.volume is None


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"name": "a"}, "a"),
        ({"generateName": "b-"}, "b-"),
        ({"name": "a", "generateName": "b-"}, "a"),
        ({}, ""),
        (None, ""),
    ],
)
def test_an_object_is_called_what_it_is_called(metadata: Any, name: str) -> None:
    assert check_object(manifest(metadata=metadata), Known()).name == name


def test_a_kind_is_checked_by_its_own_rules() -> None:
    run, swept = (
        check_object({**manifest(), "kind": kind}, Known())
        for kind in ("BenchmarkRun", "BenchmarkSweep")
    )
    assert not run.has_errors
    assert "spec.template" in messages(swept, "Error")


def test_remarks_on_the_template_name_its_field() -> None:
    found = sweep({"runDeadlineSeconds": 10, "workloads.0.requests": 5})
    assert "spec.template.runDeadlineSeconds" not in messages(found, "Error")
    assert "spec.template.workloads[0].requests" in messages(found, "Warning")
    assert ARGS in messages(found, "NotChecked")
    assert all(remark.path.startswith("spec.") for remark in found.remarks)


@pytest.mark.parametrize(
    ("variants", "text"),
    [
        (1, "v0: vLLM 0.32.0 has no flag --nope"),
        (3, "v0, v1, v2: vLLM 0.32.0 has no flag --nope"),
        (4, "v0, v1, v2 and 1 more: vLLM 0.32.0 has no flag --nope"),
    ],
)
def test_variants_that_share_a_fault_are_named_together(
    variants: int, text: str
) -> None:
    wrong = [{"name": f"v{n}", "args": ["--nope"]} for n in range(variants)]
    found = sweep(matrix={"variants": [{"name": "base"}, *wrong]})
    assert messages(found, "Error") == {"spec.matrix": text}


def test_a_template_argument_is_reported_at_the_template() -> None:
    found = sweep(
        {"server.args": ["--nope"]},
        matrix={"variants": [{"name": "a", "args": ["--neither"]}]},
    )
    assert [(r.path, r.text) for r in found.remarks if r.level == "Error"] == [
        (f"{ARGS}[0]", "vLLM 0.32.0 has no flag --nope"),
        ("spec.matrix", "vLLM 0.32.0 has no flag --neither"),
    ]


def test_the_config_of_the_templates_model_holds_for_variants_that_keep_it() -> (
    None
):
    known = Known(
        shape=model_shape(LLAMA_8B | {"max_position_embeddings": 1000}),
        gpu_bytes=2**36,
        weights_bytes=2**33,
    )
    other = {"name": "large", "model": {"name": "another"}}
    found = sweep(known=known, matrix={"variants": [{"name": "base"}, other]})
    errors = messages(found, "Error")
    assert list(errors) == ["spec.template.workloads[0].dataset"]
    assert messages(found, "NotChecked")[
        "spec.template.workloads[0].dataset"
    ].startswith("large: ")
    golden(
        errors["spec.template.workloads[0].dataset"],
        messages(found, "NotChecked")[ARGS],
    )


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (249, "249, but measuring alone takes 250: not all runs will be started"),
        (250, None),
        (None, None),
    ],
)
def test_a_budget_is_held_against_all_variants(
    budget: int | None, text: str | None
) -> None:
    template = {"server.resources": {"limits": {"nvidia.com/gpu": 1}}}
    changes: dict[str, Any] = {} if budget is None else {"gpuSecondsBudget": budget}
    assert (
        messages(sweep(template, **changes), "Warning").get("spec.gpuSecondsBudget")
        == text
    )


def test_a_budget_of_a_load_that_tells_no_time_is_not_held_against_anything() -> (
    None
):
    template = {
        "server.resources": {"limits": {"nvidia.com/gpu": 1}},
        "workloads.0.load": {"concurrencies": [1]},
    }
    found = sweep(template, gpuSecondsBudget=1)
    assert "spec.gpuSecondsBudget" not in messages(found, "Warning")
    assert found.volume is not None
    assert found.volume.gpu_seconds is None


def test_one_replication_is_told_what_three_would_tell() -> None:
    text = "with 1, each variant is measured on a single server; 3 show how much servers differ by chance"
    assert messages(sweep(), "Note")["spec.replications"] == text


def test_what_replications_can_find_is_told_before() -> None:
    text = messages(sweep(replications=5), "Note")["spec.replications"]
    golden(text)


def test_every_figure_of_the_volume_is_that_of_all_runs() -> None:
    template = {
        "server.resources": {"limits": {"nvidia.com/gpu": 2}},
        "workloads.0.load": {"requestRates": ["1", "inf"]},
    }
    one = volume_of(spec(template))
    whole = sweep(
        template,
        replications=3,
        matrix={
            "variants": [
                {"name": "base"},
                {"name": "big", "resources": {"limits": {"nvidia.com/gpu": 4}}},
            ]
        },
    ).volume
    assert whole is not None
    assert (one.runs, whole.runs) == (1, 6)
    assert (whole.gpus, whole.gpu_seconds) == (4, 3 * 100 * (2 + 4))
    for figure in (
        "stages",
        "requests",
        "probe_stages",
        "open_stages",
        "least_seconds",
        "warmup_seconds",
    ):
        assert getattr(whole, figure) == 6 * getattr(one, figure), figure
    assert (
        whole.stages,
        whole.open_stages,
        whole.least_seconds,
        whole.warmup_seconds,
    ) == (
        12,
        6,
        600,
        360,
    )


@pytest.mark.parametrize(
    "matrix",
    [
        {
            "variants": [
                {
                    "name": "a",
                    "model": {
                        "name": "m",
                        "revision": "r",
                        "source": {"path": {"path": "/m"}},
                    },
                }
            ]
        },
        {
            "grid": [
                {"name": n, "values": [{"name": "1", "image": "x"}]} for n in "ab"
            ]
        },
    ],
)
def test_a_matrix_that_makes_no_runs(matrix: dict[str, Any]) -> None:
    found = sweep(matrix=matrix)
    assert found.volume is None
    (error,) = [remark for remark in found.remarks if remark.level == "Error"]
    assert error.path.startswith("spec.matrix")
    golden(error.text)


@pytest.mark.parametrize(
    ("template", "changes", "path"),
    [
        ({}, {"baseline": "none"}, "spec.baseline"),
        ({}, {"replicatons": 3}, "spec.replicatons"),
        ({"repeats": 0}, {}, "spec.template.repeats"),
        ({"server.tensorParallel": 4}, {}, "spec.template.server.tensorParallel"),
        ({}, {"matrix": {}}, "spec.matrix"),
    ],
)
def test_an_object_that_the_api_server_would_reject_is_an_error(
    template: dict[str, Any], changes: dict[str, Any], path: str
) -> None:
    golden(messages(sweep(template, **changes), "Error")[path])


# Several objects in a manifest.


def test_each_object_is_checked_as_its_kind() -> None:
    bodies = [
        manifest(),
        manifest({"repeats": 0}),
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf"}},
        {
            "apiVersion": "benchrun.dev/v1alpha1",
            "kind": "BenchmarkRune",
            "metadata": {"name": "x"},
        },
    ]
    found = [check_object(body, Known()) for body in bodies]
    assert [(each.kind, each.name, each.has_errors) for each in found] == [
        ("BenchmarkRun", "chat", False),
        ("BenchmarkRun", "chat", True),
        ("Secret", "hf", False),
        ("BenchmarkRune", "x", True),
    ]
