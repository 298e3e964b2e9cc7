"""What a result file of another tool says of one measurement, in words that all tools share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchrun_client.contract import Load

from benchrun.foreign.document import Part
from benchrun.judge.rules.inputs import Input

WHOLE = "the whole measurement, from the first send to the last answer"


@dataclass(frozen=True, slots=True)
class FigureDefinition:
    """How a figure of the tool relates to ours."""

    theirs: str  # Its name in the tool's files.
    ours: (
        str | None
    )  # Our name for the same figure; None: we have none that is equal.
    note: str = ""  # How the two differ, or why none is equal.


@dataclass(frozen=True, slots=True)
class ForeignFigure:
    """A figure as the tool gives it."""

    theirs: str
    value: float | None
    ours: str | None
    """Key of the equal figure in our results, in its unit; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRequests:
    """Columns of the requests that were sent, in order of sending; None if the file lacks one.

    Times are in microseconds, `start_us` since the first send.
    """

    ok: Sequence[bool]
    start_us: Sequence[int]
    ttft_us: Sequence[int]
    e2el_us: Sequence[int]
    queue_us: Sequence[int] | None = None
    input_tokens: Sequence[int] | None = None
    output_tokens: Sequence[int] | None = None
    asked_tokens: Sequence[int] | None = None
    gaps_us: Sequence[int] | None = None  # Of all answers, in any order.
    client_input_tokens: int | None = None
    """Prompt tokens of all answers by the client's own count, where `input_tokens` are the
    server's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignStage:
    """One measurement at one load, as a file of another tool has it."""

    file: str
    tool: str
    version: str | None  # None: the file does not say.
    model: str | None
    load: Load | None
    load_unknown: str = ""  # Why there is no load.
    answered: int
    failed: int
    seconds: float | None
    figures: Sequence[ForeignFigure]
    definitions: Sequence[FigureDefinition]
    requests: ForeignRequests | None = None
    not_ours: frozenset[str] = frozenset()
    """Latencies that the requests have by another definition than ours: no figure is made of
    them."""
    errors: Mapping[str, int] | None = None
    """How often each error occurred; None: the file has no errors."""
    absent: Mapping[Input, str] = field(default_factory=dict)
    """What to do to have an input in the tool's files; without an entry, the tool has none."""

    @property
    def known(self) -> frozenset[Input]:
        """Return which inputs of rules the file has; it can't have `Input.REPEATS`."""
        found = {Input.OUTCOMES}
        if self.load is not None:
            found.add(Input.LOAD)
            if not self.load.capped:
                found.add(Input.CLIENT_QUEUE)  # Nothing holds requests back.
        if self.errors is not None or not self.failed:
            found.add(Input.ERRORS)
        if (sent := self.requests) is not None:
            found.add(Input.TIMES)
            columns = {
                Input.CLIENT_QUEUE: sent.queue_us,
                Input.INPUT_TOKENS: sent.input_tokens,
                Input.OUTPUT_TOKENS: sent.output_tokens,
                Input.ASKED_TOKENS: sent.asked_tokens,
                Input.GAPS: sent.gaps_us,
                Input.PROMPT_COUNTS: sent.client_input_tokens,
            }
            found |= {
                name for name, column in columns.items() if column is not None
            }
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was given: where it lies, and the documents in it."""

    folder: str
    documents: Sequence[Part]


@dataclass(frozen=True, slots=True)
class FileReader:
    """How the files of a tool are read."""

    tool: str
    files: str  # What the files are, and what the tool must be told to write them.
    globs: Sequence[str]  # Names of the files that are read of a folder.
    read: Callable[[Sequence[Source]], Sequence[ForeignStage]]
    """Read all files that were given. Raises Unreadable."""

    @property
    def remedy(self) -> str:
        """Return what to do where a file is not as expected."""
        return f"give {self.files}"
