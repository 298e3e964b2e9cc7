"""Build the tables of a comparison, and of two judgements of one run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchrun.api import (
    KEYS,
    STARTUP,
    THROUGHPUTS,
    BenchmarkRunStatus,
    Change,
    Code,
    ComparedLoadPoint,
    ComparedSetting,
    Gate,
    Result,
    Verdict,
    worst_verdict,
)
from benchrun.report.tables import ABSENT, Rows, figure

WORDS = {"NoDetectableDifference": "not detected"}  # Short enough for a column.
GATES: Mapping[Gate, str] = {
    "NotRegressed": "not regressed: no figure got worse by more than is allowed",
    "Regressed": "regressed: a figure got worse by more than is allowed",
    "NotRegressedHere": (
        "not regressed on these two servers: no figure got worse by more than is allowed; another "
        "start may differ"
    ),
    "RegressedHere": (
        "regressed on these two servers: a figure got worse by more than is allowed; another start "
        "may differ"
    ),
    "Underpowered": (
        "underpowered: noise can hide a regression beyond the limit; use more servers or repeats"
    ),
    "Inconclusive": (
        "inconclusive: a figure may have got worse by more than is allowed, but that is not certain"
    ),
}
CHANGE_HEADERS = ("change", "interval", "word")
LOG_RULE = Code.COMPILATION_IN_WINDOW.value
"""Code of a rule that needs the server's log. Without the log it finds no compilations, even if
there were some."""


def comparison_rows(load_points: Sequence[ComparedLoadPoint]) -> Rows:
    """Build a table with one row for each load point and figure.

    A load point that is not comparable has a single row, with NotComparable as its outcome.
    """
    rows: list[tuple[str, ...]] = []
    for load_point in load_points:
        if load_point.reason is not None:
            rows.append((load_point.load_point, *[ABSENT] * 5, "NotComparable"))
            continue
        # Whether the throughput is that of the plateau or of the whole stage.
        part = (
            f" ({load_point.throughput_of.lower()})"
            if load_point.throughput_of is not None
            else ""
        )
        for change in load_point.changes:
            metric = change.metric + (
                part if KEYS[change.metric] in THROUGHPUTS else ""
            )
            sides = (
                figure(change.baseline, digits=4),
                figure(change.value, digits=4),
            )
            rows.append(
                (load_point.load_point, metric, *sides, *change_load_points(change))
            )
    return Rows(
        ("load point", "figure", "baseline", "value", *CHANGE_HEADERS), tuple(rows)
    )


def prices(load_points: Sequence[ComparedLoadPoint]) -> list[str]:
    """Return what would decide the changes that are not decided, each price once.

    The cheapest is first.
    """
    found: dict[str, dict[str, list[str]]] = {}
    priced = [
        (change.price, load_point.load_point, change.metric)
        for load_point in load_points
        for change in load_point.changes
        if change.price is not None
    ]
    for price, place, metric in sorted(priced, key=lambda each: each[0].weight):
        places = found.setdefault(price.in_words, {})
        places.setdefault(place, []).append(metric)
    return [
        f"about {words} would decide "
        + "; ".join(f"{', '.join(of)} at {place}" for place, of in places.items())
        for words, places in found.items()
    ]


SETTING_HEADERS = ("setting", "baseline", "value", "difference", "can change")


def setting_rows(settings: Sequence[ComparedSetting]) -> Rows:
    """Build a table with one row for each setting that differs, or that one side does not say.

    What came by itself is first, since nobody asked for it.
    """
    rows = sorted(
        (each for each in settings if each.word == "Differs" or each.is_half_known),
        key=lambda each: (each.word != "Differs", each.on_purpose),
    )
    return Rows(SETTING_HEADERS, tuple(setting_cells(each) for each in rows))


def setting_cells(each: ComparedSetting) -> tuple[str, ...]:
    """Return the cells of a setting for the columns in SETTING_HEADERS."""
    told = (
        "one side is not known"
        if each.word == "Unknown"
        else "on purpose"
        if each.on_purpose
        else "not on purpose"
    )
    return (
        each.setting,
        each.baseline or ABSENT,
        each.value or ABSENT,
        told,
        ", ".join(each.changes).lower() or ABSENT,
    )


def unknown_text(settings: Sequence[ComparedSetting]) -> str:
    """Return a sentence on how many settings are the same, and which ones neither side says."""
    if not settings:
        return ""
    same = sum(each.word == "Same" for each in settings)
    neither = [
        each.setting
        for each in settings
        if each.word == "Unknown" and not each.is_half_known
    ]
    begin = f"settings of the servers that are the same: {same}" if same else ""
    end = f"known of neither side: {', '.join(neither)}" if neither else ""
    return "; ".join(part for part in (begin, end) if part)


def change_load_points(change: Change) -> tuple[str, ...]:
    """Return the cells of a change for the columns in CHANGE_HEADERS."""
    return (
        signed(change.change_percent, unit=" %"),
        interval(change),
        WORDS.get(change.word, change.word),
    )


def unpaired(load_points: Sequence[ComparedLoadPoint]) -> list[str]:
    """Return the compared load points where both sides may have been sent different requests."""
    return [
        load_point.load_point
        for load_point in load_points
        if load_point.reason is None
        and not load_point.paired
        and load_point.load_point != STARTUP
    ]


def reasons(load_points: Sequence[ComparedLoadPoint]) -> list[str]:
    """Return why load points are not comparable or changes have no outcome, each reason once."""
    of_load_points = [
        f"{load_point.load_point}: {load_point.reason}"
        for load_point in load_points
        if load_point.reason is not None
    ]
    of_figures = [
        change.reason
        for load_point in load_points
        for change in load_point.changes
        if change.reason is not None
    ]
    return list(dict.fromkeys([*of_load_points, *of_figures]))


def signed(percent: float | None, *, unit: str = "") -> str:
    """Format a change in percent with its sign and one decimal; without decimals from 100 on."""
    if percent is None:
        return ABSENT
    decimals = 0 if abs(percent) >= 99.95 else 1
    return f"{percent:+.{decimals}f}{unit}"


def interval(change: Change) -> str:
    """Format both ends of a change's interval in percent."""
    if change.low_percent is None or change.high_percent is None:
        return ABSENT
    high = (
        "over +1000" if change.high_percent > 1000 else signed(change.high_percent)
    )
    return f"{signed(change.low_percent)} to {high}"


