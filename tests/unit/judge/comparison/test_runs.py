"""A run as it stands in the cluster, made into a side of a comparison."""

import pytest
from benchrun.judge.comparison.comparability import measured_run, results_digest
from benchrun.observe import Run
from unit.judge.comparison.sides import ENDED, row
from unit.plan.specs import spec_body

RESULTS = [row().model_dump(mode="json", by_alias=True, exclude_none=True)]


def stored(**status: object) -> Run:
    return Run("lab", "before", "uid-1", 1, spec=spec_body(), status={"completionTime": ENDED, **status})


def test_what_it_measured_is_found_by_cell() -> None:
    found = measured_run(stored(results=RESULTS))
    assert (found.name, found.uid) == ("before", "uid-1")
    assert found.row("chat/rate=4") == row()
    assert (found.row("chat/rate=8"), found.workload("bulk")) == (None, None)


def test_the_digest_is_of_the_results_alone_and_of_all_of_them() -> None:
    digest = results_digest(stored(results=RESULTS))
    assert digest.startswith("sha256:")
    assert results_digest(stored(results=RESULTS, message="other")) == digest
    assert results_digest(stored(results=[{**RESULTS[0], "repeats": 2}])) != digest


def test_a_spec_of_another_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="fieldOfANewerOperator"):
        measured_run(Run("lab", "a", "u", 1, spec={**spec_body(), "fieldOfANewerOperator": 1}))
