"""Registries on this machine, from which the node pulls images over HTTP."""

import json
import re

from devcluster import state
from devcluster.reporting import DevclusterError, say
from devcluster.settings import RECORD, Settings

_ADDRESS = re.compile(r"[a-z0-9.-]+:[0-9]{1,5}")


def trust(settings: Settings, address: str) -> None:
    """Let the node pull from a registry without TLS; containerd looks at each pull.

    Raises DevclusterError when there is no cluster, or for an address that is not HOST:PORT.
    """
    if not _ADDRESS.fullmatch(address):
        raise DevclusterError(f"a registry is HOST:PORT, not {address!r}")
    if not (settings.directory / RECORD).exists():
        raise DevclusterError("there is no cluster; run: devcluster up")
    folder = settings.registries / address
    folder.mkdir(parents=True, exist_ok=True)
    state.write_whole(folder / "hosts.toml", hosts_file(address))
    say(f"the node pulls from {address} over HTTP")


def hosts_file(address: str) -> str:
    """Return containerd's file about a registry, in TOML."""
    url = json.dumps(f"http://{address}")
    return f"""server = {url}

[host.{url}]
capabilities = ["pull", "resolve"]
"""
