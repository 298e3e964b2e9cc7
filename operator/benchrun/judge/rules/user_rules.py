"""The rules that a spec has of its own: a figure of a row, a condition, and a limit."""

from collections.abc import Iterable, Mapping

from benchrun.api import UserRule
from benchrun.api.expressions import Unknown, Values, compiled
from benchrun.api.row_figures import ENVIRONMENT, figure_in, row_values
from benchrun.api.status import Result
from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    NotChecked,
    Sentence,
    StageFinding,
    in_words,
)


def found_by(rules: Iterable[UserRule], row: Result) -> Found:
    """Yield what the user's rules find in a row, and which of them could not be asked."""
    values = row_values(row)
    for rule in rules:
        try:
            finding = _finding(rule, values, row.load_point)
        except Unknown as problem:
            yield NotChecked(Code.USER_RULE, str(problem), rule.name)
        else:
            if finding is not None:
                yield finding


def _finding(
    rule: UserRule, values: Values, load_point: str
) -> StageFinding | None:
    """Return what a rule finds. Raises Unknown where the row lacks what it asks for."""
    if rule.when is not None and not compiled(rule.when, ENVIRONMENT)(values):
        return None
    value = _known(values, rule.metric)
    if rule.relative_to is not None:
        whole = _known(values, rule.relative_to)
        if not whole:
            raise Unknown(f"{rule.relative_to} is 0")
        value /= whole
    side = "above" if rule.above is not None else "below"
    threshold = float(rule.above or rule.below or 0)
    if not (value > threshold if side == "above" else value < threshold):
        return None
    evidence: dict[str, float | str | None] = {
        "rule": rule.name,
        "metric": rule.metric,
        "relativeTo": rule.relative_to,
        "value": value,
        "side": side,
        "threshold": threshold,
        # Of a message of control characters nothing is left.
        "message": rule.message or None,
    }
    return StageFinding(
        Code.USER_RULE,
        rule.severity,
        load_point,
        {key: each for key, each in evidence.items() if each is not None},
        weight=abs(value - threshold),
        name=rule.name,
    )


def _known(values: Values, name: str) -> float:
    value = figure_in(values, name)
    if value is None:
        raise Unknown(f"{name} is absent")
    return value


FIGURES = "{metric}[ / {relativeTo}] is {value}, {side} {threshold}"


def _sentence(evidence: Evidence) -> str:
    """Return the user's message with the figures behind it.

    The message is not a part of the template: it may have brackets of its own.
    """
    figures = in_words(FIGURES, evidence)
    message = evidence.get("message")
    return f"{figures}." if message is None else f"{message} ({figures})"


SENTENCES: Mapping[Code, Sentence] = {Code.USER_RULE: _sentence}
NEEDS: Mapping[Code, Needs] = {Code.USER_RULE: needs(Input.OUTCOMES)}
