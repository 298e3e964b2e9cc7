"""A real cluster comes up, survives a kill of all its processes, and leaves nothing behind.

It is a second cluster: name and addresses differ from the defaults, so that one in daily use is not
disturbed. Needs root, and takes some minutes when the cache is empty."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kit.polling import polling

pytestmark = [pytest.mark.devcluster, pytest.mark.timeout(1800)]

REPOSITORY = Path(__file__).parents[2]
NAME = "dctest"
IMAGE = "docker.io/library/python:3.11-slim"
NETWORKS = {
    "DEVCLUSTER_POD_CIDR": "10.246.0.0/24",
    "DEVCLUSTER_SVC_CIDR": "10.95.0.0/16",
}
# kubelet would set these for the whole machine. kernel.panic is given an odd value first: see
# `machine`.
TUNABLES = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/ip_forward",
)
ODD_PANIC_SECONDS = "17"

WRITER = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: notes}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  restartPolicy: Never
  securityContext: {runAsUser: 4711, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: writer
    image: python:3.11-slim
    imagePullPolicy: IfNotPresent
    command: [sh, -ec, "echo kept > /notes/note; getent hosts kubernetes.default.svc.cluster.local; echo written"]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    resources: {limits: {nvidia.com/gpu: 1}}
    volumeMounts: [{name: notes, mountPath: /notes}]
  volumes: [{name: notes, persistentVolumeClaim: {claimName: notes}}]
"""

READER = """
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  restartPolicy: Never
  containers:
  - name: reader
    image: python:3.11-slim
    imagePullPolicy: IfNotPresent
    command: [cat, /notes/note]
    volumeMounts: [{name: notes, mountPath: /notes}]
  volumes: [{name: notes, persistentVolumeClaim: {claimName: notes}}]
"""

