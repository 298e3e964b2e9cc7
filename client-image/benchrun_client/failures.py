"""Why a run could not be measured: one exception with stable reasons, and one way to report it.

Reports are for people: no traceback, no HTML.
"""

import contextlib
import logging
import os
import sys
from pathlib import Path
from typing import Literal, get_args

from benchrun_client.contract import Failure

log = logging.getLogger(__name__)

BadInput = Literal[
    "InvalidPlan",
    "ContractMismatch",
    "TokenizerNotFound",
    "TokenizerUnusable",
    "ModelGated",
    "ModelNotFound",
    "CommitMismatch",
    "CacheClaimFull",
    "CacheClaimReadOnly",
    "ChatTemplateInvalid",
    "DatasetNotFound",
    "DatasetInvalid",
    "DatasetTooSmall",
    "PromptTooLong",
    "ModelNotServed",
    "EngineMismatch",
]
"""Reasons caused by the user's input; the same plan will fail again."""
Trouble = Literal[
    "HubUnavailable",
    "CacheClaimFailed",
    "EndpointNotFound",
    "EndpointNotReady",
    "EndpointRedirects",
    "CertificateInvalid",
    "Unauthorized",
    "CanaryFailed",
    "ShardLost",
    "ClientError",
]
"""Reasons caused by the server or its endpoint, which fails or is unreachable. `ClientError` is
caused by the client itself."""
Reason = Literal[BadInput, Trouble]
MAX_MESSAGE_CHARACTERS = 1500
"""Most characters of a message: its JSON then fits the 4,096 bytes of a termination message, in any
writing system."""
TERMINATION_LOG_VARIABLE = "BENCHRUN_TERMINATION_LOG"
DEFAULT_TERMINATION_LOG = Path("/dev/termination-log")
MAX_TERMINATION_BYTES = 4096


class RunFailure(Exception):
    """The run cannot be measured, for a reason that a person can act on."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = shorten(message, MAX_MESSAGE_CHARACTERS)

    @property
    def exit_code(self) -> int:
        """Return 2 for bad input, like argparse; 1 for everything else."""
        return 2 if self.reason in get_args(BadInput) else 1

    def to_message(self) -> Failure:
        return Failure(reason=self.reason, message=self.message)


def as_failure(error: BaseException) -> RunFailure:
    """Return the error if it is a RunFailure, else a `ClientError` with its type and first line."""
    return (
        error
        if isinstance(error, RunFailure)
        else RunFailure("ClientError", type_and_text(error))
    )


def first_line(error: BaseException | str) -> str:
    """Return the first line that is not empty."""
    return next(
        (line.strip() for line in str(error).splitlines() if line.strip()), ""
    )


def error_text(error: BaseException) -> str:
    """Return the first line of an error, or its type if it has no text."""
    return first_line(error) or type(error).__name__


def type_and_text(error: BaseException) -> str:
    """Return an error's type, and the first line of its text if it has one."""
    return f"{type(error).__name__}: {first_line(error)}".rstrip(": ")


def shorten(text: str, characters: int) -> str:
    """Return at most so many characters of a text; an ellipsis marks a cut."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


def report_failure(failure: RunFailure, *, cause: BaseException) -> None:
    """Write a failure to the log, to stderr and to the termination message.

    An unexpected error is logged with its traceback.
    """
    if failure is not cause:
        log.error("unexpected error", exc_info=cause)
    leave_termination_message(failure.to_message())
    print(failure.to_message().model_dump_json(), file=sys.stderr, flush=True)


def leave_termination_message(failure: Failure) -> None:
    """Write the failure as JSON to the file that the kubelet reads, if it exists."""
    named = os.environ.get(TERMINATION_LOG_VARIABLE)
    path = Path(named) if named else DEFAULT_TERMINATION_LOG
    if not named and not path.exists():
        return
    text = failure.model_dump_json().encode()
    keep = len(failure.message)
    while len(text) > MAX_TERMINATION_BYTES:
        keep = keep * 3 // 4
        text = (
            Failure(reason=failure.reason, message=shorten(failure.message, keep))
            .model_dump_json()
            .encode()
        )
    with contextlib.suppress(OSError):
        path.write_bytes(text)
