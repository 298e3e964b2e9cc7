"""Killing a container's process from outside its pod."""

import os
from pathlib import Path

from kit.kubectl import CommandFailed, Namespace, command
from kit.polling import polling


def kill_container(namespace: Namespace, *, selector: str, pod: str = "") -> str:
    """Kill (SIGKILL) the main process of a running container, and return the container's id.

    It is that of the first pod of that label, or of the pod so named. A container that is gone
    already, as after a kill just before, is still listed for a moment: its successor is waited for.
    """
    socket = Path(os.environ["DEVCLUSTER_DIR"]) / "containerd.sock"
    for _ in polling(f"a running container of {selector}", seconds=60):
        for each in namespace.list("pods", selector=selector):
            status = each["status"].get("containerStatuses", [{}])[0]
            if pod not in (
                "",
                each["metadata"]["name"],
            ) or "running" not in status.get("state", {}):
                continue
            container: str = status["containerID"].removeprefix("containerd://")
            try:
                command(
                    "ctr",
                    f"--address={socket}",
                    "--namespace=k8s.io",
                    "tasks",
                    "kill",
                    "--signal=SIGKILL",
                    container,
                )
            except CommandFailed as error:
                if "not found" not in str(error):
                    raise
            else:
                return container
    raise AssertionError(f"no container of {selector} runs")