SLEEPER = """
apiVersion: v1
kind: Pod
metadata: {name: sleeper}
spec:
  containers:
  - name: sleeper
    image: python:3.11-slim
    imagePullPolicy: IfNotPresent
    command: [sleep, infinity]
"""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster as its user sees it: a folder, and commands."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        addresses = {
            "DEVCLUSTER_NODE_IP": "10.196.0.1",
            "DEVCLUSTER_HOST_IP": "10.196.0.254",
            **NETWORKS,
        }
        return {
            **os.environ,
            **addresses,
            "DEVCLUSTER_NAME": NAME,
            "DEVCLUSTER_DIR": str(self.folder),
        }

    def command(self, *words: str) -> subprocess.Popen[str]:
        """Start a devcluster command; its progress lines can be read from stderr."""
        return subprocess.Popen(
            [sys.executable, "devcluster", *words],
            cwd=REPOSITORY,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, status: int = 0) -> str:
        """Run a devcluster command to its end; returns what it printed."""
        command = self.command(*words)
        printed, said = command.communicate()
        assert command.returncode == status, (
            f"devcluster {' '.join(words)}: {said}{printed}"
        )
        return printed

    def kubectl(self, *words: str, text: str | None = None) -> str:
        """Run kubectl the way the README tells: in a shell that has evaluated what `env` prints."""
        script = f'eval "$({sys.executable} devcluster env)" && exec kubectl "$@"'
        done = subprocess.run(
            ["bash", "-ec", script, "bash", *words],
            cwd=REPOSITORY,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run_pod(self, name: str, manifest: str) -> str:
        """Run a pod to completion; returns its log."""
        self.kubectl("apply", "-f", "-", text=manifest)
        self.kubectl(
            "wait",
            "--for=jsonpath={.status.phase}=Succeeded",
            f"pod/{name}",
            "--timeout=60s",
        )
        return self.kubectl("logs", name)

    @property
    def node_pid(self) -> int:
        return int((self.folder / "node.pid").read_text().split()[0])

    def processes(self) -> set[int]:
        """Every process of the cluster: unshare, the node, servers, shims and containers."""
        parents = _parents()
        found = {parents[self.node_pid], self.node_pid}
        while (
            more := {pid for pid, parent in parents.items() if parent in found}
            - found
        ):
            found |= more
        return found


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a cluster could leave on the machine."""

    mounts: list[str]
    firewall: list[str]
    tunables: dict[str, str]
    mount_points: list[str]
    sockets: list[str]


def look() -> Machine:
    """The machine as it is now."""
    firewall = subprocess.run(
        ["iptables-save"], capture_output=True, text=True, check=True
    ).stdout
    fixed = ("/var/lib/kubelet", "/var/lib/cni", "/tmp/hostpath_pv")
    return Machine(
        mounts=sorted(
            line.split()[4]
            for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ),
        firewall=[
            re.sub(r"\[\d+:\d+\]", "", line)
            for line in firewall.splitlines()
            if not line.startswith("#")
        ],
        tunables={
            name: Path("/proc/sys", name).read_text().strip() for name in TUNABLES
        },
        mount_points=[path for path in fixed if Path(path).exists()],
        sockets=[
            path
            for path in ("/run/containerd", "/run/netns", "/run/xtables.lock")
            if Path(path).exists()
        ],
    )


def traces(cluster: Cluster, processes: set[int]) -> list[str]:
    """What is left of a cluster that once had `processes`, each in words."""
    routes = subprocess.run(
        ["ip", "route"], capture_output=True, text=True, check=True
    ).stdout
    ours = ("10.196.0.", *(network.split("/")[0] for network in NETWORKS.values()))
    mountinfo = [_read(path) for path in Path("/proc").glob("[0-9]*/mountinfo")]
    arguments = [_read(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
    found = {
        "folder": cluster.folder.exists(),
        "link": Path(f"/sys/class/net/dc-{NAME}").exists(),
        "routes": any(line.startswith(ours) for line in routes.splitlines()),
        "cgroups": any(Path("/sys/fs/cgroup").glob(f"**/*{NAME}*")),
        "mounts in some process": any(
            str(cluster.folder) in text for text in mountinfo
        ),
        "processes": any(_runs(pid) for pid in processes),
        "processes that name the folder": any(
            str(cluster.folder) in text for text in arguments
        ),
    }
    return [trace for trace, there in found.items() if there]


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait for what the kernel brings about by itself: that a program starts, that one ends."""
    for _ in polling(what, seconds=15):
        if condition():
            return


@pytest.fixture
def machine() -> Iterator[Machine]:
    """The machine before the test, with a kernel parameter that kubelet would change, were it
    let."""
    panic = Path("/proc/sys/kernel/panic")
    before = panic.read_text()
    panic.write_text(ODD_PANIC_SECONDS)
    try:
        yield look()
    finally:
        panic.write_text(before)


@pytest.fixture
def cluster(tmp_path: Path, machine: Machine) -> Iterator[Cluster]:
    """A cluster that is not up yet, and is not up any more when the test is over."""
    cluster = Cluster(folder=tmp_path / "dc")
    yield cluster
    cluster.run("down")


@pytest.fixture(scope="module", autouse=True)
def base_images(tmp_path_factory: pytest.TempPathFactory) -> None:
    Cluster(folder=tmp_path_factory.mktemp("none") / "dc").run("images")


def bring_up(cluster: Cluster) -> None:
    cluster.run("up", "--no-images")
    cluster.run("load", IMAGE)


def test_objects_claims_and_images_survive_a_kill_of_everything(
    cluster: Cluster,
) -> None:
    bring_up(cluster)
    assert "written" in cluster.run_pod("writer", WRITER)
    processes = cluster.processes()
    assert len(processes) > 9  # unshare, the node, eight servers, at the least

    kill(processes)
    assert "down" in cluster.run("status", status=1)
    bring_up(cluster)

    assert (
        cluster.kubectl("get", "pod", "writer", "-o", "jsonpath={.status.phase}")
        == "Succeeded"
    )
    assert cluster.run_pod("reader", READER) == "kept\n"


def test_what_is_kept_by_down_is_there_after_up(cluster: Cluster) -> None:
    bring_up(cluster)
    cluster.run_pod("writer", WRITER)
    processes = cluster.processes()

    cluster.run("down", "--keep")
    assert traces(cluster, processes) == ["folder"]
    bring_up(cluster)

    assert cluster.run_pod("reader", READER) == "kept\n"


def test_down_leaves_nothing_behind(cluster: Cluster, machine: Machine) -> None:
    bring_up(cluster)
    cluster.kubectl("apply", "-f", "-", text=SLEEPER)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")
    eventually(
        lambda: "sleep\0infinity" in _command_lines(cluster.processes()),
        "the container is not of the node",
    )
    processes = cluster.processes()
    assert look().tunables == machine.tunables  # not even while it is up

    cluster.run("down")

    assert traces(cluster, processes) == []
    assert look() == machine


def test_down_after_a_kill_leaves_nothing_behind(
    cluster: Cluster, machine: Machine
) -> None:
    bring_up(cluster)
    cluster.kubectl("apply", "-f", "-", text=SLEEPER)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")
    processes = cluster.processes()

    kill(processes)
    cluster.run("down")

    assert traces(cluster, processes) == []
    assert look() == machine


def test_an_up_that_is_killed_leaves_no_node_behind(
    cluster: Cluster, machine: Machine
) -> None:
    command = cluster.command("up", "--no-images")
    assert command.stderr is not None
    assert any("starting the node" in line for line in command.stderr)
    command.kill()
    command.communicate()

    cluster.run("down")

    eventually(lambda: traces(cluster, set()) == [], "the node is still there")
    assert look() == machine


def test_a_server_that_dies_is_started_again(cluster: Cluster) -> None:
    bring_up(cluster)
    scheduler = next(
        pid
        for pid in cluster.processes()
        if "kube-scheduler" in _read(Path(f"/proc/{pid}/cmdline"))
    )

    os.kill(scheduler, signal.SIGKILL)

    assert "written" in cluster.run_pod("writer", WRITER)
    assert (
        "scheduler ended with -9"
        in (cluster.folder / "logs" / "node.log").read_text()
    )


def test_a_second_up_changes_nothing_and_other_settings_are_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    bring_up(cluster)
    node = cluster.node_pid
    cluster.run("up", "--no-images")
    assert cluster.node_pid == node

    elsewhere = Cluster(folder=tmp_path / "elsewhere").command("up", "--no-images")
    _, said = elsewhere.communicate()
    assert elsewhere.returncode == 1
    assert (
        f"a cluster named {NAME} is up with DEVCLUSTER_DIR={cluster.folder}"
        in said.splitlines()[-1]
    )


def kill(processes: set[int]) -> None:
    """kill -9 for all of them at once, and wait until none is left."""
    for pid in processes:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # the kernel ended it together with the node
            continue
    eventually(
        lambda: not any(_runs(pid) for pid in processes),
        "killed processes do not end",
    )


def _parents() -> dict[int, int]:
    """Every process of the machine and its parent."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        if stat := _read(path):
            found[int(path.parent.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def _command_lines(processes: set[int]) -> str:
    return "\n".join(_read(Path(f"/proc/{pid}/cmdline")) for pid in processes)


def _runs(pid: int) -> bool:
    """Whether a process is there; one that has ended, and that the machine's init has yet to
    collect, is not."""
    stat = _read(Path(f"/proc/{pid}/stat"))
    return bool(stat) and stat.rpartition(")")[2].split()[0] != "Z"


def _read(path: Path) -> str:
    """A file of /proc, or nothing if its process has ended meanwhile."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
