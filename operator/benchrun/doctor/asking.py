"""What a check asks the API server, what it was answered, and what it found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from benchrun.observe import untrusted_json as raw

State = Literal["Ok", "Warning", "Problem", "NotChecked"]
"""Warning: it runs, or may soon, but look at it. Problem: it can't run. NotChecked: this could not
be found out, and why; it never counts as fine."""
STATES: tuple[State, ...] = ("Ok", "Warning", "Problem", "NotChecked")
PAGE = 500  # Objects that are listed at once.
MOST_PAGES = 8
MOST_LISTED = PAGE * MOST_PAGES
"""Most objects of a list that are read; a longer list is not known as a whole."""


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One line of the answer."""

    name: str  # Name of the check; programs may rely on it.
    state: State
    subject: str  # What was looked at.
    sentence: str
    remedy: str = ""  # What to do; empty where all is well.


ok = partial(CheckLine, state="Ok")
warning = partial(CheckLine, state="Warning")
problem = partial(CheckLine, state="Problem")
not_checked = partial(CheckLine, state="NotChecked")


@dataclass(frozen=True, slots=True)
class ApiQuery:
    """A request to the API server that changes nothing."""

    path: str
    body: str = ""  # JSON that is posted; empty: the path is read.
    account: str = ""  # User in whose name it is asked; empty: the caller himself.


Trouble = Literal["", "NotFound", "Forbidden", "Refused", "Failed"]


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """The API server's answer: an object, or the words with which it gave none."""

    body: raw.Object | None = None
    trouble: Trouble = ""
    words: str = ""

    @property
    def found(self) -> raw.Object:
        """Return the object; empty where there is none."""
        return self.body if self.body is not None else {}

    @property
    def items(self) -> tuple[raw.Object, ...]:
        return tuple(raw.mappings(self.found.get("items")))

    @property
    def next_page(self) -> str:
        """Return the token of the page of a list after this one; empty: it is the last."""
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
        return self.get(query, UNASKED)


@dataclass(frozen=True, slots=True)
class Check:
    queries: Sequence[ApiQuery]
    read: Callable[[ApiAnswers], Sequence[CheckLine]]


def listed(path: str, selector: str = "") -> ApiQuery:
    """Build the query for the first objects of a list; `selector` is of labels."""
    chosen = f"&labelSelector={selector}" if selector else ""
    return ApiQuery(f"{path}?limit={PAGE}{chosen}")


def unread(
    name: str, subject: str, answer: ApiAnswer, right: str, *, namespace: str = ""
) -> CheckLine:
    """Return that something could not be read: which right it takes, or why else.

    `right` is a verb and a resource; `namespace` where it is needed, empty for the whole cluster.
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
        sentence=f"there are more than {MOST_LISTED}, and only so many are read",
        remedy="Look at them with kubectl.",
    )


def metadata_of(body: raw.Object) -> raw.Object:
    return raw.mapping(body.get("metadata"))


def name_of(body: raw.Object) -> str:
    return raw.text(metadata_of(body).get("name"))


def labels_of(body: raw.Object) -> raw.Object:
    return raw.mapping(metadata_of(body).get("labels"))


def named(objects: Sequence[str], most: int = 3) -> str:
    """Return names in a sentence, the first few and how many more."""
    rest = len(objects) - most
    return ", ".join(objects[:most]) + (f" and {rest} more" if rest > 0 else "")
