"""What a tool made of each exhibit, and how often it was right."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchrun.api import SEVERITIES, Code, Severity
from truth_kit.mistakes import counting_codes

from museum_kit.exhibits import Exhibit

Word = Literal["named", "flagged", "silent", "prevented"]
WORDS: Mapping[Word, str] = {
    "named": "a finding says what was wrong",
    "flagged": "something is said to be wrong, and not what",
    "silent": "nothing is said: missed",
    "prevented": "what was wrong in the thread is right here",
}
BUSY_PERCENT = 2.0
"""Share of the time that a process may wait for a core before its host is called busy: an open loop
of 20 requests a second waits some 1 % on a free machine."""
TOOL_NAMES = ("vllm", "guidellm", "aiperf", "inference-perf")
Theirs = Literal["flagged", "silent"]
Codes = Mapping[str, Severity]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An exhibit as it hangs in the museum."""

    thread: str
    told: str
    replay: str
    by_default: str = ""
    twin: str = ""  # Name of the clean twin that was measured in the same minutes.
    ours: Word | None = None
    """None: it was not replayed yet."""
    said: Sequence[str] = ()
    """Our findings of it that the twin has not; Notes only if they name it."""
    alarms: Sequence[str] = ()
    """Our Suspect and Invalid findings of its twin, which is clean."""
    waited_percent: float = 0.0
    """Share of the twin's time in which its client or server waited for a core of the host."""
    times: int = 0
    """How often the twin was measured: a busy host is not believed at once."""
    theirs: Mapping[str, Theirs] = field(default_factory=dict)
    """What other tools do; one that can't replay it, or did not yet, is missing."""

    @property
    def host_was_busy(self) -> bool:
        """Return whether the twin's processes waited for a core too long to judge the rules."""
        return self.waited_percent > BUSY_PERCENT


def unseen(exhibit: Exhibit) -> Shown:
    """Return an exhibit that was not replayed yet."""
    return Shown(
        thread=exhibit.thread,
        told=exhibit.told,
        replay=exhibit.replay,
        by_default=exhibit.by_default,
    )


def word_of(
    exhibit: Exhibit, wrong: Codes, clean: Codes, *, prevented: bool
) -> Word:
    """Return what our findings make of an exhibit, beside those of its twin."""
    if prevented:
        return "prevented"
    if naming(exhibit, wrong, clean):
        return "named"
    return "flagged" if blaming(wrong, clean) else "silent"


def naming(exhibit: Exhibit, wrong: Codes, clean: Codes) -> list[str]:
    """Return the findings that name the incident, at least as severe as they must be."""
    return [
        code
        for code, least in exhibit.names.items()
        if code in wrong
        and SEVERITIES.index(wrong[code]) >= SEVERITIES.index(least)
        and (
            code not in clean
            or SEVERITIES.index(wrong[code]) > SEVERITIES.index(clean[code])
        )
    ]


def blaming(wrong: Codes, clean: Codes) -> list[str]:
    """Return the Suspect and Invalid findings that the twin has not as severely."""
    told = {code: each for code, each in wrong.items() if each != "Note"}
    counting = counting_codes(told, clean)
    return [code for code in Code if code in counting]


def alarms(clean: Codes) -> list[str]:
    """Return the Suspect and Invalid findings of a twin."""
    return [code for code in Code if clean.get(code, "Note") != "Note"]


def figures(shown: Sequence[Shown]) -> Mapping[str, int]:
    """Return the counts of the museum; a twin of several exhibits is counted once.

    An alarm of a twin whose processes waited for a core is none that is known to be false.
    """
    twins = {each.twin: each for each in shown if each.twin}
    calm = [each for each in twins.values() if not each.host_was_busy]
    busy = [each for each in twins.values() if each.host_was_busy]
    return {
        "exhibits": len(shown),
        "replayed": sum(each.ours is not None for each in shown),
        **{word: sum(each.ours == word for each in shown) for word in WORDS},
        "twins": len(twins),
        "calm_twins": len(calm),
        "false_alarms": sum(len(each.alarms) for each in calm),
        "busy_alarms": sum(len(each.alarms) for each in busy),
        **{
            f"{what}_by_{tool}": count
            for tool in TOOL_NAMES
            for what, count in _counts_of(tool, shown)
        },
    }


def _counts_of(tool: str, shown: Sequence[Shown]) -> Iterator[tuple[str, int]]:
    words = [each.theirs[tool] for each in shown if tool in each.theirs]
    yield "replayed", len(words)
    yield "named", words.count("flagged")
