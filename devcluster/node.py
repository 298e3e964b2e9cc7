"""Process 1 of the node's namespaces: makes the node's mounts, and keeps its servers running.

`up` starts it through unshare(1) and talks to it over two pipes: "mounted" comes out when the
mounts are done, "go" comes in when the network is there. If `up` dies before that, the pipe ends
and so does the node.
"""

import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from devcluster import mount_points
from devcluster.reporting import DevclusterError, say
from devcluster.servers import Server, servers
from devcluster.settings import Settings, load

MOUNTED = "mounted\n"
GO = "go\n"
POLL_SECONDS = 0.2
RESTART_AFTER_SECONDS = 1.0

# kubelet sets these for the whole machine, and fails where it cannot. Shown these values, it has
# nothing to set.
KUBELET_TUNABLES = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}


def main(directory: Path) -> NoReturn:
    """Run the node of the cluster in `directory` until killed.

    Raises DevclusterError when there is no cluster, or when `up` ends before it says "go".
    """
    settings = load(directory)
    if settings is None:
        raise DevclusterError(f"no cluster in {directory}")
    _mount(settings)
    print(MOUNTED, end="", flush=True)
    if sys.stdin.readline() != GO:
        raise DevclusterError(
            "the program that started this node has ended, and so does the node"
        )
    _set("net/ipv4/ip_forward", 1)
    # from pod to pod by way of a Service, on one bridge
    _set("net/bridge/bridge-nf-call-iptables", 1)
    Supervisor(settings).run()


def _mount(settings: Settings) -> None:
    """Cover the fixed paths with the node's own mounts, which vanish with it as after a reboot."""
    # what kubelet mounts must reach containers
    _run("mount", "--make-rshared", "/")
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for folder in ("/run/lock", "/run/netns", "/run/tunables"):
        Path(folder).mkdir()
    for path, below in mount_points.COVERED.items():
        _run("mount", "--bind", str(settings.directory / below), str(path))
    for name, value in KUBELET_TUNABLES.items():
        shown = Path("/run/tunables", name.replace("/", "."))
        shown.write_text(f"{value}\n")
        _run("mount", "--bind", str(shown), f"/proc/sys/{name}")


@dataclass
class Supervisor:
    """Starts the servers, restarts those that have ended, and collects dead child processes."""

    settings: Settings
    running: dict[int, Server] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)
    """Servers that ended: name -> when to start them again."""

    def run(self) -> NoReturn:
        """Run the servers and never return; the node ends when it is killed."""
        everything = servers(self.settings)
        self._start(server for server in everything if not server.after_api_server)
        later = [server for server in everything if server.after_api_server]
        while True:
            if later and _api_server_ready(self.settings):
                self._start(later)
                later = []
            self._bury()
            now = time.monotonic()
            due = [
                server
                for server in everything
                if self.waiting.get(server.name, now) < now
            ]
            self._start(due)
            open_claims(self.settings.directory / "claims")
            time.sleep(POLL_SECONDS)

    def _start(self, some: Iterable[Server]) -> None:
        for server in some:
            self.waiting.pop(server.name, None)
            self.running[_spawn(server, self.settings.logs)] = server

    def _bury(self) -> None:
        """Collect every child that has ended, orphans that process 1 inherits included.

        A server that has ended is due to start again after RESTART_AFTER_SECONDS.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if server := self.running.pop(pid, None):
                say(
                    f"{server.name} ended with {os.waitstatus_to_exitcode(status)}; starting it "
                    "again"
                )
                self.waiting[server.name] = time.monotonic() + RESTART_AFTER_SECONDS


def open_claims(folder: Path) -> None:
    """Let any user write to the folders of claims.

    They are created for root alone, hostPath volumes know no fsGroup, and pods worth testing do not
    run as root.
    """
    for claim in folder.iterdir():
        try:
            if claim.stat().st_mode & 0o777 != 0o777:
                claim.chmod(0o777)
        except FileNotFoundError:  # deleted since
            continue


def _spawn(server: Server, logs: Path) -> int:
    log = str(logs / f"{server.name}.log")
    appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, appending, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawnp(
        server.command[0], server.command, os.environ, file_actions=files
    )


def _api_server_ready(settings: Settings) -> bool:
    trust = ssl.create_default_context(
        cafile=str(settings.directory / "pki" / "ca.crt")
    )
    try:
        with urllib.request.urlopen(
            f"{settings.api_url}/readyz", timeout=2, context=trust
        ) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _set(name: str, value: int) -> None:
    """Set a kernel parameter of this network namespace, unless this kernel lacks it."""
    parameter = Path("/proc/sys", name)
    if parameter.exists():
        parameter.write_text(f"{value}\n")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
