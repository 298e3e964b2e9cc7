"""The kinds of load, one model each: how the requests of a stage arrive.

A kind states all facts about itself that other modules need: its axis and the words for it, how its
requests arrive, what bounds the requests in flight, and which part of a stage counts. The operator
derives a load once from the spec (`load_of`); the plan carries it to the client, which sends it and
writes it into the record.
"""

import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from math import ceil
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, Field, model_validator

from benchrun_client.contract.base import (
    Count,
    DecimalText,
    LeavesOut,
    Message,
    ShortText,
)

MAX_REQUESTS_A_STAGE = 50_000
"""Most requests of a stage. With the bound on distinct gaps, it keeps a record below the 1 MiB of a
ConfigMap."""

Axis = Literal["RequestRate", "Concurrency", "TraceSpeed", "BatchSize", "Sessions"]
UserStartMode = Literal["Spread", "Together"]


class NoPlateau(StrEnum):
    """The reason why a stage has no steady part."""

    NO_REQUESTS = "no requests"
    ALL_AT_ONCE = "all requests were sent at once"
    FOLLOWS_TRACE = "a replayed trace has no steady load"
    WHOLE_BATCHES = "the engine was given one batch after the other"
    WHOLE_SESSIONS = (
        "sessions begin short and grow, so no two parts of them are alike"
    )
    ANSWERS_OUTLAST_SENDING = "answers took longer than the sending lasted"
    TOO_FEW_REQUESTS = "too few requests were sent at steady load"


def _above_zero(text: str) -> str:
    if _DECIMAL.fullmatch(text) is None or Decimal(text) <= 0:
        raise ValueError(f"must be a decimal above 0, got {text[:40]!r}")
    return text


_DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?")


PositiveText = Annotated[DecimalText, AfterValidator(_above_zero)]


class ThinkTime(Message):
    """How long a user of a closed loop waits after an answer before it sends its next request."""

    mean_seconds: DecimalText
    distribution: Literal["Exponential", "Constant"] = "Exponential"


