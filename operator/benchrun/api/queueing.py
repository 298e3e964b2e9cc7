"""What a run says of its place in a queue of Kueue, and of the nodes that it was given there."""

from typing import Annotated, Literal

from pydantic import Field

from benchrun.api.base import StatusModel, entries

Word = Annotated[str, Field(max_length=253)]
WhenEvicted = Literal["QueueAgain", "End"]
MAX_TOLERATIONS = 32
MAX_NODE_LABELS = 64
MAX_POD_SETS = 8
MAX_FLAVORS = 16


class FlavorToleration(StatusModel):
    """A toleration of Kubernetes."""

    key: Word | None = Field(None, description="Key of the taint.")
    operator: Annotated[str, Field(max_length=16)] | None = Field(
        None, description="Equal or Exists."
    )
    value: Word | None = Field(None, description="Value of the taint.")
    effect: Annotated[str, Field(max_length=32)] | None = Field(
        None, description="Effect of the taint."
    )
    toleration_seconds: int | None = Field(
        None, description="How long NoExecute is tolerated."
    )


class Placement(StatusModel):
    """What the ResourceFlavors that Kueue chose add to the pods of a role."""

    role: str = Field(
        max_length=63, description="Role of the pods: server, client ..."
    )
    flavors: list[Word] = entries(MAX_FLAVORS, "Names of the ResourceFlavors.")
    node_selector: Annotated[
        dict[str, Word], Field(default_factory=dict, max_length=MAX_NODE_LABELS)
    ]
    """Labels of their nodes."""
    tolerations: list[FlavorToleration] = entries(
        MAX_TOLERATIONS, "Tolerations of their pods."
    )


class QueueStatus(StatusModel):
    """The queue of Kueue in which the run waits, or which gave it its quota."""

    name: Word = Field(description="Name of the LocalQueue.")
    attempt: int = Field(
        1, description="Number of the Workload, which its name ends with."
    )
    since: Annotated[str, Field(max_length=32)] | None = None
    """When this wait began. pendingDeadlineSeconds is counted from it."""
    place: int | None = Field(
        None,
        description="Runs and others ahead in the ClusterQueue; absent: not known.",
    )
    admitted_time: Annotated[str, Field(max_length=32)] | None = None
    """When the run was given its quota; absent while it waits."""
    placements: list[Placement] = entries(
        MAX_POD_SETS, "What the pods get from it, one entry a role.", key="role"
    )
    evicted_time: Annotated[str, Field(max_length=32)] | None = None
    """When the quota was seen to be lost; absent once the run waits again."""
    evictions: int = Field(0, description="How often the quota was lost.")
    last_eviction: str | None = Field(
        None, max_length=1024, description="Why, the last time."
    )
