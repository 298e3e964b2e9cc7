"""The parts of a check: queries to the API server, their answers, and the lines of the result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from benchrun.observe import untrusted_json as raw

State = Literal["Ok", "Warning", "Problem", "NotChecked"]
"""Warning: a run works, or will soon, but something needs attention. Problem: a run can't work.
NotChecked: doctor could not find out; the line says why. NotChecked never counts as Ok."""
STATES: tuple[State, ...] = ("Ok", "Warning", "Problem", "NotChecked")
PAGE = 500  # Objects in one answer to a list query.
MOST_PAGES = 8
MOST_LISTED = PAGE * MOST_PAGES
"""Most objects of a list that are read. The rest of a longer list is unknown."""


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One line of the result."""

    name: str  # Name of the check; programs may rely on it.
    state: State
    subject: str  # The object or setting that was checked.
    sentence: str
    remedy: str = ""  # What to do; empty if the state is Ok.


ok = partial(CheckLine, state="Ok")
warning = partial(CheckLine, state="Warning")
problem = partial(CheckLine, state="Problem")
not_checked = partial(CheckLine, state="NotChecked")


@dataclass(frozen=True, slots=True)
class ApiQuery:
    """A request to the API server that changes nothing."""

    path: str
    body: str = ""  # JSON to post; if empty, the path is read (GET).
    account: str = ""  # User to impersonate; empty for the caller.


Trouble = Literal["", "NotFound", "Forbidden", "Refused", "Failed"]


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """The API server's answer: an object, or the kind and the message of an error."""

    body: raw.Object | None = None
    trouble: Trouble = ""
    words: str = ""

    @property
    def found(self) -> raw.Object:
        """Return the object, or an empty one after an error."""
        return self.body if self.body is not None else {}

    @property
    def items(self) -> tuple[raw.Object, ...]:
        """Return the objects of a list; none if the answer is not a list."""
        return tuple(raw.mappings(self.found.get("items")))

    @property
    def next_page(self) -> str:
        """Return the token with which to read the list's next page; empty after the last page."""
        metadata = raw.mapping(self.found.get("metadata"))
        return raw.text(metadata.get("continue"), 8192)

    @property
    def is_whole(self) -> bool:
        """Return whether the list was read to its end."""
        return self.body is not None and not self.next_page


UNASKED = ApiAnswer(trouble="Failed", words="it was not asked")


class ApiAnswers(dict[ApiQuery, ApiAnswer]):
    """Answers by query."""

    def of(self, query: ApiQuery) -> ApiAnswer:
        """Return the answer to a query, or UNASKED if it was not sent."""
        return self.get(query, UNASKED)


@dataclass(frozen=True, slots=True)
class Check:
    """The queries of a check, and the function that makes lines of their answers."""

    queries: Sequence[ApiQuery]
    read: Callable[[ApiAnswers], Sequence[CheckLine]]


def listed(path: str, selector: str = "") -> ApiQuery:
    """Build the query for the first page of a list; `selector` is a label selector."""
    chosen = f"&labelSelector={selector}" if selector else ""
    return ApiQuery(f"{path}?limit={PAGE}{chosen}")


def unread(
    name: str, subject: str, answer: ApiAnswer, right: str, *, namespace: str = ""
) -> CheckLine:
    """Build the NotChecked line for an object that could not be read.

    The line names the missing right or the error. `right` is a verb and a resource, such as `list
    nodes`; `namespace` is where the right is needed, empty for the whole cluster.
    """
    where = f"in namespace {namespace}" if namespace else "in the whole cluster"
    if answer.trouble == "Forbidden":
        return not_checked(
            name,
            subject=subject,
            sentence=f"you may not {right} {where}",
            remedy=f"Ask for the right to {right} {where}, or have somebody with it run this.",
        )
    if answer.trouble:
        why = answer.words or answer.trouble
        return not_checked(
            name, subject=subject, sentence=why, remedy="Run this again."
        )
    return not_checked(
        name,
        subject=subject,
        sentence=f"there are more than {MOST_LISTED}, the most that doctor reads",
        remedy="Look at them with kubectl.",
    )


def metadata_of(body: raw.Object) -> raw.Object:
    return raw.mapping(body.get("metadata"))


def name_of(body: raw.Object) -> str:
    return raw.text(metadata_of(body).get("name"))


def labels_of(body: raw.Object) -> raw.Object:
    return raw.mapping(metadata_of(body).get("labels"))


def named(objects: Sequence[str], most: int = 3) -> str:
    """Format names for a sentence: the first `most`, then the number of the others."""
    rest = len(objects) - most
    return ", ".join(objects[:most]) + (f" and {rest} more" if rest > 0 else "")
