"""Ending a container's process the hard way, from outside its pod."""

from __future__ import annotations

import os
from pathlib import Path

from kit.kubectl import Namespace, Object, command


def kill_container(namespace: Namespace, *, selector: str, pod: str = "") -> str:
    """SIGKILL the main process of the first pod of that label, or of the one so named; returns the container's id."""
    pods = namespace.list("pods", selector=selector)
    found: Object = next(each for each in pods if pod in ("", each["metadata"]["name"]))
    container: str = found["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    socket = Path(os.environ["DEVCLUSTER_DIR"]) / "containerd.sock"
    command("ctr", f"--address={socket}", "--namespace=k8s.io", "tasks", "kill", "--signal=SIGKILL", container)
    return container
