"""Runs whose client is the program of `hostile_client`, in a pod of the simulator's image.

No vLLM is imported, so it is ready at once. It acts once its server answers: with a server that
never does, it harms nothing.
"""

from pathlib import Path
from typing import Any

import kit.hostile_client
from kit.kubectl import Object
from kit.runs import SIMULATOR_IMAGE, simulated_run

NAME = "hostile"
LOADS_FOR_EVER = "--sim-load-seconds=3600"  # an argument of the simulator, which then never answers


def hostile_program() -> Object:
    """Return the ConfigMap with the program, to be applied before the runs."""
    text = (
        "#!/usr/bin/env python3\n" + Path(kit.hostile_client.__file__).read_text()
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME},
        "data": {"vllm": text},
    }


def hostile_run(name: str, *, args: tuple[str, ...] = (), **spec: Any) -> Object:
    """Return a run whose client has the program in place of its image's entry point."""
    volume = {"name": NAME, "configMap": {"name": NAME, "defaultMode": 0o555}}
    mount = {"name": NAME, "mountPath": "/usr/local/bin/vllm", "subPath": "vllm"}
    resources = {"requests": {"cpu": "50m", "memory": "64Mi"}}
    pod = {"volumes": [volume], "volumeMounts": [mount]}
    client = {"image": SIMULATOR_IMAGE, "resources": resources, "pod": pod}
    return simulated_run(name, args=args, client=client, repeats=2, **spec)
