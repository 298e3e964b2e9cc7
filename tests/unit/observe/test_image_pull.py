"""The wait for an image, out of the kubelet's events."""

from typing import Any

import pytest
from benchrun.observe import image_pull_seconds
from hypothesis import given, settings, strategies as st

IMAGE = '"vllm/vllm-openai:v0.32.0"'


def pulled(
    message: str,
    *,
    container: str = "server",
    reason: str = "Pulled",
    group: str = "containers",
) -> dict[str, Any]:
    return {
        "reason": reason,
        "message": message,
        "involvedObject": {"fieldPath": f"spec.{group}{{{container}}}"},
    }


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (
            63.25,
            f"Successfully pulled image {IMAGE} in 1m2.5s (1m3.25s including waiting). Image "
            "size: 9912345678 bytes.",
        ),
        (
            0.85,
            f"Successfully pulled image {IMAGE} in 850ms (850ms including waiting). Image size: 1 "
            "bytes.",
        ),
        (
            3600.5,
            f"Successfully pulled image {IMAGE} in 1h0m0.5s (1h0m0.5s including waiting). Image "
            "size: 1 bytes.",
        ),
        (12.5, f"Successfully pulled image {IMAGE} in 12.5s"),
        (0.0000305, f"Successfully pulled image {IMAGE} in 30.5µs"),
        (0.0, f"Container image {IMAGE} already present on machine"),
        (
            0.0,
            f"Container image {IMAGE} already present on machine and can be accessed by the pod",
        ),
        (None, f"Successfully pulled image {IMAGE} in a while"),
        (None, f"Successfully pulled image {IMAGE} in 5xs"),
        (None, f"Pulling image {IMAGE}"),
    ],
)
def test_pull_seconds_are_read_from_the_event(
    seconds: float | None, message: str
) -> None:
    found = image_pull_seconds([pulled(message)], container="server")
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_only_the_containers_own_image_counts() -> None:
    took = f"Successfully pulled image {IMAGE} in 9s"
    others = [
        pulled(took, container="proxy"),
        pulled(took, group="initContainers"),
        pulled(took, reason="Pulling"),
    ]
    assert image_pull_seconds(others, container="server") is None


def test_a_container_that_is_restarted_finds_its_image_there() -> None:
    events = [
        pulled(f"Container image {IMAGE} already present on machine"),
        pulled(f"Successfully pulled image {IMAGE} in 9s"),
    ]
    for ordered in (events, events[::-1]):
        assert image_pull_seconds(ordered, container="server") == 9.0


ANYTHING = st.recursive(
    st.none() | st.text() | st.integers(),
    lambda s: st.lists(s) | st.dictionaries(st.text(), s),
    max_leaves=10,
)


@settings(max_examples=40)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "reason": st.just("Pulled"),
                "message": ANYTHING,
                "involvedObject": ANYTHING,
            }
        ),
        max_size=3,
    )
)
def test_no_event_raises(events: list[dict[str, Any]]) -> None:
    assert image_pull_seconds(events, container="server") is None