class LoadKind(LeavesOut):
    """The base of all kinds of load; it has the values that are right for most of them."""

    kind: ShortText
    axis: ClassVar[Axis]
    # Field that holds the load value; None if there is only one value.
    varied: ClassVar[str | None]
    listed_in: ClassVar[str]  # Field of the spec's load that lists the load values.
    name_in_ids: ClassVar[str]  # `rate` of the load point `chat/rate=4`.
    unit: ClassVar[str]  # Follows a number.
    unit_in_words: ClassVar[str]
    title: ClassVar[str]  # Of the axis of a chart.
    is_whole: ClassVar[bool] = False  # Whether load values are whole numbers.

    is_open: ClassVar[bool] = False
    """Whether requests arrive independently of the answers (open loop). Otherwise the server always
    has as many requests as the load allows, apart from think time."""
    follows_trace: ClassVar[bool] = False
    """Whether requests arrive at recorded instants: an open loop without a rate."""
    whole_batches: ClassVar[bool] = False
    """Whether the engine gets a batch at a time, and the next one when the whole batch is
    answered."""
    no_plateau: ClassVar[NoPlateau | None] = None  # Why it never has a steady part.

    @classmethod
    def takes(cls, value: str) -> bool:
        """Return whether a value along the axis makes a load of this kind."""
        return value != AtOnceLoad.only_value

    @classmethod
    def of(cls, value: str, **options: Any) -> Self:
        """Build a load of this value; options that the kind does not have are ignored.

        Raises ValueError for a value that the kind can't have.
        """
        own = {
            name: option
            for name, option in options.items()
            if option is not None and name in cls.model_fields
        }
        return cls.model_validate(
            own if cls.varied is None else {cls.varied: value, **own}
        )

    @property
    def label(self) -> str:
        """Return the load as it stands in the ids of load points, such as `rate=4`."""
        return f"{self.name_in_ids}={self.value}"

    @property
    def value(self) -> str:
        """Return the value of the load as text, such as "4", "0.5" or "inf"."""
        assert self.varied is not None
        return str(getattr(self, self.varied))

    def at(self, value: Decimal) -> Self:
        """Return the same load at another value.

        Raises ValueError if the kind can't have this value.
        """
        assert self.varied is not None
        return self.model_validate(
            {**self.model_dump(), self.varied: spelled(value)}
        )

    @classmethod
    def offered(cls, value: str) -> str:
        """Return the sentence part that says how many requests were offered at a load value."""
        return f"{value} {cls.unit} were offered"

    @property
    def rate(self) -> float | None:
        """Return the arrivals a second of an open loop; None if the load has no rate."""
        return None

    @property
    def cap(self) -> int | None:
        """Return the most requests in flight; None if nothing bounds them."""
        return None

    def with_cap(self, cap: int) -> Self:
        """Return the load with another bound on the requests in flight.

        A load without a bound stays as it is.
        """
        return self

    @property
    def start_mode(self) -> UserStartMode | None:
        """Return how users begin; None if one after the other, or if the load has no users."""
        return None

    @property
    def think_time(self) -> ThinkTime | None:
        """Return how long users think after an answer; None if they do not."""
        return None

    @property
    def mean_think_seconds(self) -> float:
        """Return the mean think time in seconds; 0 if users do not think."""
        return (
            0.0 if self.think_time is None else float(self.think_time.mean_seconds)
        )

    @property
    def trace_speed(self) -> float | None:
        """Return the factor by which recorded arrivals are sped up; None without a trace."""
        return None

    @property
    def batch_size(self) -> int | None:
        """Return the requests in each call of an engine; None: all requests are in one call."""
        return None

    @property
    def sessions_at_once(self) -> int | None:
        """Return how many sessions are under way together; None if turns need not wait."""
        return None

    @property
    def request_rate(self) -> str:
        """Return the value of vLLM's `--request-rate`: "inf" hands out all requests at once."""
        return "inf"

    @property
    def burstiness_text(self) -> str:
        """Return the value of vLLM's `--burstiness`."""
        return "1"

    @property
    def closed_loop(self) -> bool:
        """Return whether this is a closed loop: users send again after each answer."""
        return False

    @property
    def all_at_once(self) -> bool:
        """Return whether every request is sent at the first instant.

        Such a load measures how fast a queue drains.
        """
        return False

    @property
    def never_steady(self) -> bool:
        """Return whether the load has no steady part by its nature, so that whole stages count."""
        return self.all_at_once or self.no_plateau is not None

    @property
    def users(self) -> int | None:
        """Return the number of requests that the load keeps in flight, or None if it varies.

        It is constant for the users of a closed loop, and for batches.
        """
        return self.cap if self.closed_loop or self.whole_batches else None

    @property
    def always_busy(self) -> bool:
        """Return whether the server always has requests: the load is not open, no user thinks."""
        return not self.is_open and self.think_time is None

    @property
    def capped(self) -> bool:
        """Return whether requests of an open loop may wait in the client because of a cap."""
        return self.is_open and self.cap is not None

    @property
    def has_due_instants(self) -> bool:
        """Return whether requests are due at planned instants, and only the client delays them."""
        return self.is_open and not self.capped

    def requests(self, listed: int | None, duration_seconds: int | None) -> int:
        """Return the number of requests of a stage.

        `listed` is the spec's number. A load with a rate computes the number from the duration
        instead. 0 if neither is given, which the CRD refuses.
        """
        return listed or 0

    def least_seconds(self, requests: int) -> Decimal | None:
        """Return the seconds in which so many requests arrive; None if that depends on answers."""
        return None

    def most_in_flight(self, requests: int) -> int | None:
        """Return how many of a stage's requests may be in flight at once.

        None if the load sets no limit.
        """
        return self.cap

    def held(self, requests: int, seconds: int) -> int:
        """Return how many requests are in flight if each takes `seconds`; 0: not known.

        Call it only for a load without a cap.
        """
        return 0

    @property
    def warmup_concurrency(self) -> int | None:
        """Return the most requests in flight in the load's warm-up; None without a limit."""
        return self.cap

    def mean_in_flight(self, e2el_us: Sequence[int]) -> float | None:
        """Return how many requests users keep in flight on average.

        This is the number of users, less the mean number of users that think (by Little's law);
        `e2el_us` are the E2ELs of answered requests. For an open loop the cap is returned; None if
        nothing bounds the requests in flight.
        """
        users = self.cap
        if users is None or not self.mean_think_seconds or not e2el_us:
            return users
        e2el_seconds = max(1.0, sum(e2el_us) / len(e2el_us)) / 1e6
        return users * e2el_seconds / (e2el_seconds + self.mean_think_seconds)


class _RequestRate(LoadKind):
    """The base of all loads whose axis is the request rate."""

    axis = "RequestRate"
    listed_in = "request_rates"
    name_in_ids = "rate"
    unit = "requests/s"
    unit_in_words = "requests a second"
    title = "requests/s offered"

    max_concurrency: Count | None = Field(None, ge=1)

    @property
    def cap(self) -> int | None:
        """Return the most requests in flight; others wait in the client. None without a limit."""
        return self.max_concurrency

    def with_cap(self, cap: int) -> Self:
        """Return the same load with another cap on the requests in flight."""
        if self.cap is None:
            return self
        return self.model_copy(update={"max_concurrency": cap})


