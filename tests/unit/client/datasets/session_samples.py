"""A small sample of each format of recorded sessions, made for these tests by its description."""

import json
from collections.abc import Mapping
from typing import Any

from benchrun_client.contract.datasets import SessionFormat

TURNS: dict[str, Any] = {
    "id": "build",
    "turns": [
        {"id": "plan", "tokens": 40, "output_tokens": 8},
        {
            "id": "read",
            "parents": ["plan"],
            "continues": None,
            "agent": "reader",
            "tokens": 30,
            "output_tokens": 4,
        },
        {
            "id": "done",
            "parents": ["plan", "read"],
            "delay_seconds": 1.5,
            "tokens": 10,
            "output_tokens": 6,
        },
    ],
}
SHARE_GPT: dict[str, Any] = {
    "id": "x1",
    "conversations": [
        {"from": "system", "value": "be brief"},
        {"from": "human", "value": "what is a river"},
        {"from": "gpt", "value": "water that runs"},
        {"from": "human", "value": "and a lake"},
        {"from": "gpt", "value": "water that stands"},
    ],
}
MOONCAKE: list[dict[str, Any]] = [
    {"timestamp": 0, "session_id": "a", "input_length": 100, "output_length": 10},
    {"timestamp": 500, "session_id": "b", "input_length": 50, "output_length": 5},
    {
        "timestamp": 3000,
        "session_id": "a",
        "input_length": 150,
        "output_length": 20,
    },
    {
        "session_id": "b",
        "delay": 2000,
        "input_length": 90,
        "output_length": 5,
    },
]
WEKA: dict[str, Any] = {
    "id": "trace-1",
    "models": ["m"],
    "block_size": 64,
    "requests": [
        {
            "t": 0,
            "type": "n",
            "in": 128,
            "out": 20,
            "hash_ids": [1, 2],
            "api_time": 2,
        },
        {
            "t": 3,
            "type": "subagent",
            "agent_id": "explore",
            "subagent_type": "Explore",
            "duration_ms": 4000,
            "requests": [
                {
                    "t": 3,
                    "type": "n",
                    "in": 70,
                    "out": 5,
                    "hash_ids": [9, 8],
                    "api_time": 1,
                },
                {
                    "t": 5,
                    "type": "s",
                    "in": 70,
                    "out": 5,
                    "hash_ids": [9, 8],
                    "api_time": 2,
                },
            ],
        },
        {
            "t": 9,
            "type": "s",
            "in": 200,
            "out": 30,
            "hash_ids": [1, 2, 3, 4],
            "api_time": 3,
        },
    ],
}


def span(
    number: int, begun: float, ended: float, **attributes: Any
) -> dict[str, Any]:
    """Build a span of a chat, by the names of today."""
    return {
        "trace_id": "t1",
        "span_id": f"s{number}",
        "start_time": f"2026-02-25T10:00:{begun:09.6f}",
        "end_time": f"2026-02-25T10:00:{ended:09.6f}",
        "attributes": {
            "gen_ai.operation.name": "chat",
            **{
                name.replace("__", "."): value for name, value in attributes.items()
            },
        },
        "status": {"code": 1},
    }


def said(*texts: str) -> str:
    """Return messages of user and assistant in turn, as an attribute has them."""
    roles = ("user", "assistant")
    return json.dumps(
        [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    )


OPEN_TELEMETRY: dict[str, Any] = {
    "trace_id": "t1",
    "spans": [
        span(
            1,
            0,
            2,
            gen_ai__input__messages=said("what is a river"),
            gen_ai__output__text="water that runs",
            gen_ai__usage__input_tokens=4,
            gen_ai__usage__output_tokens=3,
        ),
        {**span(2, 2, 3), "attributes": {"gen_ai.operation.name": "execute_tool"}},
        span(
            3,
            5,
            6,
            gen_ai__input__messages=said(
                "what is a river", "water that runs", "and a lake"
            ),
            gen_ai__output__text="water that stands",
            gen_ai__usage__input_tokens=10,
            gen_ai__usage__output_tokens=3,
        ),
    ],
}
BURST_GPT = """\
Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,17,2.5,ChatGPT,40,10,50,Conversation log
6,18,1,GPT-4,30,5,35,Conversation log
20,17,1,ChatGPT,70,12,82,Conversation log
21,18,1,GPT-4,50,0,50,Conversation log
22,,1,GPT-4,50,7,57,API log
"""


def lines(*rows: Any) -> str:
    """Return rows as JSON Lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


SAMPLES: Mapping[SessionFormat, str] = {
    "Turns": lines(TURNS),
    "ShareGPT": json.dumps([SHARE_GPT]),
    "Mooncake": lines(*MOONCAKE),
    "Weka": lines(WEKA),
    "OpenTelemetry": json.dumps(OPEN_TELEMETRY, indent=1),
    "BurstGPT": BURST_GPT,
}
"""A file of each format."""
