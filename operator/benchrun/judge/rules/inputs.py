"""What rules read: a rule that could not be asked is not one that found nothing.

A run that benchrun measured has every input, or a rule says `NotChecked`. A file of another tool
has a few of them. Each family of rules declares beside its sentences what each of its codes needs.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Input(StrEnum):
    """One kind of facts that rules read."""

    what: str
    """The facts in words, as the object of "this needs"."""

    def __new__(cls, name: str, what: str) -> Self:
        """Make an input from its name, with the words for it as an attribute."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.what = what
        return member

    OUTCOMES = "outcomes", "how many requests were answered, and how many failed"
    ERRORS = "errors", "the error of each failed request"
    TIMES = "times", "when each request was sent, its TTFT and its E2EL"
    CLIENT_QUEUE = "clientQueue", "how long each request waited in the client"
    OUTPUT_TOKENS = "outputTokens", "the output tokens of each answer"
    ASKED_TOKENS = "askedTokens", "how many output tokens each request asked for"
    INPUT_TOKENS = "inputTokens", "the prompt tokens of each request"
    PROMPT_COUNTS = (
        "promptCounts",
        "the prompt tokens of each request as client and server counted them",
    )
    GAPS = "gaps", "the gaps between the chunks of each answer"
    REASONING = "reasoning", "when the reasoning of each answer began"
    ANSWERS = "answers", "whether answers keep the JSON schema that was asked for"
    STREAM_ENDS = "streamEnds", "how the stream of each answer ended"
    LOAD = "load", "the load that was asked for: a rate, or users"
    REPEATS = "repeats", "the same load measured again"
    PLAN = "plan", "what was to be measured, and how caches were to be treated"
    WARMUP = "warmup", "how many warm-up requests were sent and answered"
    CLIENT = "client", "the client's CPU time, and how late its event loop was"
    SHARDS = "shards", "when each process of the client began"
    PATH = "path", "round trips to the idle server, and lost TCP segments"
    SERVER_COUNTERS = (
        "serverCounters",
        "the server's counters (/metrics) before and after the load",
    )
    SERVER_SAMPLES = (
        "serverSamples",
        "the server's gauges (/metrics), every second of the load",
    )
    SERVER_IDENTITY = (
        "serverIdentity",
        "which servers answered, and what model they serve (/v1/models)",
    )
    BOTH_SETTINGS = (
        "bothSettings",
        "the settings of the servers on both sides of a comparison",
    )
    SERVER_LOG = "serverLog", "the server's log"
    SERVER_CPU = "serverCPU", "the CPU periods of the server's container"
    GPU = "gpu", "clocks, errors and memory of the server's GPUs"
    PROMPTS = "prompts", "whether prompts are random words"


@dataclass(frozen=True, slots=True)
class Needs:
    """What the rule of a code reads."""

    first: frozenset[Input]
    """Inputs without which the rule can't be asked at all."""
    also: frozenset[Input] = frozenset()
    """Inputs without which a finding holds, but none does not mean that all is well."""

    def missing(self, known: frozenset[Input]) -> list[Input]:
        """Return what is not known of all that the rule reads, in the order of `Input`."""
        wanted = self.first | self.also
        return [each for each in Input if each in wanted - known]

    def can_find(self, known: frozenset[Input]) -> bool:
        """Return whether a finding of the rule can be believed."""
        return self.first <= known


def needs(*first: Input, also: tuple[Input, ...] = ()) -> Needs:
    """Build the needs of a rule.

    Without the inputs in `first` the rule can't be applied. Without those in `also` a finding
    holds, but no finding does not mean that all is well.
    """
    return Needs(frozenset(first), frozenset(also))