class RateLoad(_RequestRate):
    """An open loop: requests arrive at a rate, independently of the answers."""

    left_out: ClassVar[frozenset[str]] = frozenset({"max_concurrency"})
    varied = "requests_per_second"
    is_open = True

    kind: Literal["Rate"] = "Rate"
    requests_per_second: PositiveText
    # Gamma shape of the gaps between arrivals; 1 is Poisson.
    burstiness: DecimalText = "1"

    @property
    def rate(self) -> float:
        """Return the arrivals a second."""
        return float(self.requests_per_second)

    @property
    def request_rate(self) -> str:
        """Return vLLM's `--request-rate`."""
        return self.requests_per_second

    @property
    def burstiness_text(self) -> str:
        """Return vLLM's `--burstiness`."""
        return self.burstiness

    def requests(self, listed: int | None, duration_seconds: int | None) -> int:
        """Return the requests of a stage: as listed, or rate x duration, rounded up."""
        if listed is not None:
            return listed
        exact = Decimal(self.requests_per_second) * Decimal(duration_seconds or 0)
        return max(1, int(exact.to_integral_value(rounding=ROUND_CEILING)))

    def least_seconds(self, requests: int) -> Decimal:
        """Return how long that many requests take to arrive."""
        return Decimal(requests) / Decimal(self.requests_per_second)

    def held(self, requests: int, seconds: int) -> int:
        """Return how many requests are in flight on average if a request takes `seconds`."""
        return min(requests, ceil(Decimal(self.requests_per_second) * seconds))


class AtOnceLoad(_RequestRate):
    """All requests at once.

    A cap makes it a closed loop: as many users, each sending its next request when answered.
    """

    left_out: ClassVar[frozenset[str]] = frozenset(
        {"max_concurrency", "start", "think_seconds"}
    )
    varied = None
    only_value: ClassVar[str] = "inf"

    kind: Literal["AtOnce"] = "AtOnce"
    start: UserStartMode | None = None
    """How the users under a cap begin; None if one after the other, or if there are no users."""
    # Think time of the users under a cap; None if they do not think.
    think_seconds: ThinkTime | None = None

    @model_validator(mode="after")
    def _has_users(self) -> Self:
        if (
            self.start is not None or self.think_seconds is not None
        ) and not self.closed_loop:
            raise ValueError(
                "start and think_seconds need max_concurrency: without it there are no users"
            )
        return self

    @classmethod
    def takes(cls, value: str) -> bool:
        """Return whether the value stands for all at once."""
        return value == cls.only_value

    @classmethod
    def of(cls, value: str, **options: Any) -> Self:
        """Build the load; without a cap there are no users who could begin or think."""
        if options.get("max_concurrency") is None:
            options = {}
        return super().of(value, **options)

    @property
    def value(self) -> str:
        """Return "inf": no request waits for an instant at which it arrives."""
        return self.only_value

    @property
    def start_mode(self) -> UserStartMode | None:
        """Return how users begin."""
        return self.start

    @property
    def think_time(self) -> ThinkTime | None:
        """Return how long users think after an answer; None if they do not."""
        return self.think_seconds

    @property
    def closed_loop(self) -> bool:
        """Return whether there is a cap, which makes the load a closed loop of users."""
        return self.cap is not None

    @property
    def all_at_once(self) -> bool:
        """Return whether the load has no cap."""
        return self.cap is None

    def most_in_flight(self, requests: int) -> int:
        """Return how many of a stage's requests are in flight at first."""
        return requests if self.cap is None else min(requests, self.cap)

    def held(self, requests: int, seconds: int) -> int:
        """Return the number of all requests of the stage, which are in flight together."""
        return requests


class UsersLoad(LoadKind):
    """A closed loop: each user sends its next request when its last one was answered."""

    left_out: ClassVar[frozenset[str]] = frozenset({"think_seconds"})
    axis = "Concurrency"
    varied = "concurrency"
    listed_in = "concurrencies"
    name_in_ids = "concurrency"
    unit = "users"
    unit_in_words = "users at once"
    title = "users"
    is_whole = True

    kind: Literal["Users"] = "Users"
    concurrency: Count = Field(ge=1)
    start: UserStartMode = "Together"
    """How users begin: spread over a round, or one right after the other."""
    think_seconds: ThinkTime | None = None  # None if they do not think.

    @property
    def cap(self) -> int:
        """Return the number of users."""
        return self.concurrency

    def with_cap(self, cap: int) -> Self:
        """Return the load with another number of users."""
        return self.model_copy(update={"concurrency": cap})

    @property
    def start_mode(self) -> UserStartMode:
        """Return how users begin."""
        return self.start

    @property
    def think_time(self) -> ThinkTime | None:
        """Return how long users think after an answer; None if they do not."""
        return self.think_seconds

    @property
    def closed_loop(self) -> bool:
        """Return True: in a closed loop users send the requests."""
        return True


