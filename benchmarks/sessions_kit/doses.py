"""What may go wrong with a stage of sessions, each at five doses, and whether it is noticed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchrun.api import SEVERITIES, Result

from sessions_kit.played import Course, Played, clean_twin, play

HARMFUL_PERCENT = 5.0
"""Difference of a headline figure from the clean twin's that may not go unnoticed."""
HEADLINE = (
    "output_throughput",
    "mean_ttft_ms",
    "mean_e2el_ms",
    "mean_input_tokens",
)
MISSING_PERCENT = 25.0
"""Share of the hits of an endless cache that must be missing before a cause is to be named."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something that goes wrong, and the codes that may tell it."""

    name: str
    doses: Sequence[float]
    course: Callable[[float], Course]
    codes: frozenset[str]


MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "turns that fail, percent",
        (0.1, 0.3, 1, 3, 10),
        lambda percent: Course(failed_percent=percent),
        frozenset({"TurnsLost", "RequestsFailed"}),
    ),
    Mistake(
        "answers shorter than asked for, percent",
        (98, 95, 90, 75, 50),
        lambda percent: Course(answer_percent=percent),
        frozenset({"OutputTooShort"}),
    ),
    Mistake(
        "history sent twice, percent of turns",
        (1, 3, 10, 30, 100),
        lambda percent: Course(again_percent=percent),
        frozenset({"PromptTokensDisagree"}),
    ),
    Mistake(
        "turns sent late, ms",
        (2, 10, 30, 100, 300),
        lambda late: Course(late_ms=late),
        frozenset({"ClientSaturated"}),
    ),
    Mistake(
        "sessions that run out, turns in all",
        (300, 150, 90, 60, 30),
        lambda turns: Course(turns=int(turns)),
        frozenset({"SessionsNotHeld", "WindowTooShort"}),
    ),
)
LOSSES: tuple[Mistake, ...] = (
    Mistake(
        "a cache of tokens",
        (12_000, 8_000, 6_000, 4_000, 2_400),
        lambda tokens: Course(kv_tokens=int(tokens)),
        frozenset({"CacheTooSmall"}),
    ),
    Mistake(
        "a prefix that changes, percent of turns",
        (10, 20, 35, 60, 100),
        lambda percent: Course(broken_percent=percent),
        frozenset({"PrefixBroken"}),
    ),
    Mistake(
        "turns over servers",
        (2, 3, 4, 6, 8),
        lambda servers: Course(servers=int(servers)),
        frozenset({"RoutedAway"}),
    ),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One dose of a mistake, beside its clean twin."""

    mistake: str
    dose: float
    harm_percent: float  # Largest difference of a headline figure.
    told: frozenset[str]  # Suspect and Invalid findings that the twin has not.

    @property
    def unnoticed(self) -> bool:
        """Return whether figures are harmed and no finding says so."""
        return self.harm_percent > HARMFUL_PERCENT and not self.told


@dataclass(frozen=True, slots=True)
class Loss:
    """One dose of a loss of hits."""

    loss: str
    dose: float
    missing_percent: float  # Of the hits that an endless cache would have had.
    named: frozenset[str]
    is_right: bool
    error_points: float
    """Points between the hits of a cache of this size and those that came, where size is what
    costs them."""


def severe(played: Played) -> frozenset[str]:
    """Return the codes of the findings that make a stage Suspect or Invalid."""
    least = SEVERITIES.index("Suspect")
    return frozenset(
        each.code
        for each in played.judged.findings
        if SEVERITIES.index(each.severity) >= least
    )


def seen_mistakes() -> Iterator[Seen]:
    """Play every dose of every mistake, and its clean twin."""
    for mistake in MISTAKES:
        for dose in mistake.doses:
            course = mistake.course(dose)
            with_it, twin = play(course), play(clean_twin(course))
            yield Seen(
                mistake.name,
                dose,
                harm_percent(with_it, twin),
                severe(with_it) - severe(twin),
            )


def harm_percent(with_it: Played, twin: Played) -> float:
    """Return the largest difference of a headline figure from that of the twin, in percent."""
    told, true = _headline(with_it), _headline(twin)
    return max(
        100 * abs(told[name] - true[name]) / true[name]
        for name in HEADLINE
        if true[name]
    )


def _headline(played: Played) -> dict[str, float]:
    (row,) = played.judged.results
    columns = played.record.requests
    figures = {name: _figure(row, name) for name in HEADLINE[:-1]}
    mean = sum(columns.input_tokens) / len(columns.input_tokens)
    return {**figures, HEADLINE[-1]: mean}


def _figure(row: Result, name: str) -> float:
    found = row.figure(name)
    return 0.0 if found is None else found


def seen_losses() -> Iterator[Loss]:
    """Play every dose of every loss of hits."""
    for loss in LOSSES:
        for dose in loss.doses:
            yield loss_of(loss, dose)


def loss_of(loss: Mistake, dose: float) -> Loss:
    """Play one dose of a loss of hits."""
    played = play(loss.course(dose))
    sessions = played.judged.stages[0].sessions
    assert sessions is not None, "every stage is one of sessions"
    expected, kept, came = (
        sessions.expected_hit_percent,
        sessions.kept_hit_percent,
        sessions.hit_percent,
    )
    assert expected is not None, "the size of a block is known"
    assert kept is not None, "the size of the cache is known"
    assert came is not None, "every answer tells it"
    causes = frozenset(code for each in LOSSES for code in each.codes)
    named = frozenset(each.code for each in played.judged.findings) & causes
    is_of_size = "CacheTooSmall" in loss.codes
    return Loss(
        loss.name,
        dose,
        100 * (1 - came / expected),
        named,
        named == loss.codes,
        abs(kept - came) if is_of_size else 0.0,
    )


def clean_runs(count: int) -> Iterator[frozenset[str]]:
    """Play clean stages of different traffic, and yield what makes each Suspect or Invalid."""
    for number in range(count):
        at_once = (2, 4, 6, 8)[number % 4]
        yield severe(play(Course(seed=100 + number, at_once=at_once)))
