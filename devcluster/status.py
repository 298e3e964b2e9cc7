"""A report for people on what is up, one fact per line."""

from devcluster import images, node_process, settings as settings_module, up
from devcluster.reporting import DevclusterError
from devcluster.settings import NODE_NAME, Settings

NODE_COLUMNS = (
    '{range .status.conditions[?(@.type=="Ready")]}{.status}{end} '
    "{.status.nodeInfo.kubeletVersion} {.status.allocatable.nvidia\\.com/gpu}"
)


def show(settings: Settings) -> int:
    """Print what is up; return 0 if the node is Ready, else 1."""
    made_with = settings_module.load(settings.directory)
    if made_with is None:
        print(f"down: no cluster in {settings.directory}")
        return 1
    process = node_process.recorded(made_with)
    if process is None:
        print(f"down, its objects kept in {made_with.directory}")
        return 1
    try:
        answer = up.kubectl(
            made_with, "get", "node", NODE_NAME, "-o", f"jsonpath={NODE_COLUMNS}"
        )
        ready, version, *gpus = answer.split()
    except (DevclusterError, ValueError) as error:
        print(f"the node runs (process {process.pid}) but does not serve: {error}")
        return 1
    word = "Ready" if ready == "True" else "not Ready"
    print(f"node {NODE_NAME}: {word}, Kubernetes {version}, process {process.pid}")
    print(f"  nvidia.com/gpu  {gpus[0] if gpus else 0}")
    print(f"  API server      {made_with.api_url}")
    print(
        f"  from pods       this machine is {made_with.host_ip}, DNS is {made_with.node_ip}"
    )
    print(f"  pods, Services  {made_with.pod_cidr}, {made_with.service_cidr}")
    print(f"  kubeconfig      {made_with.kubeconfig}")
    print(f"  logs            {made_with.logs}")
    for line in images.loaded(made_with):
        print(f"  image           {line}")
    return 0 if ready == "True" else 1
