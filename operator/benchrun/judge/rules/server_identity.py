"""Rules that check whether the measured servers are the expected ones.

They find servers that are not the run's own, that serve another model, that restarted during the
stage, or that had traffic from other clients.
"""

import ipaddress
import posixpath
from collections.abc import Mapping, Sequence
from itertools import compress, product

from benchrun_client.contract import START_TIME, ServedModel, ServerEdge

from benchrun.api import Sample
from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    NotChecked,
    Sentence,
    StageFacts,
    StageFinding,
    StageRule,
)
from benchrun.measure import counters, rounded

MAX_CHARS = 150  # Bound on a name, a path or a list of addresses in the evidence.


def wrong_server(stage: StageFacts) -> Found:
    """Find servers in the record whose address belongs to no pod of the run.

    An endpoint is not checked, because the run has no pods for it.
    """
    if not stage.expected.servers:
        return []
    own = {server.role: server.addresses for server in stage.servers}
    started = stage.expected.servers
    known = [
        (edge, _is_own(edge, own.get(edge.role, ()), started.get(edge.role)))
        for edge in stage.edges
    ]
    foreign = [edge for edge, is_own in known if is_own is False]
    if foreign:
        first = foreign[0]
        evidence: Evidence = {
            "servers": len(foreign),
            "server": first.address,
            "role": first.role,
            "ownServers": ", ".join(own[first.role])[:MAX_CHARS],
        }
        return [
            StageFinding(
                Code.WRONG_SERVER,
                "Invalid",
                stage.id,
                evidence,
                weight=len(foreign),
            )
        ]
    if not known:
        return [NotChecked(Code.WRONG_SERVER, "the record names no server")]
    if any(is_own is None for _, is_own in known):
        return [
            NotChecked(
                Code.WRONG_SERVER,
                "the addresses of the run's server pods are not all known",
            )
        ]
    return []


def _is_own(
    edge: ServerEdge, own: Sequence[str], started: int | None
) -> bool | None:
    """Return whether a pod of the role has the server's address.

    None if the addresses of some pods are not known.
    """
    measured = _ip(edge.address.rpartition(":")[0].strip("[]"))
    pods = {_ip(address) for address in own}
    if measured is None or measured in pods:
        return None if measured is None else True
    alike = [
        pod for pod in pods if pod is not None and pod.version == measured.version
    ]
    return False if started is not None and len(alike) >= started else None


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def wrong_model(stage: StageFacts) -> Found:
    """Find servers that serve another model than the run expects.

    /v1/models must list the model name that requests carry. On the run's own servers, that name
    must stand for the model that the run expects.
    """
    expected = stage.expected
    if expected.offline:
        return []  # benchrun's own code loads the expected model
    listed = [(edge, edge.served) for edge in counters.of_engine(stage.edges)]
    wrong = [
        (edge, served)
        for edge, served in listed
        if served is not None and _is_wrong(edge, served, stage)
    ]
    if wrong:
        edge, served = wrong[0]
        evidence: Evidence = {
            "servers": len(wrong),
            "server": edge.address,
            "askedName": expected.served_name[-MAX_CHARS:],
            "listedName": served.id[-MAX_CHARS:],
            "askedModel": expected.model[-MAX_CHARS:]
            if expected.model is not None
            else None,
            "listedModel": served.root[-MAX_CHARS:]
            if served.root is not None
            else None,
        }
        return [
            StageFinding(
                Code.WRONG_MODEL, "Invalid", stage.id, evidence, weight=len(wrong)
            )
        ]
    reasons = (_missing(served, stage) for _, served in listed)
    why = (
        next(filter(None, reasons), None)
        if listed
        else "the record names no server"
    )
    return [] if why is None else [NotChecked(Code.WRONG_MODEL, why)]


def mixed_metrics(stage: StageFacts) -> Found:
    """Find metrics pages with the series of several engines: such a page is no single server's."""
    named = [(edge, edge.engines) for edge in counters.of_engine(stage.edges)]
    mixed = [(edge, engines) for edge, engines in named if "," in (engines or "")]
    if not mixed:
        return []
    first, engines = mixed[0]
    evidence: Evidence = {
        "servers": len(mixed),
        "server": first.address,
        "engines": (engines or "")[:MAX_CHARS],
    }
    return [
        StageFinding(
            Code.MIXED_METRICS, "Suspect", stage.id, evidence, weight=len(mixed)
        )
    ]


def _is_wrong(edge: ServerEdge, served: ServedModel, stage: StageFacts) -> bool:
    expected = stage.expected
    if served.id != expected.served_name:
        # A gateway may know a model by names that it does not list. Nothing stands between a
        # Service and an engine in its pods.
        return bool(expected.servers) or (
            expected.through_service
            and counters.GENERATION_TOKENS in (edge.after or {})
        )
    source = _source(served)
    return (
        source is not None
        and expected.model is not None
        and not _is_same(source, expected.model)
    )