class TraceLoad(LoadKind):
    """A recorded trace, replayed: each request at its recorded instant."""

    axis = "TraceSpeed"
    varied = "speed"
    listed_in = "trace_speeds"
    name_in_ids = "speed"
    unit = "times as fast"
    unit_in_words = "times as fast as recorded"
    title = "speed of the trace"
    is_open = True
    follows_trace = True
    no_plateau = NoPlateau.FOLLOWS_TRACE

    kind: Literal["Trace"] = "Trace"
    speed: PositiveText  # Factor by which the recorded arrivals are sped up.

    @classmethod
    def offered(cls, value: str) -> str:
        """Return the sentence part that says how requests were offered."""
        return "requests were offered as recorded"

    @property
    def trace_speed(self) -> float:
        """Return the factor by which recorded arrivals are sped up."""
        return float(self.speed)


class BatchLoad(LoadKind):
    """Batches for an engine without API server: the next one when the last is answered whole."""

    axis = "BatchSize"
    varied = "size"
    listed_in = "batch_sizes"
    name_in_ids = "batch"
    unit = "requests a batch"
    unit_in_words = "requests a batch"
    title = "batch size"
    is_whole = True
    whole_batches = True
    no_plateau = NoPlateau.WHOLE_BATCHES

    kind: Literal["Batches"] = "Batches"
    size: Count = Field(ge=1)

    @property
    def cap(self) -> int:
        """Return the requests of a batch."""
        return self.size

    @property
    def batch_size(self) -> int:
        """Return how many requests one call of the engine gets."""
        return self.size

    @property
    def warmup_concurrency(self) -> int:
        """Return the requests in flight of a warm-up.

        It is one batch, but at most half of the most requests that a stage may have.
        """
        return min(self.size, MAX_REQUESTS_A_STAGE // 2)


class SessionsLoad(LoadKind):
    """Sessions at once: the next one begins when all turns of one are answered.

    Not a closed loop of requests: while tools run a session has none in flight, and several agents
    of a session may each have one.
    """

    axis = "Sessions"
    varied = "sessions"
    listed_in = "sessions"
    name_in_ids = "sessions"
    unit = "sessions"
    unit_in_words = "sessions at once"
    title = "sessions at once"
    is_whole = True
    no_plateau = NoPlateau.WHOLE_SESSIONS

    kind: Literal["Sessions"] = "Sessions"
    sessions: Count = Field(ge=1)

    @classmethod
    def offered(cls, value: str) -> str:
        """Return the sentence part that says how requests were offered."""
        return f"turns of {value} sessions at once were offered"

    @property
    def always_busy(self) -> bool:
        """Return False: sessions pause while their tools run."""
        return False

    @property
    def sessions_at_once(self) -> int:
        """Return how many sessions are under way together."""
        return self.sessions

    @property
    def warmup_concurrency(self) -> int:
        """Return the requests in flight of a warm-up: one for each session."""
        return min(self.sessions, MAX_REQUESTS_A_STAGE // 2)


Load = Annotated[
    RateLoad | AtOnceLoad | UsersLoad | TraceLoad | BatchLoad | SessionsLoad,
    Field(discriminator="kind"),
]
KINDS: tuple[type[Load], ...] = get_args(get_args(Load)[0])
"""Every kind of load."""
SearchedLoad = Annotated[RateLoad | UsersLoad, Field(discriminator="kind")]


def kind_of(axis: str, value: str) -> type[Load]:
    """Return the kind of load that has this axis and takes this value, for example a rate of 4.

    Raises KeyError for an axis that no kind has.
    """
    found = next(
        (kind for kind in KINDS if kind.axis == axis and kind.takes(value)), None
    )
    if found is None:
        raise KeyError(axis)
    return found


def spelled(value: Decimal | str) -> str:
    """Return the only spelling of a load value that is used: 4 for 4.0, 100 for 1E+2, "inf"."""
    if value == AtOnceLoad.only_value:
        return AtOnceLoad.only_value
    text = format(Decimal(value).normalize(), "f")
    return text if text != "-0" else "0"
