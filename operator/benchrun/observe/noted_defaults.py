"""The platform's defaults as they are noted on plans, read into memory once for all runs.

Anybody who may write ConfigMaps could note others, of any size and on any number of objects: an
object keeps only the digest, and few texts are kept, of a namespace fewer. Where there are too
many, that goes which the fewest namespaces have noted: one namespace can't push out what holds for
others. Where a text is lost, the operator's own defaults stand for it, which are the same but after
an upgrade.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from benchrun import names
from benchrun.observe import untrusted_json as raw

MAX_TEXTS = 32
MAX_OF_NAMESPACE = 4
MAX_NAMESPACES = (
    64  # Namespaces that are counted for a text; more make no difference.
)
MAX_TEXT_CHARS = 48 * 1024
MAX_LABELS_CHARS = 4096
_MAC_CHARS = 64
_texts: dict[str, str] = {}
_noted_by: dict[str, dict[str, None]] = {}
"""The namespaces with objects that have a text, by its digest; both in the order they came in."""


class NotedDefaults(NamedTuple):
    """What a plan says of the defaults that hold for its run."""

    digest: str
    labels: str  # Those copied from the run, as JSON.
    mac: str  # By which the operator knows that it wrote both.

    @property
    def text(self) -> str | None:
        """Return the defaults as JSON; None: the text is lost."""
        return _texts.get(self.digest)


def noted_defaults(
    annotations: Mapping[str, object], *, namespace: str
) -> NotedDefaults | None:
    """Return what is noted; None: nothing, as on the plans of older releases."""
    if names.ANNOTATION_DEFAULTS not in annotations:
        return None
    text = raw.text(annotations[names.ANNOTATION_DEFAULTS], MAX_TEXT_CHARS)
    digest = hashlib.sha256(text.encode()).hexdigest()
    _keep(digest, text, namespace)
    return NotedDefaults(
        digest,
        raw.text(annotations.get(names.ANNOTATION_COPIED_LABELS), MAX_LABELS_CHARS),
        raw.text(annotations.get(names.ANNOTATION_DEFAULTS_MAC), _MAC_CHARS),
    )


def _keep(digest: str, text: str, namespace: str) -> None:
    by = _noted_by.setdefault(digest, {})
    if digest in _texts and (namespace in by or len(by) >= MAX_NAMESPACES):
        return
    by[namespace] = None
    _texts[digest] = text
    own = [each for each, names_of in _noted_by.items() if namespace in names_of]
    for each in own[:-MAX_OF_NAMESPACE]:
        del _noted_by[each][namespace]
        if not _noted_by[each]:
            _forget(each)
    while len(_texts) > MAX_TEXTS:
        others = (each for each in _texts if each != digest)
        _forget(min(others, key=lambda each: len(_noted_by[each])))


def _forget(digest: str) -> None:
    del _texts[digest], _noted_by[digest]
