"""`status.servers[].startup`: where the time until a server was ready went."""

from __future__ import annotations

from pydantic import Field

from benchrun.api.base import StatusModel


class Startup(StatusModel):
    """Parts of the time to ready, in seconds, one after the other. What nobody told is absent."""

    pod_seconds: float | None = Field(
        default=None,
        description="From scheduled to the container's start: volumes, network, init containers, image. In whole seconds.",
    )
    image_pull_seconds: float | None = Field(
        default=None,
        description="Of that, the wait for the image, as the node's event says; 0 where the node had it.",
    )
    download_seconds: float | None = Field(default=None, description="Downloading weights, if it took half a second.")
    load_seconds: float | None = Field(default=None, description="Making the model and loading its weights.")
    compile_seconds: float | None = Field(default=None, description="torch.compile.")
    warm_up_seconds: float | None = Field(
        default=None,
        description="What remains of the engine's initialisation: profiling, KV cache, graph capture, warm-up; and compiling "
        "where vLLM does not tell it apart.",
    )
