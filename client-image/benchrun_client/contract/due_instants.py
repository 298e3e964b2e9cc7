"""From which instant latencies count. Pure; operator and client decide it here, and only here."""

from operator import add, sub

from benchrun_client.contract.loads import LoadKind
from benchrun_client.contract.record import RequestColumns


def sent_when_due(requests: RequestColumns, load: LoadKind) -> RequestColumns:
    """Return the requests as if each had been sent when it was due, for latencies that count.

    A client that is late would otherwise make the server look fast: the later it sends, the fewer
    requests wait. Answers end when they did, so latencies are longer by the delay, and there is no
    queue any more. A `start_us` may be negative, since it stays relative to the first send. Only
    requests of a load with due instants change. Under a cap the wait has figures of its own, and in
    a closed loop only an answer makes a request due.
    """
    if not load.has_due_instants:
        return requests
    late = requests.queue_us
    update = {
        "start_us": tuple(map(sub, requests.start_us, late)),
        "queue_us": (0,) * len(late),
        "ttft_us": tuple(map(add, requests.ttft_us, late)),
        "e2el_us": tuple(map(add, requests.e2el_us, late)),
    }
    for name in ("reasoning_us", "answer_us"):
        if column := getattr(requests, name):
            update[name] = tuple(
                # 0 says that there was no such token.
                us and us + wait
                for us, wait in zip(column, late, strict=True)
            )
    return requests.model_copy(update=update)
