"""Stages of embeddings that tests measure on simulated and on real servers."""

from typing import Any

from benchrun_client.contract import RequestFields, Stage, UsersLoad
from unit.client.plans import stage


def several_texts(
    asking: dict[str, Any], *, users: int, requests: int, texts: int
) -> Stage:
    """Return a stage whose requests have so many texts each, with prompts of its own."""
    return stage(
        id=f"lists/concurrency={users}/r1",
        load=UsersLoad(concurrency=users),
        requests=requests,
        **asking
        | {"workload": "lists", "seed": 2, "fields": RequestFields(texts=texts)},
    )
