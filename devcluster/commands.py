"""The command line: one function for each command, called with the settings and the arguments."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from devcluster import (
    base_images,
    controllers,
    down,
    go_modules,
    images,
    leader_worker_set,
    node,
    peers,
    queueing,
    registries,
    status,
    tools,
    up,
    vllm_cpu,
)
from devcluster.reporting import DevclusterError, say
from devcluster.settings import Settings, from_environment


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status: 0, 1 on an error, 130 when interrupted."""
    typed = _parser().parse_args(arguments)
    try:
        if typed.command == "node":
            node.main(typed.directory)
        settings = from_environment(os.environ, home=Path.home(), here=Path.cwd())
        return _run(settings, typed)
    except DevclusterError as error:
        print(f"devcluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "devcluster: interrupted; `up` goes on from here, `down` removes it",
            file=sys.stderr,
        )
        return 130


def _run(settings: Settings, typed: argparse.Namespace) -> int:
    match typed.command:
        case "up":
            up.up(settings, with_images=not typed.no_images)
        case "down":
            down.down(settings, keep=typed.keep)
        case "tools":
            tools.make(settings, rebuild=typed.rebuild)
            say(f"all programs are in {settings.programs}")
        case "images":
            base_images.make(settings)
            say(f"built: {base_images.PYTHON_IMAGE}, {base_images.VLLM_IMAGE}")
        case "vllm":
            vllm_cpu.make(settings)
        case "peers":
            peers.make(settings)
        case "lws":
            controllers.install(settings, leader_worker_set.LWS)
        case "argocd":
            tools.make_argocd_engine(settings)
        case "kueue":
            controllers.install(settings, queueing.KUEUE)
        case "build":
            images.build(settings, _build(typed))
        case "load":
            images.load(settings, typed.image)
        case "remove":
            images.remove(settings, typed.image)
        case "load-archive":
            images.load_archive(settings, typed.archive)
        case "trust-registry":
            registries.trust(settings, typed.address)
        case "save":
            images.save(settings, typed.image, typed.archive)
        case "status":
            return status.show(settings)
        case "env":
            print(environment(settings))
        case "go-mod":
            go_modules.write_kube(typed.version)
    return 0


def environment(settings: Settings) -> str:
    """Return the shell line that points kubectl and helm at the cluster."""
    path = f"{shlex.quote(str(settings.programs))}:$PATH"
    return f"export KUBECONFIG={shlex.quote(str(settings.kubeconfig))} PATH={path}"


def _build(typed: argparse.Namespace) -> images.Build:
    return images.Build(
        tag=typed.tag,
        context=typed.context,
        dockerfile=typed.file,
        arguments=tuple(typed.build_arg),
        target=typed.target,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="devcluster",
        description=(
            "A real one-node Kubernetes on this machine. Settings are DEVCLUSTER_ variables: see "
            "README.md."
        ),
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND"
    )
    one = commands.add_parser(
        "up", help="bring the cluster up, complete it or repair it"
    )
    one.add_argument(
        "--no-images",
        action="store_true",
        help="do not load the images that were built here",
    )
    one = commands.add_parser("down", help="end it and remove every trace of it")
    one.add_argument(
        "--keep", action="store_true", help="keep its objects for the next up"
    )
    one = commands.add_parser("tools", help="build and unpack the programs")
    one.add_argument(
        "--rebuild", action="store_true", help="also those that are there already"
    )
    commands.add_parser("images", help="build the base images")
    commands.add_parser(
        "vllm", help="install vLLM for the CPU and write a tiny model"
    )
    commands.add_parser(
        "peers",
        help="install other benchmark tools, for the museum and the battery",
    )
    commands.add_parser(
        "lws", help="install LeaderWorkerSet, which servers on several nodes need"
    )
    commands.add_parser("argocd", help="build Argo CD's engine, for test-long")
    commands.add_parser(
        "kueue", help="install Kueue, in whose queues runs can wait for their GPUs"
    )
    one = commands.add_parser(
        "build", help="build an image, and load it if the cluster is up"
    )
    one.add_argument("-t", "--tag", required=True, metavar="NAME:TAG")
    one.add_argument("-f", "--file", type=Path, metavar="DOCKERFILE")
    one.add_argument(
        "--build-arg", action="append", default=[], metavar="NAME=VALUE"
    )
    one.add_argument("--target", default="", metavar="STAGE")
    one.add_argument("context", type=Path, metavar="CONTEXT")
    one = commands.add_parser(
        "load", help="give images that were built here to the cluster"
    )
    one.add_argument("image", nargs="+", metavar="IMAGE")
    one = commands.add_parser("remove", help="remove images that were built here")
    one.add_argument("image", nargs="+", metavar="IMAGE")
    one = commands.add_parser(
        "load-archive", help="give the images of an OCI archive to the cluster"
    )
    one.add_argument("archive", type=Path, metavar="FILE")
    one = commands.add_parser(
        "trust-registry", help="let the node pull from a registry over HTTP"
    )
    one.add_argument("address", metavar="HOST:PORT")
    one = commands.add_parser(
        "save", help="write an image that was built here as an OCI archive"
    )
    one.add_argument(
        "-o", "--output", dest="archive", required=True, type=Path, metavar="FILE"
    )
    one.add_argument("image", metavar="IMAGE")
    commands.add_parser("status", help="say what is up; exit 0 if all of it is")
    commands.add_parser(
        "env", help='print what to export: eval "$(python3 devcluster env)"'
    )
    one = commands.add_parser(
        "go-mod", help="write kube/go.mod and go.sum for another Kubernetes version"
    )
    one.add_argument("version", metavar="1.X.Y")
    # what `up` starts; not for hands
    commands.add_parser("node").add_argument("directory", type=Path)
    return parser
