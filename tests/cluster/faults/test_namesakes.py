"""A run that is made anew under its name, while what the old one owned is still there."""

from functools import partial

import pytest
from kit.controllers import standing_still
from kit.played import PlayedCluster, PlayedRun
from kit.runs import condition

CHILDREN = (("ConfigMap", "plan"), ("Service", "server"), ("Job", "client"))
MADE_SECONDS = 15.0
COLLECTED_SECONDS = 30.0


def _is_made(played: PlayedCluster, run: PlayedRun) -> bool:
    """It has its children, or will have none."""
    failed = condition(played.body(run), "Failed").get("status") == "True"
    return failed or all(
        played.children(run, kind, role) for kind, role in CHILDREN
    )


@pytest.mark.timeout(120)
async def test_a_run_made_anew_does_not_wait_for_garbage_collection(
    played: PlayedCluster,
) -> None:
    old = await played.apply("again")
    await played.client_starts(old)
    # Its pod too: what stands still would not make it any more.
    await played.gets(old, "Pod", "server")
    with standing_still():
        await played.delete("BenchmarkRun", "again")
        new = await played.apply("again")
        control = await played.apply("another")
        for run in (control, new):
            await played.until(
                partial(_is_made, played, run),
                seconds=MADE_SECONDS,
                what=f"{run.name} is made",
            )
            assert condition(played.body(run), "Failed").get("status") != "True", (
                played.status(run)
            )
        # Its pod is still there, though the operator has asked for the deletion of its Deployment.
        assert played.children(old, "Pod", "server"), (
            "garbage collection did not stand still, so nothing was proved"
        )
    # And it comes as far as any other, with a server of its own.
    await old.client.stop()
    await played.client_starts(new)
    await played.gets(new, "Deployment", "server")
    await played.released(old, seconds=COLLECTED_SECONDS)
