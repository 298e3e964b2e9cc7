"""Who was measured: servers that are not the run's own, or that serve another model."""

from __future__ import annotations

import ipaddress
import posixpath
from collections.abc import Mapping, Sequence

from benchrun_client.contract import ServedModel, ServerEdge, StageRecord

from benchrun.judge.asked import Asked
from benchrun.judge.finding import Code, Evidence, Explanation, NotChecked, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.measure.edges import REQUESTS_FINISHED, of_vllm

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.WRONG_SERVER: Explanation(
        meaning="Requests went to a server that is not one of the run's pods: its figures are not those of the run's servers.",
        remedy="Run again. If it comes back, look up the name of the run's Service from the client's node: something answers "
        "for it that is not this cluster's DNS.",
    ),
    Code.WRONG_MODEL: Explanation(
        meaning="A server lists another model than the one asked for: the figures are those of that model.",
        remedy="See the arguments in the server's log: an image with an entry point of its own may drop the model it is told. "
        "If the model comes with the image, name its directory as model.source.path.",
    ),
}
MAX_CHARS = 150
"""Of a name, a path or a list of addresses in the evidence."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def wrong_server(record: StageRecord, context: StageContext) -> Found:
    """The addresses that the client measured at, held against those of the run's own pods. An endpoint has none."""
    if not context.asked.servers:
        return []
    own = {server.role: server.addresses for server in context.servers}
    known = [(edge, _is_own(edge, own.get(edge.role, ()), context.asked)) for edge in record.servers]
    foreign = [edge for edge, is_own in known if is_own is False]
    if foreign:
        first = foreign[0]
        evidence: Evidence = {
            "servers": len(foreign),
            "server": first.address,
            "role": first.role,
            "ownServers": ", ".join(own[first.role])[:MAX_CHARS],
        }
        return [StageFinding(Code.WRONG_SERVER, "Invalid", record.stage_id, evidence, weight=len(foreign))]
    if not known:
        return [NotChecked(Code.WRONG_SERVER, "the record names no server")]
    if any(is_own is None for _, is_own in known):
        return [NotChecked(Code.WRONG_SERVER, "the addresses of the run's server pods are not all known")]
    return []


def _is_own(edge: ServerEdge, own: Sequence[str], asked: Asked) -> bool | None:
    """Whether a pod of the role has the address; None: not the addresses of all of them are known."""
    measured, pods = _ip(edge.address.rpartition(":")[0].strip("[]")), {_ip(address) for address in own}
    if measured is None or measured in pods:
        return None if measured is None else True
    alike = [pod for pod in pods if pod is not None and pod.version == measured.version]
    return False if len(alike) >= asked.servers.get(edge.role, len(alike) + 1) else None


def _ip(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def wrong_model(record: StageRecord, context: StageContext) -> Found:
    """What /v1/models says of the name that requests carry: that it is there, and of the run's own servers that it stands for
    the model that they were told to serve."""
    asked = context.asked
    if asked.offline:
        return []  # our own code loads the model that it is told, and tells of no other
    told = [(edge, edge.served) for edge in of_vllm(record.servers)]
    wrong = [(edge, served) for edge, served in told if served is not None and _is_wrong(edge, served, asked)]
    if wrong:
        edge, served = wrong[0]
        evidence: Evidence = {
            "servers": len(wrong),
            "server": edge.address,
            "askedName": asked.served_name[-MAX_CHARS:],
            "listedName": served.id[-MAX_CHARS:],
            "askedModel": asked.model[-MAX_CHARS:] if asked.model is not None else None,
            "listedModel": served.root[-MAX_CHARS:] if served.root is not None else None,
        }
        return [StageFinding(Code.WRONG_MODEL, "Invalid", record.stage_id, evidence, weight=len(wrong))]
    why = next((why for _, served in told if (why := _untold(served, asked)) is not None), None)
    if not told:
        why = "the record names no server"
    return [] if why is None else [NotChecked(Code.WRONG_MODEL, why)]


def _is_wrong(edge: ServerEdge, served: ServedModel, asked: Asked) -> bool:
    if served.id != asked.served_name:
        # A gateway may know a model by names that it does not list. Nothing stands between a Service and vLLM in its pods.
        return bool(asked.servers) or (asked.through_service and REQUESTS_FINISHED in (edge.after or {}))
    return _tells_its_model(served) and asked.model is not None and not _is_same(served.root or "", asked.model)


def _tells_its_model(served: ServedModel) -> bool:
    """Servers other than vLLM may repeat the name as the root, which says nothing of where the model comes from."""
    return bool(served.root) and served.root != served.id


def _untold(served: ServedModel | None, asked: Asked) -> str | None:
    """What a server left out, so that it could not be checked."""
    if served is None:
        return "a server lists no models"
    if served.id != asked.served_name:
        return "the endpoint does not list the name in the requests"
    if asked.model not in (None, served.id) and not _tells_its_model(served):
        return "a server does not tell where its model comes from"
    return None


def _is_same(root: str, asked: str) -> bool:
    """Whether a server that says it serves `root` serves the model asked for. vLLM repeats what it was told; an image may hand it
    the place where it keeps that model, whose path names it: a folder called alike, or the hub's cache."""
    if posixpath.normpath(root) == posixpath.normpath(asked):
        return True
    if not root.startswith("/") or asked.startswith("/"):
        return False
    folders, model = posixpath.normpath(root).casefold().split("/"), asked.casefold().split("/")
    return folders[-1] == model[-1] or "--".join(("models", *model)) in folders