def _source(served: ServedModel) -> str | None:
    """Return the path or hub id of the model that a server reports; None if it reports none.

    vLLM reports it as the model's root. Other servers may repeat the model's name there, which is
    not a source.
    """
    return served.root if served.root and served.root != served.id else None


def _missing(served: ServedModel | None, stage: StageFacts) -> str | None:
    expected = stage.expected
    if served is None:
        return "a server lists no models at /v1/models"
    if served.id != expected.served_name:
        return (
            "the endpoint's /v1/models does not list the model name that requests "
            "carry"
        )
    unknown = expected.model not in (None, served.id) and _source(served) is None
    return (
        "a server does not report where its model comes from" if unknown else None
    )


def _is_same(root: str, expected: str) -> bool:
    """Return whether the `root` that a server reports is the expected model.

    vLLM reports the argument that it was given. An image may pass the path of its own copy instead;
    that is a folder with the model's name, or one in the hub's cache.
    """
    if posixpath.normpath(root) == posixpath.normpath(expected):
        return True
    if not root.startswith("/") or expected.startswith("/"):
        return False
    folders = posixpath.normpath(root).casefold().split("/")
    model = expected.casefold().split("/")
    return folders[-1] == model[-1] or "--".join(("models", *model)) in folders


_READ = (
    "generation_tokens",
    "prompt_tokens",
    "requests_finished",
    "prefix_queries",
)
"""Names of the counters in the operator's samples."""


def server_restarted(stage: StageFacts) -> Found:
    """Find servers that restarted during the stage.

    A server restarted if its process has another start time at the end of the stage or in a sample.
    A server that reports no start time restarted if its counters fell. This holds only if one
    process answers at the address. Behind a load balancer several processes may answer; then an old
    start time comes back, which never happens after a restart.
    """
    if _several_answer(stage.samples):
        why = (
            "several servers answer at one address, so start times alternate (use "
            "endpoint.serviceRef)"
        )
        return [NotChecked(Code.SERVER_RESTARTED, why)]
    if restarted := _restarted(stage):
        server, before, after = restarted[0]
        # Unix seconds at which its process began, first and last.
        times = {"startedBefore": before, "startedAfter": after}
        evidence: Evidence = {"servers": len(restarted), "server": server, **times}
        return [
            StageFinding(
                Code.SERVER_RESTARTED,
                "Invalid",
                stage.id,
                evidence,
                weight=len(restarted),
            )
        ]
    fallen = [
        (edge, fell[0])
        for edge in stage.edges
        if (fell := counters.fallen_counters(edge))
    ]
    if fallen:
        edge, counter = fallen[0]
        before = (edge.before or {}).get(counter)
        after = (edge.after or {}).get(counter)
        return [
            _counter_fell(stage, len(fallen), edge.address, counter, before, after)
        ]
    fallen_between = _fallen_between_samples(stage)
    read = any(
        edge.before is not None and edge.after is not None for edge in stage.edges
    )
    if fallen_between or read or len(stage.samples) > 1:
        return fallen_between
    return [
        NotChecked(
            Code.SERVER_RESTARTED,
            "too few metrics of servers could be read",
        )
    ]


def _several_answer(samples: Sequence[Sample]) -> bool:
    """Return whether an address shows an old start time again after another one."""
    last: dict[str, float] = {}
    gone: set[tuple[str, float]] = set()
    for sample in sorted(samples, key=lambda each: each.at):
        start = sample.start_time
        if start is None:
            continue
        if (sample.pod, start) in gone:
            return True
        if (before := last.get(sample.pod, start)) != start:
            gone.add((sample.pod, before))
        last[sample.pod] = start
    return False


def _counter_fell(
    stage: StageFacts,
    servers: int,
    server: str,
    counter: str,
    before: float | None,
    after: float | None,
) -> StageFinding:
    evidence: Evidence = {
        "servers": servers,
        "server": server,
        "counter": counter,
        "before": before,
        "after": after,
    }
    return StageFinding(
        Code.COUNTERS_RESET, "Invalid", stage.id, evidence, weight=servers
    )


def _fallen_between_samples(stage: StageFacts) -> list[StageFinding]:
    """Find a counter that fell from one sample to the next.

    A counter that restarted and then rose above its old value fell only between samples, not over
    the whole stage.
    """
    last: dict[tuple[str, str], float] = {}
    for sample, counter in product(
        sorted(stage.samples, key=lambda s: s.at), _READ
    ):
        now = getattr(sample, counter)
        before = last.get((sample.pod, counter), now)
        if now is not None and now < before:
            return [_counter_fell(stage, 1, sample.pod, counter, before, now)]
        if now is not None:
            last[sample.pod, counter] = now
    return []