@dataclass(frozen=True, slots=True)
class Difference:
    load_point: str
    was: Verdict
    now: Verdict
    appeared: tuple[str, ...]  # Codes that were not found before.
    gone: tuple[str, ...]  # Codes that are no longer found.
    sentence: str


def differences(
    stored: BenchmarkRunStatus, now: BenchmarkRunStatus, *, log_kept: bool
) -> tuple[Difference, ...]:
    """Return what differs between two judgements of a run, for load points that are in both.

    `log_kept` says whether the log of the server was available to the new judgement, too.
    """
    before = {row.load_point: row for row in stored.results}
    cut = any(
        each.field == "results[].findings"
        for each in (*stored.truncated, *now.truncated)
    )
    rows = [row for row in now.results if row.load_point in before]
    found = (
        _difference(
            before[row.load_point], row, codes_known=not cut, log_kept=log_kept
        )
        for row in rows
    )
    return tuple(each for each in found if each is not None)


def _difference(
    old: Result, new: Result, *, codes_known: bool, log_kept: bool
) -> Difference | None:
    appeared = _only_in(new.findings, old.findings) if codes_known else ()
    gone = _only_in(old.findings, new.findings) if codes_known else ()
    if old.verdict == new.verdict and not appeared and not gone:
        return None
    verdicts = (
        f"still {new.verdict}"
        if old.verdict == new.verdict
        else f"was {old.verdict}, now {new.verdict}"
    )
    moved = _moved(old, new, appeared, gone) if codes_known else []
    absent = [
        f"{code} was not checked"
        if code == LOG_RULE and not log_kept
        else f"no {code}"
        for code in gone
    ]
    reasons = [*moved, *appeared, *absent]
    sentence = (
        f"{new.load_point}: {verdicts}{': ' if reasons else ''}{', '.join(reasons)}"
    )
    return Difference(
        new.load_point, old.verdict, new.verdict, appeared, gone, sentence
    )


def _only_in(codes: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return the codes that are not among `others`.

    NotChecked is left out, because it is the same for all load points and is printed once.
    """
    return tuple(
        code for code in codes if code not in others and code != Code.NOT_CHECKED
    )


def _moved(
    old: Result, new: Result, appeared: Sequence[str], gone: Sequence[str]
) -> list[str]:
    """Return, in a list, a sentence on the code whose changed severity changed the verdict.

    This is the code that decided the worse of the two verdicts. The list is empty if only one of
    the two judgements has the code. A row lists its worst code first.
    """
    if old.verdict == new.verdict:
        return []
    worse = worst_verdict((old.verdict, new.verdict)) == new.verdict
    decisive, explained = (
        (new.findings[:1], appeared) if worse else (old.findings[:1], gone)
    )
    return [
        f"{code} is {'more' if worse else 'less'} severe"
        for code in decisive
        if code not in explained
    ]
