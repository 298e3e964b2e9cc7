"""Played stages of sessions: a large loss of hits is named by its cause alone."""

import pytest
from sessions_kit import doses


@pytest.mark.parametrize("loss", doses.LOSSES, ids=lambda loss: loss.name)
def test_a_large_loss_of_hits_is_named_by_its_cause_alone(
    loss: doses.Mistake,
) -> None:
    found = doses.loss_of(loss, loss.doses[-1])
    assert found.missing_percent > doses.MISSING_PERCENT
    assert found.named == loss.codes
    assert found.error_points <= 1
