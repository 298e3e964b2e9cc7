"""Kueue, an optional part: queues with a quota, in which runs wait until their GPUs are theirs."""

from devcluster import go_modules
from devcluster.controllers import Controller

KUEUE = Controller(
    title="Kueue",
    name="kueue",
    source=go_modules.KUEUE,
    module=go_modules.KUEUE_MODULE,
    package=f"{go_modules.KUEUE_MODULE}/cmd/kueue",
    values={
        "controllerManager.manager.resources.requests.cpu": "50m",
        "controllerManager.manager.resources.requests.memory": "128Mi",
    },
    image_value="controllerManager.manager.image",
    asked={
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "spec": {"clusterQueue": "asked"},
    },
    minutes=10,
)
