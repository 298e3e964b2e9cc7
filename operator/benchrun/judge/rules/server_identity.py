"""Who was measured: servers that are not the run's own, serve another model, were replaced meanwhile, or also served others."""

from __future__ import annotations

import ipaddress
import posixpath
from collections.abc import Mapping, Sequence
from itertools import compress

from benchrun_client.contract import START_TIME, ServedModel, ServerEdge, StageRecord

from benchrun.judge.rules.finding import Code, Evidence, Explanation, NotChecked, StageFinding
from benchrun.judge.rules.rule import Found, StageContext
from benchrun.judge.stage_profile import Asked
from benchrun.measure.cells import rounded
from benchrun.measure.edges import (
    PROMPT_TOKENS,
    REQUESTS_FINISHED,
    answering,
    fallen_counters,
    is_restarted,
    of_vllm,
    rise,
)

# ---- wrong target -----------------------------------------------------------------------------------------------------
# Who was measured: servers that are not the run's own, or that serve another model.

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
    Code.SERVER_RESTARTED: Explanation(
        meaning="A server's process started anew during the stage: the stage saw two servers, one of them loading.",
        remedy="See why it ended (kubectl describe pod, the previous container's log), then run again.",
    ),
    Code.COUNTERS_RESET: Explanation(
        meaning="A counter of a server fell during the stage, which happens only when its process was replaced.",
        remedy="See why it ended (kubectl describe pod, the previous container's log), then run again.",
    ),
    Code.FOREIGN_TRAFFIC: Explanation(
        meaning="The servers worked for somebody else during the stage: every latency and throughput is that of a load "
        "nobody asked for.",
        remedy="Measure a server of your own, or keep other clients, probes that send completions and other runs away "
        "from it meanwhile. If their load belongs to the question, say so in validity.severities.",
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


# ---- server restarted -------------------------------------------------------------------------------------------------
# A server that was replaced in the middle of a stage.

_READ = ("generation_tokens", "prompt_tokens", "requests_finished", "prefix_queries")
"""Counters that the operator's readings hold."""


def server_restarted(record: StageRecord, context: StageContext) -> Found:
    """The process has another start time at the end or in a reading, or (where it tells none) its counters fell."""
    restarted = _restarted_at_edges(record) or _restarted_between_readings(context)
    if restarted:
        evidence: Evidence = {"servers": len(restarted), **restarted[0]}
        return [StageFinding(Code.SERVER_RESTARTED, "Invalid", record.stage_id, evidence, weight=len(restarted))]
    fallen = [(edge, counters[0]) for edge in record.servers if (counters := fallen_counters(edge))]
    if fallen:
        edge, counter = fallen[0]
        evidence = {
            "servers": len(fallen),
            "server": edge.address,
            "counter": counter,
            "before": (edge.before or {}).get(counter),
            "after": (edge.after or {}).get(counter),
        }
        return [StageFinding(Code.COUNTERS_RESET, "Invalid", record.stage_id, evidence, weight=len(fallen))]
    return _fallen_between_readings(record, context) or _not_seen(record, context)


def _not_seen(record: StageRecord, context: StageContext) -> list[NotChecked]:
    """Nobody read a server at two instants: it may have been replaced in between."""
    read = any(edge.before is not None and edge.after is not None for edge in record.servers)
    if read or sum(len(window.samples) for window in context.windows) > 1:
        return []
    return [NotChecked(Code.SERVER_RESTARTED, "no server was read at both ends, or meanwhile")]


def _fallen_between_readings(record: StageRecord, context: StageContext) -> list[StageFinding]:
    """A counter that began anew and rose past where it was looks whole at the edges, not to whoever read it meanwhile."""
    last: dict[tuple[str, str], float] = {}
    for sample in sorted((s for window in context.windows for s in window.samples), key=lambda s: s.at):
        for counter in _READ:
            now = getattr(sample, counter)
            if now is None:
                continue
            before = last.get((sample.pod, counter), now)
            if now < before:
                evidence: Evidence = {
                    "servers": 1,
                    "server": sample.pod,
                    "counter": counter,
                    "before": before,
                    "after": now,
                }
                return [StageFinding(Code.COUNTERS_RESET, "Invalid", record.stage_id, evidence, weight=1)]
            last[sample.pod, counter] = now
    return []


def _restarted_at_edges(record: StageRecord) -> list[Evidence]:
    return [
        _start_times(edge.address, (edge.before or {}).get(START_TIME), (edge.after or {}).get(START_TIME))
        for edge in record.servers
        if is_restarted(edge)
    ]


def _restarted_between_readings(context: StageContext) -> list[Evidence]:
    """Seen by the operator while the client could not read the closing edge."""
    starts: dict[str, set[float]] = {}
    for sample in (sample for window in context.windows for sample in window.samples):
        if sample.start_time is not None:
            starts.setdefault(sample.pod, set()).add(sample.start_time)
    return [_start_times(pod, min(seen), max(seen)) for pod, seen in starts.items() if len(seen) > 1]


def _start_times(server: str, before: float | None, after: float | None) -> Evidence:
    """Unix seconds at which its process began, as it said first and last."""
    return {"server": server, "startedBefore": before, "startedAfter": after}


# ---- foreign traffic --------------------------------------------------------------------------------------------------
# Work that the servers did and this client did not ask for.
#
# A request of ours finishes at most once, whatever becomes of it here: failed and aborted ones finish never or once. So more
# requests finished than were sent is somebody else's doing, and a single one is enough to know it. Requests that somebody
# sends but that don't finish in the stage show in the prompt tokens, which are counted with the first token.


def foreign_traffic(record: StageRecord, context: StageContext) -> Found:
    """Requests finished and, for Completions, prompt tokens processed beyond those of this stage."""
    line = context.thresholds.foreign_invalid_percent
    sent, finished = len(record.requests.ok), rise(answering(record.servers), REQUESTS_FINISHED)
    prompted = rise(answering(record.servers), PROMPT_TOKENS)
    if finished is None or prompted is None:
        return [NotChecked(Code.FOREIGN_TRAFFIC, "a server's requests and prompt tokens were not read at both ends")]
    asked, slack = _prompt_tokens(record)
    more_requests = 100 * max(finished - sent, 0) / sent
    # A chat template adds tokens that older load engines don't count.
    comparable = context.asked.api == "Completions" and asked > 0
    more_tokens = 100 * max(prompted - asked - slack, 0) / asked if comparable else 0.0
    if max(more_requests, more_tokens) <= line:
        return []
    evidence = {
        "sentRequests": sent,
        "finishedRequests": finished,
        "moreRequestsPercent": rounded(more_requests),
        "sentPromptTokens": asked,
        "uncertainPromptTokens": slack,
        "promptTokens": prompted,
        "morePromptTokensPercent": rounded(more_tokens),
        "invalidPercent": line,
    }
    weight = max(more_requests, more_tokens)
    return [StageFinding(Code.FOREIGN_TRAFFIC, "Invalid", record.stage_id, evidence, weight=weight)]


def _prompt_tokens(record: StageRecord) -> tuple[int, int]:
    """Tokens of all prompts sent, and how many more they may be by the server's tokenizer.

    Where the server's closing count came, its prompt tokens came with it, though not to the oldest load engines: those
    know their own count, without the token that begins a sequence. Without it the prompt is the client's count alone,
    which another tokenizer may double.
    """
    columns = record.requests
    asked = sum(columns.input_tokens)
    uncertain = asked - sum(compress(columns.input_tokens, columns.ended))
    return asked, len(columns.ok) + uncertain
