"""`benchrun run -f FILE`: apply objects and follow their runs to the end."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from rich.console import Console

from benchrun.cli import (
    cluster,
    errors,
    following,
    interrupts,
    manifests,
    shared_options,
)
from benchrun.cli.commands.watch import (
    EPILOG as EPILOG,
    add_timeout,
    follow_to_the_end,
    say_how_to_go_on,
)
from benchrun.observe import is_finished, untrusted_json as raw
from benchrun.report.exit_codes import PASSED

SUMMARY = (
    "apply a manifest and follow its runs and sweeps to the end; the exit code is that of the "
    "verdict"
)
DESCRIPTION = """\
Apply manifests, follow their runs and sweeps to the end, and show the results.

Every object of the files is applied in order, so a dataset's ConfigMap may stand before the run \
that reads it. A run with
generateName is a new one each time. One with a name is measured once: \
if it is under way it is followed, and if it has
ended nothing is measured and the command fails. The same holds of sweeps.

Ctrl-C, SIGTERM and --timeout end the waiting, and the run goes on in the cluster. \
With --cancel-on-interrupt they cancel
it: its GPU is freed, what was measured is kept, and the command ends when the run has. \
A second Ctrl-C does not wait."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-f",
        "--file",
        action="append",
        required=True,
        metavar="FILE",
        help="file with a manifest, or - for standard input; may be repeated",
    )
    add(
        "--no-wait",
        action="store_true",
        help="only apply the objects, and print their names",
    )
    add_timeout(parser)
    add(
        "--cancel-on-interrupt",
        action="store_true",
        help="cancel the runs on Ctrl-C, on SIGTERM, or when --timeout has passed",
    )
    shared_options.add_cluster_options(parser, wide=True)


def run(options: argparse.Namespace, console: Console) -> int:
    kubectl = cluster.kubectl_of(options)
    # All are read before the first is applied.
    wanted = manifests.manifests_in(options.file)
    started: list[manifests.AppliedObject] = []
    try:
        with interrupts.sigterm_interrupts():
            with (
                interrupts.signals_deferred()
                if options.cancel_on_interrupt
                else nullcontext()
            ):
                _apply(wanted, kubectl, started, console)
            runs = _followed(started, kubectl)
            if options.no_wait or not runs:
                return PASSED
            return follow_to_the_end(
                runs, console, wide=options.wide, timeout_seconds=options.timeout
            )
    except (KeyboardInterrupt, following.TimeIsUp):
        runs = _followed(started, kubectl)
        if not options.cancel_on_interrupt or not runs:
            say_how_to_go_on(runs, console)
            raise
        _cancel(runs, console)
        return follow_to_the_end(runs, console, wide=options.wide)


def _apply(
    wanted: Sequence[manifests.Manifest],
    kubectl: cluster.Kubectl,
    started: list[manifests.AppliedObject],
    console: Console,
) -> None:
    for manifest in wanted:
        try:
            started.append(manifests.applied(manifest, kubectl))
        except errors.CommandError:
            say_how_to_go_on(_followed(started, kubectl), console)
            raise
        console.print(_sentence(started[-1]), markup=False, soft_wrap=True)


def _followed(
    started: Sequence[manifests.AppliedObject], kubectl: cluster.Kubectl
) -> dict[str, following.FollowedObject]:
    return following.by_name(
        (
            each.name,
            following.FollowedObject(kubectl.within(each.namespace), each.kind),
        )
        for each in started
        if each.kind in cluster.RESOURCES
    )


def _sentence(each: manifests.AppliedObject) -> str:
    place = f" in namespace {each.namespace}" if each.namespace else ""
    done = "created" if each.kind in cluster.RESOURCES else "applied"
    return (
        f"{each.kind} {each.name}{place} "
        f"{'exists already; following it' if each.was_there else done}"
    )


def _cancel(
    targets: Mapping[str, following.FollowedObject], console: Console
) -> None:
    """Cancel the runs and sweeps that have not ended.

    Raises CommandError for those that can't be cancelled, after it has tried all others.
    """
    problems: list[str] = []
    for name, target in targets.items():
        resource = cluster.RESOURCES[target.kind]
        try:
            if not is_finished(
                raw.mapping(target.kubectl.get(name, resource).get("status"))
            ):
                target.kubectl.cancel(name, resource=resource)
                console.print(
                    f"cancelling {name}; a second Ctrl-C does not wait",
                    markup=False,
                    soft_wrap=True,
                )
        except errors.CommandError as error:
            problems.append(f"{name} is not cancelled: {error}")
    if problems:
        raise errors.CommandError("; ".join(problems))
