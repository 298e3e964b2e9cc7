"""Stand-ins for what vLLM's engine returns: a call's outputs with the times that it notes."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

WALL = 1_000_000.0
"""Unix time of a call."""


def output(
    *, arrival: float, ttft: float, decode: float, tokens: int
) -> SimpleNamespace:
    """Build one request's output; times in seconds, the arrival after the call.

    The engine's own clock begins anywhere.
    """
    stats = SimpleNamespace(
        arrival_time=WALL + arrival,
        first_token_latency=ttft,
        first_token_ts=77.0,
        last_token_ts=77.0 + decode,
    )
    return SimpleNamespace(
        metrics=stats, outputs=[SimpleNamespace(token_ids=list(range(tokens)))]
    )


class RecordedEngine:
    """An engine that answers each prompt with the tokens asked for, and records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def generate(
        self, prompts: Sequence[str], params: Sequence[Any], *, use_tqdm: bool
    ) -> list[SimpleNamespace]:
        self.calls.append(("generate", list(prompts)))
        return self._answers(params)

    def chat(
        self,
        messages: Sequence[Any],
        params: Sequence[Any],
        *,
        use_tqdm: bool,
        chat_template: str | None,
    ) -> list[SimpleNamespace]:
        self.calls.append(
            (
                "chat" if chat_template is None else f"chat by {chat_template}",
                list(messages),
            )
        )
        return self._answers(params)

    @staticmethod
    def _answers(params: Sequence[Any]) -> list[SimpleNamespace]:
        return [
            output(arrival=0.0, ttft=0.1, decode=0.2, tokens=each.max_tokens)
            for each in params
        ]
