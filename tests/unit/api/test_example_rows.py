"""Files that tiny examples bring along have rows for every stage and warm-up, and some to spare. A
run that lacks one is refused."""

import re
from pathlib import Path

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.api.sweep import KIND as SWEEP, BenchmarkSweepSpec
from benchrun.plan import Owner, plan_of_client, planned_variants
from benchrun_client.contract import Plan
from benchrun_client.datasets.row_pools import ROW_KINDS, portions_of
from benchrun_client.datasets.run_datasets import RunDatasets
from benchrun_client.traffic import slots_of
from unit.api.examples import EACH, EXAMPLES, Example
from unit.client.plans import TOKEN_DIGEST
from unit.client.words import WordCounter

SPARE_ROWS = 20
OWNER = Owner(
    namespace="lab", name="tiny", uid="7c9e6679-7425-40de-944b-e07fc1f90ae7"
)
MOUNT = re.compile(r'"/data/[^"]*/configmap/([^"]*)"')


def first_run(example: Example) -> BenchmarkRunSpec:
    """All variants of a sweep send the same."""
    if example.kind == SWEEP:
        return planned_variants(
            BenchmarkSweepSpec.model_validate(example.body["spec"])
        )[0].spec
    return BenchmarkRunSpec.model_validate(example.body["spec"])


def files_in(folder: Path, file: str) -> None:
    for example in EXAMPLES:
        if (example.file, example.kind) == (file, "ConfigMap"):
            (folder / example.name).mkdir()
            for key, text in example.body["data"].items():
                (folder / example.name / key).write_text(text)


def rows_left(plan: Plan) -> dict[str, int]:
    """By digest of a file: rows that are usable and that nobody took, once all have drawn."""
    portions = [
        p
        for slot in slots_of(plan)
        for p in portions_of(slot)
        if type(p.data) in ROW_KINDS
    ]
    supply = RunDatasets(
        portions, counter=WordCounter(), context_tokens=plan.target.context_tokens
    )
    for portion in portions:
        supply.draw(portion)
    left: dict[str, int] = {}
    for workload in dict.fromkeys(portion.workload for portion in portions):
        for facts in supply.facts(
            portion for portion in portions if portion.workload == workload
        ):
            left.setdefault(
                facts.sha256, facts.rows_read - sum(facts.rows_dropped.values())
            )
            left[facts.sha256] -= facts.rows_used
    return left


READING = [each for each in EACH if "'file': {'configMap'" in repr(each.values[0])]


@pytest.mark.parametrize("example", READING)
def test_twenty_rows_are_left(example: Example, tmp_path: Path) -> None:
    files_in(tmp_path, example.file)
    planned = plan_of_client(
        OWNER, first_run(example), token_digest=TOKEN_DIGEST
    ).to_json()
    plan = Plan.model_validate_json(
        MOUNT.sub(lambda match: f'"{tmp_path}/{match[1]}"', planned)
    )
    left = rows_left(plan)
    assert left
    assert min(left.values()) >= SPARE_ROWS
