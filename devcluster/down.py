"""The end of a cluster and the removal of every trace of it.

This also works on a cluster that was killed or came up only half.
"""

import time

from devcluster import (
    cgroups,
    debian,
    locks,
    mount_points,
    network,
    node_process,
    settings as settings_module,
    state,
)
from devcluster.reporting import say
from devcluster.settings import Settings


def down(settings: Settings, *, keep: bool) -> None:
    """End the cluster, and delete its state unless `keep` is set.

    With the state kept, the next `up` goes on with the same objects. Raises DevclusterError when
    there is no state here and another cluster is up under this name.
    """
    began = time.monotonic()
    debian.require_root()
    made_with = settings_module.load(settings.directory)
    if made_with is None:
        # most likely the caller stands in another folder than `up` did
        network.refuse_foreign(settings)
        clear(settings)
    else:
        with locks.held(made_with.directory):
            clear(made_with)
            if not keep:
                state.delete(made_with)
    what = (
        f"{settings.directory} is kept"
        if keep and made_with
        else "nothing is left of it"
    )
    say(f"down after {time.monotonic() - began:.0f} s; {what}")


def clear(settings: Settings) -> None:
    """Remove all of the cluster that is outside its state directory."""
    if (process := node_process.recorded(settings)) is not None:
        say("ending the node")
        node_process.kill(process)
    node_process.forget(settings)
    for name in (
        settings.socket,
        settings.socket.with_name(f"{settings.socket.name}.ttrpc"),
    ):
        name.unlink(missing_ok=True)
    if not network.foreign_owner(
        settings
    ):  # otherwise another owner uses this name
        network.disconnect(settings)
        cgroups.remove(settings)
    mount_points.remove(settings)
