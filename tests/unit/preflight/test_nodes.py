"""Servers over several nodes: parallel sizes that the nodes share, and flags that are the operator's."""

import pytest
from unit.preflight.checks import checked, messages

ARGS = "spec.server.args"


def about(level: str, *args: str, nodes: int = 2, gpus: int | None = 8) -> str | None:
    """What is said of the arguments at this level."""
    resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus is not None else {}
    server = {"server.args": list(args), "server.nodesPerReplica": nodes, "server.resources": resources}
    return messages(checked(server), level).get(ARGS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "args",
    [
        ("--tensor-parallel-size=8", "--pipeline-parallel-size=2"),
        ("-tp", "16"),
        ("-tp=4", "-pp=2", "-dp=2"),
        ("-tp=8", "-pcp", "2"),
    ],
)
def test_sizes_that_two_nodes_of_eight_gpus_share_are_fine(args: tuple[str, ...]) -> None:
    assert (about("Error", *args), about("Warning", *args)) == (None, None)


def test_a_product_that_nodes_cannot_share_is_an_error() -> None:
    assert "8 parallel processes" in str(about("Error", "-tp=8", nodes=3))
    assert "1 parallel processes" in str(about("Error"))


def test_more_processes_than_gpus_on_a_node_is_an_error() -> None:
    assert "16 parallel processes on each of 2 nodes, but 8 GPUs" in str(about("Error", "-tp=32"))


def test_gpus_without_a_process_are_a_warning() -> None:
    assert about("Error", "-tp=8") is None
    assert "of which vLLM uses 4" in str(about("Warning", "-tp=8"))


def test_a_cluster_without_gpus_has_no_gpu_remark() -> None:
    assert (about("Error", "-tp=2", gpus=None), about("Warning", "-tp=2", gpus=None)) == (None, None)


def test_single_node_servers_have_no_remark() -> None:
    assert about("Error", "-tp=8", nodes=1) is None


def test_a_value_that_is_no_number_is_reported_and_not_raised() -> None:
    assert "tensor-parallel-size" in str(about("Error", "-tp=many"))
