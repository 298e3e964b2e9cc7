"""The manifests that people begin with: each is accepted, brings along what it reads, and is told
of in the docs."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchrun.api import BenchmarkRunSpec, Resources
from benchrun.api.sweep import KIND as SWEEP, BenchmarkSweepSpec
from benchrun.names import API_VERSION, KIND
from benchrun.plan import planned_variants
from benchrun_client.contract.datasets import ShareGPTData, TextsData
from kit.every_case import every
from unit.api.examples import EACH, EXAMPLES, FILES, Example

DOCS = Path(__file__).parents[3] / "docs"
TINY = "-tiny.yaml"
KUBERNETES_OWN = ("ConfigMap", "PersistentVolume", "PersistentVolumeClaim")


def runs_of(example: Example) -> list[BenchmarkRunSpec]:
    """The spec of every run that comes of it; none for an object that is no benchmark."""
    if example.kind == SWEEP:
        return [
            variant.spec
            for variant in planned_variants(
                BenchmarkSweepSpec.model_validate(example.body["spec"])
            )
        ]
    return (
        [BenchmarkRunSpec.model_validate(example.body["spec"])]
        if example.kind == KIND
        else []
    )


def config_maps_read(example: Example) -> Iterator[tuple[str, str]]:
    """Name and key of every ConfigMap that a dataset of it reads."""
    for run in runs_of(example):
        for workload in run.workloads:
            file = workload.dataset.file
            if file is not None and file.config_map is not None:
                yield file.config_map.name, file.config_map.key


def resources_of(run: BenchmarkRunSpec) -> list[Resources]:
    """Of each kind of vLLM server that the run starts."""
    split = run.server.disaggregated if run.server is not None else None
    if split is not None:
        return [split.prefill.resources, split.decode.resources]
    return [run.started.resources] if run.started is not None else []


def millicores_of(run: BenchmarkRunSpec) -> int:
    """That all its vLLM servers may take together."""
    server = run.server
    split = server.disaggregated if server is not None else None
    if server is None:
        copies = [1]
    elif split is None:
        copies = [server.replicas * server.nodes_per_replica]
    else:
        copies = [split.prefill.replicas, split.decode.replicas]
    limits = [str(each.limits["cpu"]) for each in resources_of(run)]
    millicores = [
        int(limit[:-1]) if limit.endswith("m") else 1000 * int(limit)
        for limit in limits
    ]
    return sum(one * many for one, many in zip(millicores, copies, strict=True))


@every("example", EACH)
def test_every_example_is_valid(example: Example) -> None:
    if example.kind in KUBERNETES_OWN:
        assert example.body["apiVersion"] == "v1"
        assert len(json.dumps(example.body)) < 64 * 1024
    else:
        assert example.body["apiVersion"] == API_VERSION
        assert runs_of(example)


@every("example", EACH)
def test_what_it_reads_from_a_config_map_stands_before_it_in_the_same_file(
    example: Example,
) -> None:
    before = [
        e
        for e in EXAMPLES[: EXAMPLES.index(example)]
        if e.file == example.file and e.kind == "ConfigMap"
    ]
    there = {(found.name, key) for found in before for key in found.body["data"]}
    assert set(config_maps_read(example)) <= there


@every(
    "example",
    [each for each in EACH if each.id is not None and TINY in str(each.id)],
)
def test_a_tiny_one_downloads_nothing(example: Example) -> None:
    for run in runs_of(example):
        assert run.model.source.path is not None
        files = [workload.dataset.file for workload in run.workloads]
        assert all(file is None or file.config_map is not None for file in files)


@every("example", EACH)
def test_servers_without_a_gpu_take_little_more_than_one_core(
    example: Example,
) -> None:
    for run in runs_of(example):
        if run.started is not None and run.started.image.endswith(
            "vllm-openai:dev"
        ):
            assert ("VLLM_CPU_OMP_THREADS_BIND", "0") in [
                (each.name, each.value) for each in run.started.env
            ]
            assert 1000 <= millicores_of(run) <= 1200


@every("example", EACH)
def test_what_is_downloaded_is_named_with_its_commit(example: Example) -> None:
    for run in runs_of(example):
        for file in (workload.dataset.file for workload in run.workloads):
            if file is not None and file.url is not None:
                assert re.search(r"/[0-9a-f]{40}/", file.url)


def test_no_two_objects_of_a_kind_have_one_name() -> None:
    assert {
        of: n
        for of, n in Counter((e.kind, e.name) for e in EXAMPLES).items()
        if n > 1
    } == {}


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_each_experiment_is_there_for_a_gpu_and_tiny(number: int) -> None:
    large, tiny = sorted(
        path.name for path in FILES if path.name.startswith(f"e{number}-")
    )[::-1]
    assert tiny == large.replace(".yaml", TINY)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_tiny_one_asks_what_the_large_one_does(number: int) -> None:
    large, tiny = (
        {
            e.name.removesuffix("-tiny"): e.kind
            for e in EXAMPLES
            if e.file.startswith(f"e{number}-")
            and e.kind != "ConfigMap"
            and e.file.endswith(TINY) is is_tiny
        }
        for is_tiny in (False, True)
    )
    assert tiny == large


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if p.name[0] == "e" and p.name[1].isdigit()],
    ids=lambda p: p.name,
)
def test_a_page_walks_through_the_experiment(path: Path) -> None:
    pages = [page.read_text() for page in (DOCS / "experiments").glob("*.md")]
    assert any(f"examples/{path.name}" in page for page in pages)


def test_a_context_within_the_models_own_needs_no_override() -> None:
    """The model of the second experiment has 131,072 positions."""
    (example,) = [e for e in EXAMPLES if e.name == "e2-four-latencies"]
    (run,) = runs_of(example)
    assert run.server is not None
    assert "--max-model-len=65536" in run.server.args
    assert not [
        flag for flag in run.server.args if "rope" in flag or "hf-overrides" in flag
    ]


BY_HAND = [
    e
    for e in EXAMPLES
    if e.file
    in ("e4-one-long-or-many-short.yaml", "one-long-or-many-short-sparse.yaml")
]


@pytest.mark.parametrize("example", BY_HAND, ids=lambda e: e.name)
def test_one_text_has_the_instruction_of_one_and_many_that_of_many(
    example: Example,
) -> None:
    """By hand one row of one text had the instruction of many: another workload. All take the first
    texts of the file, as the totals of tokens do."""
    for run in runs_of(example):
        found = [workload.dataset.single for workload in run.workloads]
        texts = [data for data in found if isinstance(data, TextsData)]
        assert len(texts) == len(found)
        assert {data.order for data in texts} == {"File"}
        for data in texts:
            words = data.instruction.removeprefix("{copy} ")
            begins = (
                "For each line"
                if data.texts_per_prompt > 1
                else "For the above comment"
            )
            assert words.startswith(begins)


def objects_of_e4(name: str) -> dict[int, int]:
    """Requests by texts in a prompt, of an object by its name."""
    (run, *_) = [run for e in BY_HAND if e.name == name for run in runs_of(e)]
    return {
        workload.dataset.single.texts_per_prompt: workload.requests or 0
        for workload in run.workloads
        if isinstance(workload.dataset.single, TextsData)
        and "ten-times" not in workload.name
    }


@pytest.mark.parametrize(
    ("name", "requests"),
    [
        ("e4-packing", {400: 10, 40: 100, 20: 200, 4: 1000, 1: 4000}),
        ("e4-duplicates", {400: 100, 1: 40_000}),
        ("e4-new-instruction", {400: 100, 1: 40_000}),
        ("e4-served", {400: 1, 1: 400}),
        ("sparse", {400: 10, 20: 200, 4: 1000, 1: 4000}),
    ],
)
def test_each_table_has_its_own_n(name: str, requests: dict[int, int]) -> None:
    assert objects_of_e4(name) == requests


FROM_FILES = ("which-optimisation-files.yaml", "which-optimisation-vllm-0.8.4.yaml")


@pytest.mark.parametrize("file", FROM_FILES)
def test_the_files_of_the_author_are_sent_as_their_tool_sent_them(
    file: str,
) -> None:
    swept, *_ = [e for e in EXAMPLES if e.file == file and e.kind == SWEEP]
    for run in runs_of(swept):
        assert run.server is not None
        assert "--max-model-len=12000" in run.server.args
        for workload in run.workloads:
            rows = workload.dataset.single
            assert isinstance(rows, ShareGPTData)
            assert (rows.seed, workload.requests, workload.ignore_eos) == (
                42,
                100,
                False,
            )
            assert workload.load.request_rates == ["inf"]
            assert workload.test_request


@pytest.mark.parametrize("suffix", ["", "-tiny"])
def test_every_packing_of_the_first_table_has_as_many_texts(suffix: str) -> None:
    """n texts in one prompt, against n prompts of one: the report's table draws a row for each
    n."""
    (run,) = [
        run
        for e in EXAMPLES
        if e.name == f"e4-first-table{suffix}"
        for run in runs_of(e)
    ]
    prompts: dict[int, list[int]] = {}
    for workload in run.workloads:
        texts = workload.dataset.single
        assert isinstance(texts, TextsData)
        assert workload.requests is not None
        prompts.setdefault(texts.texts_per_prompt * workload.requests, []).append(
            workload.requests
        )
    assert prompts == {n: [1, n] for n in ((12, 3) if suffix else (400, 40, 4))}
