"""Bringing a cluster up, or completing one that is half up.

Doing it again does no harm.
"""

import base64
import json
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from devcluster import (
    cgroups,
    configs,
    containerd,
    debian,
    down,
    images,
    locks,
    mount_points,
    network,
    node,
    node_process,
    objects,
    pause_image,
    pki,
    state,
    tools,
)
from devcluster.reporting import DevclusterError, say
from devcluster.running import run, search_path, succeeds, wait_until
from devcluster.settings import NODE_NAME, Settings

# Private namespaces with no way back: what is mounted inside is never seen outside. --kill-child:
# should unshare be killed, the node is too.
UNSHARE = (
    "unshare",
    "--net",
    "--pid",
    "--mount",
    "--propagation=private",
    "--mount-proc",
    "--fork",
    "--kill-child",
)


def up(settings: Settings, *, with_images: bool) -> None:
    """Bring the cluster up and return when it serves.

    `with_images` loads every image that was built here into it.
    """
    began = time.monotonic()
    debian.require_root()
    debian.ensure(debian.CLUSTER)
    cgroups.branches(settings)  # raises early
    network.refuse_foreign(settings)
    tools.make(settings)
    with locks.held(settings.directory):
        state.prepare(settings)
        write_files(settings)
        if node_process.recorded(settings) is None or not network.connected(
            settings
        ):
            start_node(settings)
        complete(settings)
        if with_images:
            images.load(settings, images.built(settings))
    say(
        f'up after {time.monotonic() - began:.0f} s; now: eval "$(python3 devcluster env)"'
    )


def write_files(settings: Settings) -> None:
    """Write every configuration file; running servers read them when they next start."""
    home = settings.directory
    tokens = pki.make(settings)
    authority = base64.b64encode((home / "pki" / "ca.crt").read_bytes()).decode()
    for user, token in tokens.items():
        text = configs.kubeconfig(
            settings, user=user, token=token, authority=authority
        )
        pki.write_private(home / f"{user}.kubeconfig", text)
    mounts = configs.container_mounts(settings)
    for source in (
        mounts.values()
    ):  # what is not there yet may be there when a container starts
        source.mkdir(parents=True, exist_ok=True)
    (home / "cni" / "conf" / "10-bridge.conflist").write_text(configs.cni(settings))
    (home / "containerd.toml").write_text(configs.containerd(settings))
    (home / "base-spec.json").write_text(
        configs.base_spec(containerd.default_spec(), mounts)
    )
    (home / "kubelet.json").write_text(configs.kubelet(settings))
    (home / "Corefile").write_text(configs.corefile(settings))


def start_node(settings: Settings) -> None:
    """Start process 1 of the node, and connect it to the network.

    If this process is killed on the way, the node ends by itself. Raises DevclusterError when the
    node does not start.
    """
    down.clear(settings)  # what a node that was killed has left
    network.refuse_taken(settings)
    mount_points.make(settings)
    cgroups.make(settings)
    say("starting the node")
    here = Path(__file__).parent
    with (settings.logs / "node.log").open("a") as log:
        starter = subprocess.Popen(
            [*UNSHARE, sys.executable, str(here), "node", str(settings.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
            env={
                "PATH": search_path(),
                "LANG": "C.UTF-8",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )
    assert starter.stdin is not None
    assert starter.stdout is not None
    if starter.stdout.readline() != node.MOUNTED:
        raise DevclusterError(
            f"the node did not start; see the end of {settings.logs / 'node.log'}"
        )
    process = node_process.record(settings, _only_child(starter.pid))
    try:
        network.connect(settings, process.pid)
    except BaseException:
        node_process.kill(process)
        raise
    starter.stdin.write(node.GO)
    starter.stdin.close()


def complete(settings: Settings) -> None:
    """Wait for one part of the cluster after the other, and add what belongs to every cluster."""
    _wait(
        settings,
        "the API server",
        lambda: _says(settings, f"{settings.api_url}/readyz", "ok"),
    )
    say(f"API server ready at {settings.api_url}")
    _wait(settings, "containerd", lambda: containerd.answers(settings))
    if configs.PAUSE_IMAGE not in containerd.images(settings):
        with tempfile.NamedTemporaryFile(suffix=".tar") as file:
            file.write(
                pause_image.archive((settings.programs / "pause").read_bytes())
            )
            file.flush()
            containerd.import_archive(settings, Path(file.name))
    kubectl(
        settings,
        "apply",
        "--filename=-",
        text=json.dumps(objects.initial_objects()),
    )
    ready = ("wait", "--for=condition=Ready", f"node/{NODE_NAME}", "--timeout=1s")
    _wait(
        settings, "the node to be Ready", lambda: kubectl_succeeds(settings, *ready)
    )
    # kubelet zeroes these when the machine has no devices of the kind and its own state is new: set
    # every time.
    patch = json.dumps(objects.capacity_patch(settings.fake_gpus))
    kubectl(
        settings,
        "patch",
        "node",
        NODE_NAME,
        "--subresource=status",
        "--type=merge",
        f"--patch={patch}",
    )
    account = ("get", "serviceaccount", "default")
    _wait(
        settings,
        "the default service account",
        lambda: kubectl_succeeds(settings, *account),
    )
    _wait(
        settings,
        "cluster DNS",
        lambda: _says(settings, f"http://{settings.node_ip}:8181/ready", "OK"),
    )


def kubectl(settings: Settings, *arguments: str, text: str | None = None) -> str:
    """Run kubectl as the cluster's administrator, and return what it printed."""
    return run(
        *_kubectl(settings),
        *arguments,
        text=text,
        extra={"NO_PROXY": str(settings.node_ip)},
    )


def kubectl_succeeds(settings: Settings, *arguments: str) -> bool:
    """Return whether kubectl, run as the cluster's administrator, exits with 0."""
    return succeeds(
        *_kubectl(settings), *arguments, extra={"NO_PROXY": str(settings.node_ip)}
    )


def _kubectl(settings: Settings) -> tuple[str, str]:
    return (
        str(settings.programs / "kubectl"),
        f"--kubeconfig={settings.kubeconfig}",
    )


def _only_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


def _wait(settings: Settings, what: str, condition: Callable[[], bool]) -> None:
    """Wait up to 90 seconds for a part of the cluster.

    Raises DevclusterError when the time is over or the node ends.
    """
    remedy = f"see the logs in {settings.logs}"

    def met() -> bool:
        if node_process.recorded(settings) is None:
            raise DevclusterError(
                f"the node ended while waiting for {what}; {remedy}"
            )
        return condition()

    wait_until(met, what=f"waiting for {what}", timeout_seconds=90, remedy=remedy)


def _says(settings: Settings, url: str, answer: str) -> bool:
    """Return whether a server's answer at `url` is `answer`.

    A proxy that is set for the outside world is not used.
    """
    trust = ssl.create_default_context(
        cafile=str(settings.directory / "pki" / "ca.crt")
    )
    handlers = (
        urllib.request.ProxyHandler({}),
        urllib.request.HTTPSHandler(context=trust),
    )
    try:
        with urllib.request.build_opener(*handlers).open(
            url, timeout=2
        ) as response:
            return bool(response.read().decode().strip() == answer)
    except OSError:
        return False
