"""Images that can't be pulled, and containers that can't be made from them."""

from __future__ import annotations

from benchrun.api.conditions import Reason
from benchrun.observe.failures.check import Evidence, sentence
from benchrun.observe.last_words import bounded
from benchrun.observe.views import Diagnosis

_NEVER = ("InvalidImageName", "ErrImageNeverPull")
_GIVEN_UP_ONCE = "ImagePullBackOff"
"""The kubelet has tried, failed, and waits: an error that one more try mends does not get so far."""
_TRYING = ("ErrImagePull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed")
_WRONG_USER = ("container has runAsNonRoot and image will run as root", "image has non-numeric user")
_CONFIG = ("CreateContainerConfigError", "CreateContainerError")


def image_pull(evidence: Evidence) -> Diagnosis | None:
    """The image is not to be had. A first failed pull may be a passing trouble of the registry."""
    reason = evidence.pod.waiting_reason
    if reason not in (*_NEVER, _GIVEN_UP_ONCE, *_TRYING):
        return None
    words = bounded(evidence.pod.waiting_message or reason)
    remedy = (
        f"Check {evidence.spec_path}.image, and {evidence.spec_path}.pod.imagePullSecrets if the registry is private."
    )
    what = f"The image {evidence.pod.image or ''} can't be pulled: {words}".replace("  ", " ")
    return Diagnosis(Reason.IMAGE_PULL, sentence(what, remedy=remedy), reason not in _TRYING)


def container_config(evidence: Evidence) -> Diagnosis | None:
    """Something the container refers to is missing (a Secret, a ConfigMap): it may still be created, so we wait."""
    if evidence.pod.waiting_reason not in _CONFIG:
        return None
    words = bounded(evidence.pod.waiting_message or evidence.pod.waiting_reason)
    if any(phrase in words for phrase in _WRONG_USER):
        remedy = f"Set runAsUser in {evidence.spec_path}.pod.securityContext, or use an image whose user is not root."
        return Diagnosis(
            Reason.CONTAINER_CONFIG, sentence(f"The container can't be made: {words}", remedy=remedy), True
        )
    remedy = f"Create what is missing in the run's namespace, or correct {evidence.spec_path} and spec.model."
    return Diagnosis(Reason.CONTAINER_CONFIG, sentence(f"The container can't be made: {words}", remedy=remedy), False)
