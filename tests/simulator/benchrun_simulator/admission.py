"""vLLM's own limit on its queue, with HTTP 503 beyond it.

The flags are `--max-num-queued-reqs` and `--max-num-queued-tokens`. Order, words and reasons are
those of vLLM 0.32 (`vllm/v1/engine/async_llm.py`, `vllm/exceptions.py`).
"""

from http import HTTPStatus

from benchrun_simulator.generation import ApiError

REQUESTS = "max_num_queued_reqs"
TOKENS = "max_num_queued_tokens"


class Admission:
    """A gate that lets requests in and counts those that it refused."""

    def __init__(self, *, max_requests: int | None, max_tokens: int | None) -> None:
        self._max_requests = max_requests
        self._max_tokens = max_tokens
        self.begin_anew()

    def begin_anew(self) -> None:
        """Set the counts to zero."""
        self.rejections = {REQUESTS: 0, TOKENS: 0}

    @property
    def limited(self) -> bool:
        """Return whether there is a limit at all."""
        return self._max_requests is not None or self._max_tokens is not None

    def check(self, *, unfinished: int, queued_tokens: int) -> None:
        """Raise HTTP 503 if one more request would be too many.

        `unfinished` counts the requests that wait or run; `queued_tokens` counts the prompt tokens
        of those without a first token yet. vLLM admits a request as long as these are below the
        limit, however long its own prompt is.
        """
        if self._max_requests is not None and unfinished + 1 > self._max_requests:
            raise self._rejection(
                REQUESTS,
                "The engine is currently busy and cannot accept new requests. ",
            )
        if self._max_tokens is not None and queued_tokens >= self._max_tokens:
            raise self._rejection(
                TOKENS, "The engine has reached its prefill token backlog limit. "
            )

    def _rejection(self, reason: str, message: str) -> ApiError:
        self.rejections[reason] += 1
        status = HTTPStatus.SERVICE_UNAVAILABLE
        return ApiError(
            status,
            status.phrase,
            message + "Please try again later or on a different instance.",
        )
