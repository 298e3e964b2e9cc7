"""LeaderWorkerSet, an optional part: pods in groups of a leader and its workers.

A group is one server over several nodes.
"""

from devcluster import go_modules
from devcluster.controllers import Controller

_POD = {"spec": {"containers": [{"name": "asked", "image": "asked"}]}}
LWS = Controller(
    title="LeaderWorkerSet",
    name="lws",
    source=go_modules.LWS,
    module=go_modules.LEADER_WORKER_SET,
    package=f"{go_modules.LEADER_WORKER_SET}/cmd",
    values={
        # the chart's own request, a whole core, is half of a small machine
        "resources.requests.cpu": "50m",
        "resources.requests.memory": "64Mi",
    },
    image_value="image.manager",
    asked={
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "spec": {"leaderWorkerTemplate": {"workerTemplate": _POD}},
    },
    minutes=4,
)
