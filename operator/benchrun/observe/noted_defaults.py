"""The platform's defaults as they are noted on plans, read into memory once for all runs.

Anybody who may write ConfigMaps could note others, of any size and on any number of objects: an
object keeps only the digest, and few texts are kept. Where a text is lost, the operator's own
defaults stand for it, which are the same but after an upgrade.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from benchrun import names
from benchrun.observe import untrusted_json as raw

MAX_TEXTS = 32
MAX_TEXT_CHARS = 48 * 1024
MAX_LABELS_CHARS = 4096
_MAC_CHARS = 64
_texts: dict[str, str] = {}


class NotedDefaults(NamedTuple):
    """What a plan says of the defaults that hold for its run."""

    digest: str
    labels: str  # Those copied from the run, as JSON.
    mac: str  # By which the operator knows that it wrote both.

    @property
    def text(self) -> str | None:
        """Return the defaults as JSON; None: the text is lost."""
        return _texts.get(self.digest)


def noted_defaults(annotations: Mapping[str, object]) -> NotedDefaults | None:
    """Return what is noted; None: nothing, as on the plans of older releases."""
    if names.ANNOTATION_DEFAULTS not in annotations:
        return None
    text = raw.text(annotations[names.ANNOTATION_DEFAULTS], MAX_TEXT_CHARS)
    digest = hashlib.sha256(text.encode()).hexdigest()
    if digest not in _texts:
        while len(_texts) >= MAX_TEXTS:
            del _texts[next(iter(_texts))]
        _texts[digest] = text
    return NotedDefaults(
        digest,
        raw.text(annotations.get(names.ANNOTATION_COPIED_LABELS), MAX_LABELS_CHARS),
        raw.text(annotations.get(names.ANNOTATION_DEFAULTS_MAC), _MAC_CHARS),
    )