def _restarted(stage: StageFacts) -> list[tuple[str, float | None, float | None]]:
    """Return restarted servers with their first and last start time, in Unix seconds.

    The times are those that the client read at both ends of the stage. If these show no restart,
    they are from the operator's samples, because the client may have failed to read the end.
    """
    restarted = list(filter(counters.is_restarted, stage.edges))
    if restarted:
        return [
            (
                e.address,
                (e.before or {}).get(START_TIME),
                (e.after or {}).get(START_TIME),
            )
            for e in restarted
        ]
    starts: dict[str, set[float]] = {}
    for sample in stage.samples:
        if sample.start_time is not None:
            starts.setdefault(sample.pod, set()).add(sample.start_time)
    return [
        (pod, min(seen), max(seen)) for pod, seen in starts.items() if len(seen) > 1
    ]


# A request of the run finishes at most once: failed and aborted ones finish never or once; one that
# was sent again on a new connection may finish twice. So more requests finished than were sent come
# from other clients, and a single one proves it. Foreign requests that don't finish in the stage
# show in the prompt tokens, which are counted with the first token.


def foreign_traffic(stage: StageFacts) -> Found:
    """Find traffic from other clients during the stage.

    The signs are more finished requests than were sent or, without a chat template, more prompt
    tokens.
    """
    threshold = stage.thresholds.foreign_invalid_percent
    sent = stage.sent_texts
    finished = counters.rise(
        counters.answering(stage.edges), counters.REQUESTS_FINISHED
    )
    prompted = counters.rise(
        counters.answering(stage.edges), counters.PROMPT_TOKENS
    )
    if finished is None or prompted is None:
        return [
            NotChecked(
                Code.FOREIGN_TRAFFIC,
                "a server's requests and prompt tokens were not read before and after the stage",
            )
        ]
    # Where the server's closing count came, its prompt tokens came with it, though not to the
    # oldest load engines: those know their own count, without the token that begins a sequence.
    # Without it the prompt is the client's count alone, which another tokenizer may double.
    columns = stage.requests
    sent_tokens = sum(columns.input_tokens)
    slack = sent + sent_tokens - sum(compress(columns.input_tokens, columns.ended))
    again = stage.sent_again * stage.expected.texts
    more_requests = 100 * max(finished - sent - again, 0) / sent
    slack += stage.sent_again * max(columns.input_tokens, default=0)
    # A chat template adds tokens that older load engines don't count.
    comparable = stage.expected.api != "Chat" and sent_tokens > 0
    more_tokens = (
        100 * max(prompted - sent_tokens - slack, 0) / sent_tokens
        if comparable
        else 0.0
    )
    more_percent = max(more_requests, more_tokens)
    if more_percent <= threshold:
        return []
    evidence = {
        "sentRequests": sent,
        "finishedRequests": finished,
        "moreRequestsPercent": rounded(more_requests),
        "sentPromptTokens": sent_tokens,
        "uncertainPromptTokens": slack,
        "promptTokens": prompted,
        "morePromptTokensPercent": rounded(more_tokens),
        "invalidPercent": threshold,
    }
    return [
        StageFinding(
            Code.FOREIGN_TRAFFIC, "Invalid", stage.id, evidence, weight=more_percent
        )
    ]


STAGE_RULES: tuple[StageRule, ...] = (
    wrong_server,
    wrong_model,
    mixed_metrics,
    server_restarted,
    foreign_traffic,
)
SENTENCES: Mapping[Code, Sentence] = {
    Code.WRONG_SERVER: (
        "{server} is not one of the run's {role} pods ({ownServers})."
    ),
    Code.WRONG_MODEL: (
        "The server at {server} lists the model {listedName}[ ({listedModel})]; "
        "the run expects {askedName}[ ({askedModel})]."
    ),
    Code.MIXED_METRICS: (
        "The metrics page of {server} has the series of several engines: {engines}."
    ),
    Code.SERVER_RESTARTED: (
        "The server {server} restarted during the stage. Number of servers that "
        "restarted: {servers}."
    ),
    Code.COUNTERS_RESET: (
        "The counter {counter} of {server} fell from {before} to {after}."
    ),
    Code.FOREIGN_TRAFFIC: (
        "The servers finished {finishedRequests} requests where {sentRequests} "
        "were sent ({moreRequestsPercent} % more), and processed "
        "{morePromptTokensPercent} % more prompt tokens than were sent (threshold "
        "{invalidPercent} %)."
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.WRONG_SERVER: needs(Input.SERVER_IDENTITY, Input.PLAN),
    Code.WRONG_MODEL: needs(Input.SERVER_IDENTITY),
    Code.MIXED_METRICS: needs(Input.SERVER_COUNTERS),
    Code.SERVER_RESTARTED: needs(Input.SERVER_COUNTERS, Input.SERVER_SAMPLES),
    Code.COUNTERS_RESET: needs(Input.SERVER_COUNTERS, Input.SERVER_SAMPLES),
    Code.FOREIGN_TRAFFIC: needs(Input.OUTCOMES, Input.SERVER_COUNTERS),
}
