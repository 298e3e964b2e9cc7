"""The lines that rules draw: what the spec sets, and a digest that tells two judgements apart."""

from dataclasses import fields, replace

import pytest
from benchrun.judge.thresholds import JUDGE_VERSION, Thresholds, judge_of, thresholds_of
from unit.judge.specs import spec


def test_the_spec_sets_the_share_of_failed_requests() -> None:
    assert thresholds_of(spec(validity={"maxFailedPercent": "2.5"})) == Thresholds(max_failed_percent=2.5)


def test_a_spec_that_sets_nothing_gets_the_defaults() -> None:
    assert thresholds_of(spec()) == Thresholds()


@pytest.mark.parametrize("name", [field.name for field in fields(Thresholds)])
def test_every_number_is_in_the_digest(name: str) -> None:
    assert replace(Thresholds(), **{name: 77.0}).digest() != Thresholds().digest()


def test_equal_numbers_have_equal_digests() -> None:
    assert Thresholds(max_failed_percent=1.0).digest() == Thresholds().digest()


def test_the_status_names_version_and_digest() -> None:
    judge = judge_of(spec())
    assert (judge.version, judge.thresholds_digest) == (JUDGE_VERSION, f"sha256:{Thresholds().digest()}")
