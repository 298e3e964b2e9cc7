"""Flags the server does not know, and values it does not take. Nothing but another spec helps."""

from __future__ import annotations

from benchrun.api.conditions import Reason
from benchrun.observe.failures.check import Evidence, sentence
from benchrun.observe.views import Diagnosis

_ARGPARSE_EXIT_CODE = 2


def usage_error(evidence: Evidence) -> Diagnosis | None:
    """argparse refused the command line: exit code 2 and its `error:` line."""
    if evidence.exit_code != _ARGPARSE_EXIT_CODE or not evidence.says("error: "):
        return None
    remedy = "Correct spec.server.args for this version of vLLM (vllm serve --help=all in the image lists its flags)."
    return Diagnosis(Reason.USAGE_ERROR, sentence(f"vLLM refused its arguments: {evidence.words}", remedy=remedy), True)


def invalid_argument(evidence: Evidence) -> Diagnosis | None:
    """A value was parsed and then refused: exit code 1 and the text of pydantic or a ValueError."""
    if evidence.exit_code != 1 or evidence.is_cause_hidden:
        return None
    if not evidence.says("validation error for", "validation errors for") and not evidence.words.startswith(
        "ValueError: "
    ):
        return None
    remedy = "Correct spec.server.args or spec.model."
    return Diagnosis(Reason.INVALID_ARGUMENT, sentence(f"vLLM refused a value: {evidence.words}", remedy=remedy), True)
