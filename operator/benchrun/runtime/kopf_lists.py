"""Replacements for Kopf's lists and watches, which pass objects on and survive errors.

Every object is given to `heard` as it comes. Kopf is given only the version to continue from:
finding the handlers for an event costs Kopf three times the CPU time of handling it here.

Where the operator has just listed a kind itself, the watch continues from there.

Kopf's own list takes pages of a fixed number of objects, whatever their size, and ends the process
when the token of the next page has expired (410), which happens after some minutes. Here a page has
as many objects as fit into `PAGE_BYTES`, and an expired list begins anew. A watch that the API
server ends with an error also begins anew: Kopf ends the process for most errors.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass
from typing import Any

import kopf
from kopf._cogs.clients import api, errors, fetching, watching
from kopf._cogs.configs.configuration import OperatorSettings
from kopf._cogs.helpers.typedefs import Logger
from kopf._cogs.structs.bodies import RawBody
from kopf._cogs.structs.references import Namespace, Resource

from benchrun.effects import first_bytes

SAFE_PAGE = 3  # objects on a page whose size in bytes is not bounded
LARGEST_PAGE = 200
# most bytes of a page of more objects; parsed, it may take 25 times that
PAGE_BYTES = 512 * 1024
EXPIRED = 410
PAUSE_SECONDS = 1.0
"""Seconds between a watch that ended with an error and the next list."""
_watch_objs = watching.watch_objs
logger = logging.getLogger(__name__)
_OF_OBJECTS = ("ADDED", "MODIFIED", "DELETED")
_ANEW: Any = {"type": "ERROR", "object": {"code": EXPIRED}}
"""Event on which Kopf lists and watches again."""
Page = tuple[Collection[RawBody], str]
Heard = Callable[[str, str | None, RawBody], None]
"""Takes the plural of a kind, the type of an event (None: from a list), and the object."""
Reached = Callable[[str, str | None], str | None]
"""Takes the plural of a kind and a namespace (None: all), and returns the version of a list that
the operator has just made itself; None if there is no such list."""


@dataclass
class KopfSettings(kopf.OperatorSettings):
    """Kopf's settings, and the functions that receive and list the objects in Kopf's place."""

    heard: Heard = lambda *_: None
    reached: Reached = lambda *_: None


def install() -> None:
    """Replace Kopf's list and watch functions with those of this module."""
    fetching.fetch_objs = fetch_objs
    watching.watch_objs = watch_objs


async def watch_objs(**asked: Any) -> AsyncIterator[Any]:
    """Pass on every event of a watch, and yield the versions.

    If the API server ended the watch with an error, the last event makes Kopf list anew.
    """
    settings = asked["settings"]
    resource = asked["resource"]
    try:
        async for event in _watch_objs(**asked):
            if event["type"] == "ERROR":
                break
            if event["type"] in _OF_OBJECTS:
                _tell(settings, resource, event["type"], event["object"])
            yield _version_of(event["object"])
        else:
            return
        why = str(event["object"])
    except errors.APIUnauthorizedError:
        raise  # Kopf logs in again
    except errors.APIError as error:
        why = str(error)
    logger.info("a watch of %s has ended: %s", resource, why[:200])
    await asyncio.sleep(PAUSE_SECONDS)
    yield _ANEW


async def fetch_objs(
    *,
    settings: OperatorSettings,
    resource: Resource,
    namespace: Namespace,
    logger: Logger,
) -> AsyncIterator[Page]:
    """Pass on every object of a kind, and yield the version that a watch continues from.

    Nothing is listed where the operator has just made that list itself: reading and parsing all
    objects twice would double what a start costs. If its version is too old by now, the watch ends
    with an error and begins anew.

    Raises TimeoutError if the list has expired or is refused: Kopf begins anew after that.
    """
    assert isinstance(settings, KopfSettings)
    if (listed := settings.reached(resource.plural, namespace)) is not None:
        yield (), listed
        return
    try:
        async for items, version in _pages(settings, resource, namespace, logger):
            for item in items:
                _tell(settings, resource, None, item)
                await asyncio.sleep(0)  # other tasks run while a page is processed
            yield (), version
    except errors.APIUnauthorizedError:
        raise  # Kopf logs in again
    except errors.APIError as error:
        if error.status != EXPIRED:
            await asyncio.sleep(PAUSE_SECONDS)
        raise TimeoutError(
            f"listing {resource} failed and begins anew: {error}"
        ) from error


def _tell(
    settings: OperatorSettings, resource: Resource, type_: str | None, body: Any
) -> None:
    """Give an object to `heard`; log an exception, so that the watch goes on."""
    assert isinstance(settings, KopfSettings)
    try:
        settings.heard(resource.plural, type_, body)
    except Exception:
        logger.exception("an event of %s could not be handled", resource)


def _version_of(body: Any) -> Any:
    """Return a bookmark event that has only the version which the watch has reached."""
    version = (body.get("metadata") or {}).get("resourceVersion")
    meta = {} if version is None else {"resourceVersion": version}
    return {"type": "BOOKMARK", "object": {"metadata": meta}}


async def _pages(
    settings: OperatorSettings,
    resource: Resource,
    namespace: Namespace,
    logger: Logger,
) -> AsyncIterator[Page]:
    params = _selectors(settings, resource)
    token = ""
    size = SAFE_PAGE
    while True:
        params |= {"limit": str(size)} | ({"continue": token} if token else {})
        url = resource.get_url(namespace=namespace, params=params)
        answer = await _page(url, size, settings, logger)
        if answer is None:
            size = max(SAFE_PAGE, size // 4)
            continue
        items: list[RawBody] = answer.get("items") or []
        meta = answer.get("metadata") or {}
        is_full = len(items) >= size
        token = meta.get("continue") or ""
        for item in items:
            item.setdefault("kind", str(answer.get("kind")).removesuffix("List"))
            item.setdefault("apiVersion", str(answer.get("apiVersion")))
        yield items, str(meta.get("resourceVersion"))
        del answer, items  # no object is kept while the next page is read
        if not token:
            return
        size = min(LARGEST_PAGE, 2 * size) if is_full else size


async def _page(
    url: str, size: int, settings: OperatorSettings, logger: Logger
) -> dict[str, Any] | None:
    """Request one page; None if it is larger than `PAGE_BYTES`."""
    if size <= SAFE_PAGE:
        found: dict[str, Any] = await api.get(
            url=url, settings=settings, logger=logger
        )
        return found
    response = await api.request("get", url, settings=settings, logger=logger)
    async with response:
        data = await first_bytes(response, PAGE_BYTES + 1)
        if len(data) > PAGE_BYTES:
            response.close()  # the rest is not read
            return None
    parsed: dict[str, Any] = json.loads(data)
    return parsed


def _selectors(settings: OperatorSettings, resource: Resource) -> dict[str, str]:
    labels = ",".join(
        sorted(set(settings.watching.label_selectors.collect(resource)))
    )
    return {"labelSelector": labels} if labels else {}
