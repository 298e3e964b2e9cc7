"""Servers with a CPU limit, at which the kernel stops them."""

from typing import Any

import pytest
from unit.preflight.checks import checked, messages

LIMITED, UNLIMITED = (
    {"limits": {"cpu": "4", "nvidia.com/gpu": 1}},
    {"limits": {"memory": "9Gi"}, "requests": {"cpu": "4"}},
)
SPLIT = {"kvTransfer": {"connector": "NixlConnector"}}


def named(**changes: Any) -> set[str]:
    """The fields of CPU limits that a note names."""
    changes = {name.replace("_", "."): value for name, value in changes.items()}
    return {path for path in messages(checked(changes), "Note") if path.endswith("limits.cpu")}


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"server_resources": LIMITED}, {"spec.server.resources.limits.cpu"}),
        ({"server_resources": UNLIMITED}, set()),
        (
            {"server_disaggregated": {**SPLIT, "prefill": {"resources": LIMITED}, "decode": {"resources": UNLIMITED}}},
            {"spec.server.disaggregated.prefill.resources.limits.cpu"},
        ),
    ],
)
def test_the_limit_of_each_role_is_named(changes: dict[str, Any], fields: set[str]) -> None:
    assert named(**changes) == fields
