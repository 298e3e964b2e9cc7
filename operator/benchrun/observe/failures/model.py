"""A model that is not there, or not for everybody."""

from __future__ import annotations

from benchrun.api.conditions import Reason
from benchrun.observe.failures.check import Evidence, sentence
from benchrun.observe.views import Diagnosis

_GATED = (
    "cannot access gated repo",
    "you are trying to access a gated repo",
    "is a gated repository",
    "access to model",
    "gatedrepoerror",
)
_DENIED = ("401 client error", "403 client error", "401 unauthorized", "403 forbidden")
_NOT_FOUND = (
    "is not a local folder and is not a valid model identifier",
    "invalid repository id or local directory specified",
    "repository not found for url",
    "revision not found for url",
    "is not a valid git identifier",
    "repo id must be in the form",
    "cannot find any model weights with",
    "does not appear to have a file named",
    "cannot find an appropriate cached snapshot folder",
    "no config file found",
)
_UNREACHABLE = (
    "we couldn't connect to 'http",
    "couldn't reach the hub",
    "nameresolutionerror",
    "max retries exceeded with url",
)
_TRIES_TO_REACH_THE_HUB = 3


def model_gated(evidence: Evidence) -> Diagnosis | None:
    """The hub knows the model and refuses it. A missing model is also a 401 there, with words that mention gating."""
    if evidence.ending is None:
        return None
    denied = evidence.says(*_DENIED) and not evidence.says("repository not found for url")
    if not denied and not evidence.says(*_GATED):
        return None
    remedy = (
        "Accept the model's conditions on the hub, put a token of that account into a Secret, "
        "and name it in spec.model.source.hub.tokenSecretRef."
    )
    what = f"The hub does not give this model to us: {evidence.words}"
    return Diagnosis(Reason.MODEL_GATED, sentence(what, remedy=remedy), True)


def model_not_found(evidence: Evidence) -> Diagnosis | None:
    """No such model, revision, directory or weights."""
    if evidence.ending is None or not evidence.says(*_NOT_FOUND):
        return None
    remedy = (
        "Check spec.model: name, revision, and that the source holds config.json and weights; a private model also needs "
        "spec.model.source.hub.tokenSecretRef."
    )
    what = f"The model was not found: {evidence.words}"
    return Diagnosis(Reason.MODEL_NOT_FOUND, sentence(what, remedy=remedy), True)


def hub_unreachable(evidence: Evidence) -> Diagnosis | None:
    """The hub did not answer. Networks recover: given up only after the third try."""
    if evidence.ending is None or not evidence.says(*_UNREACHABLE):
        return None
    remedy = "Let the pod reach the hub, or take the model from spec.model.source.pvc, imageVolume or path."
    what = f"The model could not be downloaded: {evidence.words}"
    return Diagnosis(Reason.MODEL_NOT_FOUND, sentence(what, remedy=remedy), evidence.endings >= _TRIES_TO_REACH_THE_HUB)
