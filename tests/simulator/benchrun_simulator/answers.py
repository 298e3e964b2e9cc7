"""The JSON of completions and chats, whole and as server-sent events, as vLLM 0.32 writes it.

An event is a fixed head, the token's text as JSON, and a fixed tail: almost nothing is computed per
token.
"""

from dataclasses import dataclass

from benchrun_simulator.generation import Generation, compact

DONE = b"data: [DONE]\n\n"
EVENT_STREAM = "text/event-stream; charset=utf-8"
FINGERPRINT = "vllm-simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """The fields that are equal in every piece of one answer."""

    request_id: str
    created: int
    model: str


class Answer:
    """A renderer of one answer."""

    def __init__(
        self,
        generation: Generation,
        naming: Naming,
        *,
        reasoning_key: str = "reasoning",
    ) -> None:
        self._chat = generation.chat
        self._naming = naming
        kind = "chat.completion.chunk" if generation.chat else "text_completion"
        opening = b"data: " + compact(self._fields(kind))[:-1]
        if generation.chat:
            self._role = (
                opening
                + b',"choices":[{"index":0,"delta":{"role":"assistant","content":""},'
            )
            self._role += b'"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}\n\n'
            delta = opening + b',"choices":[{"index":0,"delta":{'
            self._head = delta + b'"content":'
            self._reasoning_head = delta + b'"%b":' % reasoning_key.encode()
            self._tail = (
                b'},"logprobs":null,"finish_reason":%b,"token_ids":null}]}\n\n'
            )
        else:
            self._role = b""
            self._reasoning_head = b""
            self._head = opening + b',"choices":[{"index":0,"text":'
            self._tail = b',"logprobs":null,"finish_reason":%b,"stop_reason":null,'
            self._tail += b'"prompt_token_ids":null,"token_ids":null}]}\n\n'
        self._plain_tail = self._tail % b"null"

    def first_event(self) -> bytes:
        """Return what precedes the first token: in a chat the chunk with the role, else nothing."""
        return self._role

    def token_event(self, text_json: bytes, *, reasoning: bool = False) -> bytes:
        """Return the event of one token or more, the last token not among them."""
        head = self._reasoning_head if reasoning else self._head
        return head + text_json + self._plain_tail

    def last_events(
        self,
        text_json: bytes,
        *,
        reason: str,
        usage: dict[str, object] | None,
        reasoning: bool = False,
    ) -> bytes:
        """Return the last token or tokens, the usage if it was asked for, and the end mark."""
        head = self._reasoning_head if reasoning else self._head
        last = head + text_json + self._tail % compact(reason)
        return (
            last + (self._usage_event(usage) if usage is not None else b"") + DONE
        )

    def whole(
        self,
        text: str,
        *,
        reason: str,
        usage: dict[str, object],
        transfer: dict[str, object] | None,
    ) -> bytes:
        """Return the answer to a request that does not stream."""
        if self._chat:
            message = {
                "role": "assistant",
                "content": text,
                "refusal": None,
                "reasoning": None,
            }
            choice: dict[str, object] = {"index": 0, "message": message}
        else:
            choice = {"index": 0, "text": text}
        choice |= {
            "logprobs": None,
            "finish_reason": reason,
            "stop_reason": None,
            "token_ids": None,
        }
        kind = "chat.completion" if self._chat else "text_completion"
        ending = {
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": usage,
        }
        return compact(
            {
                **self._fields(kind),
                "choices": [choice],
                **ending,
                "kv_transfer_params": transfer,
            }
        )

    def _usage_event(self, usage: dict[str, object]) -> bytes:
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        event = {
            **self._fields(kind),
            "choices": [],
            "usage": usage,
            "system_fingerprint": FINGERPRINT,
        }
        return b"data: " + compact(event) + b"\n\n"

    def _fields(self, kind: str) -> dict[str, object]:
        naming = self._naming
        return {
            "id": naming.request_id,
            "object": kind,
            "created": naming.created,
            "model": naming.model,
        }
