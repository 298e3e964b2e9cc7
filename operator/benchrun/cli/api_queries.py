"""Queries to the API server through kubectl, bounded in time and size."""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from benchrun.cli.errors import (
    NO_KUBECTL,
    OF_THE_CLUSTER,
    KubectlError,
    explained,
    refusal_in,
)
from benchrun.doctor.asking import (
    MOST_PAGES,
    ApiAnswer,
    ApiAnswers,
    ApiQuery,
    Trouble,
)

AT_ONCE = 6
REQUEST_SECONDS = 10
KUBECTL_SECONDS = 20
"""Seconds after which kubectl is stopped; this includes a login."""
MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
_TROUBLES: dict[str, Trouble] = {"NotFound": "NotFound", "Forbidden": "Forbidden"}
_UNDER_WAY = frozenset({"Timeout", "ServiceUnavailable", "TooManyRequests"})


@dataclass(frozen=True, slots=True)
class Asker:
    """Sends queries to the API server of one cluster, for one namespace."""

    namespace: str
    context: str | None

    def all(self, queries: Iterable[ApiQuery], answers: ApiAnswers) -> None:
        """Send every query that has no answer yet, several at once, and add the answers.

        Raises KubectlError if the cluster can't be reached.
        """
        wanted = [each for each in dict.fromkeys(queries) if each not in answers]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                answers.update(zip(wanted, pool.map(self.one, wanted), strict=True))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def one(self, query: ApiQuery) -> ApiAnswer:
        """Send one query, and return its answer. A list is read page by page.

        Raises KubectlError if the cluster can't be reached.
        """
        answer = self._page(query)
        items = list(answer.items)
        for _ in range(MOST_PAGES - 1):
            if not (token := answer.next_page):
                break
            path = f"{query.path}&continue={quote(token, safe='')}"
            answer = self._page(replace(query, path=path))
            items += answer.items
        return answer if answer.body is None else _with_items(answer, items)

    def _page(self, query: ApiQuery) -> ApiAnswer:
        command = ["create", f"--raw={query.path}", "--filename=-"]
        words = command if query.body else ["get", f"--raw={query.path}"]
        account = [f"--as={query.account}"] if query.account else []
        code, out, error = self.kubectl(*words, *account, given=query.body)
        if code is None:
            return ApiAnswer(trouble="Failed", words=error)
        if code != 0:
            return _refused(error)
        try:
            body = json.loads(out)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            return ApiAnswer(
                trouble="Failed", words="the answer is not a JSON object"
            )
        return ApiAnswer(_without_values(body))

    def kubectl(
        self, *words: str, given: str = ""
    ) -> tuple[int | None, bytes, str]:
        """Run kubectl, and return its exit code, its output, and its error as text.

        The code is None if kubectl was stopped, because it took too long or printed too much.
        """
        if shutil.which("kubectl") is None:
            raise NO_KUBECTL
        command = [
            "kubectl",
            *words,
            f"--request-timeout={REQUEST_SECONDS}s",
            *([f"--namespace={self.namespace}"] if self.namespace else []),
            *([f"--context={self.context}"] if self.context else []),
        ]
        with _process(command) as process:
            return _outcome(process, given.encode())


@contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        timer = threading.Timer(KUBECTL_SECONDS, process.kill)
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()
            process.kill()


def _outcome(
    process: subprocess.Popen[bytes], given: bytes
) -> tuple[int | None, bytes, str]:
    assert process.stdin is not None, "a pipe"
    assert process.stdout is not None, "a pipe"
    errors: list[bytes] = []
    reader = threading.Thread(
        target=_read_all, args=(process.stderr, errors), daemon=True
    )
    reader.start()
    try:
        process.stdin.write(given)
        process.stdin.close()
    except BrokenPipeError:
        pass  # kubectl has ended; its error says why.
    out = process.stdout.read(MAX_ANSWER_BYTES + 1)
    if len(out) > MAX_ANSWER_BYTES:
        return (
            None,
            b"",
            f"the answer is larger than {MAX_ANSWER_BYTES // 1024**2} MiB",
        )
    code = process.wait()
    reader.join()
    if code < 0:
        return None, b"", f"no answer within {KUBECTL_SECONDS} s"
    return code, out, b"".join(errors).decode("utf-8", "replace")


def _read_all(stream: Any, into: list[bytes]) -> None:
    """Read a stream to its end, and keep about the first MAX_ERROR_BYTES."""
    kept = 0
    while data := stream.read(MAX_ERROR_BYTES):
        if kept < MAX_ERROR_BYTES:
            into.append(data)
            kept += len(data)


def _refused(error: str) -> ApiAnswer:
    """Return the answer for an error of kubectl. Raises KubectlError without a cluster."""
    reason, words = refusal_in(error)
    # A refusal with a reason comes from a cluster, whatever the words of its webhooks are.
    found: KubectlError = explained(error)
    if found.trouble in OF_THE_CLUSTER and reason in ("", "Unauthorized"):
        raise found
    if reason in _UNDER_WAY:
        return ApiAnswer(trouble="Failed", words=words)
    return ApiAnswer(trouble=_TROUBLES.get(reason, "Refused"), words=words)


def _with_items(answer: ApiAnswer, items: list[Any]) -> ApiAnswer:
    """Return the answer to a list with these items; return other answers unchanged."""
    if "items" not in answer.found:
        return answer
    return replace(answer, body={**answer.found, "items": items})


def _without_values(body: dict[str, Any]) -> dict[str, Any]:
    """Return the object; keep only the names of a Secret's keys, not their values."""
    data = body.get("data")
    if body.get("kind") != "Secret" or not isinstance(data, dict):
        return body
    return {"kind": "Secret", "data": dict.fromkeys(data, "")}
