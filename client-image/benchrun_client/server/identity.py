"""What a server reports of itself: version, settings and models, so that replicas that differ are not pooled unnoticed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

import aiohttp

from benchrun_client.contract.record import MAX_ID_CHARACTERS, MAX_ROOT_CHARACTERS, ServedModel
from benchrun_client.engines import ENGINE
from benchrun_client.http_session import NETWORK_ERRORS, answer_of
from benchrun_client.server.snapshot import read_metrics
from benchrun_client.stage_record import Identity

ANSWER_SECONDS = 2.0
_SETTINGS = ENGINE.settings_series + "{"
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
DIGEST_CHARACTERS = 32
_OF_A_MODEL = ("id", "root", "parent", "max_model_len")
MAX_MODELS_CHARACTERS = 300  # As many as a record takes.


async def identify(session: aiohttp.ClientSession, metrics_urls: Sequence[str], *, model: str) -> tuple[Identity, ...]:
    """Query every server, by its metrics endpoint and the paths beside it. Never an error: a server may be silent. `model`:
    the name in the requests."""
    return tuple(await asyncio.gather(*(_identify_one(session, url, model) for url in metrics_urls)))


async def _identify_one(session: aiohttp.ClientSession, metrics_url: str, model: str) -> Identity:
    metrics = await read_metrics(session, metrics_url)
    base = metrics_url.removesuffix(ENGINE.metrics_path)
    version = await _json(session, base + ENGINE.version_path)
    listed = await _json(session, base + ENGINE.models_path)
    return Identity(
        version=_text(version.get("version")) if isinstance(version, dict) else None,
        settings=None if metrics is None else settings_digest(metrics),
        models=models_text(listed),
        served=served_model(listed, model),
    )


async def _json(session: aiohttp.ClientSession, url: str) -> Any:
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS)) as response:
            answer = await answer_of(response)
        return answer.json() if answer.status == 200 else None
    except NETWORK_ERRORS:
        return None


def _text(value: Any) -> str | None:
    """Text that can be written down: JSON may hold halves of characters."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else None


def _models(answer: Any) -> list[dict[str, Any]]:
    listed = answer.get("data") if isinstance(answer, dict) else None
    return [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []


def served_model(answer: Any, name: str) -> ServedModel | None:
    """The entry of that name, else the first; None: there is none. Where an adapter is stored says nothing of the model, so it
    has the root of its parent."""
    models = [model for model in _models(answer) if isinstance(model.get("id"), str)]
    if not models:
        return None
    entry = next((model for model in models if model["id"] == name), models[0])
    parent = entry.get("parent")
    base = next((model for model in models if model["id"] == parent), {}) if parent else entry
    root = _text(base.get("root"))
    too_long = root is not None and len(root) > MAX_ROOT_CHARACTERS
    return ServedModel(id=(_text(entry["id"]) or "")[:MAX_ID_CHARACTERS], root=None if too_long else root)


def models_text(answer: Any) -> str | None:
    """Name, root, parent and max_model_len of each model, the same for equal servers. Too long a list ends in a digest, so that it
    still shows whether two are equal; None: no models."""
    models = [" ".join(f"{name}={model[name]}" for name in _OF_A_MODEL if model.get(name)) for model in _models(answer)]
    text = _text("; ".join(sorted(models))) or ""
    if len(text) <= MAX_MODELS_CHARACTERS:
        return text or None
    return f"{text[: MAX_MODELS_CHARACTERS - DIGEST_CHARACTERS - 3]}.. {_digest(text)}"


def settings_digest(metrics: str) -> str | None:
    """SHA-256 of the labels that hold a server's settings, the same for equally configured servers; None if there are none."""
    configurations = {
        tuple(sorted(label for label in _LABEL.findall(line) if label[0] not in ENGINE.measured_settings))
        for line in metrics.splitlines()
        if line.startswith(_SETTINGS)
    }
    return _digest(json.dumps(sorted(configurations))) if configurations else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]
