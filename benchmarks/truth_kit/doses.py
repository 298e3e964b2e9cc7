"""Each mistake at five doses, with the harm that each does to the headline figures: no load point
may be Valid and wrong.

Harm is the difference between a figure of the row and the same figure without the mistake, as the
server's own log has it for runs without any, which send the same requests at the same instants.
What a dose harms is thus measured, not assumed."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Literal, NamedTuple

from benchrun.api import Result
from benchrun_client.contract import StageRecord

from truth_kit.lab import Experiment, Failed, Outcome
from truth_kit.mistakes import open_loop
from truth_kit.physical import Standstill
from truth_kit.timing import Figures, true_figures

Cause = Literal["client", "path", "frontend", "server"]
Named = Literal["rightly", "wrongly", "unknown", "nobody"]
Beside = Literal["none", "few", "alike", "any"]
"""What may run beside an experiment: nothing; one more; only those that compete for the cores as it
does; or any, since its client and servers run ahead of all processes."""
AHEAD: Collection[Beside] = ("any", "few")
"""Where client and servers run ahead of all processes."""
CAUSES: Mapping[str, Cause] = {
    "ClientSaturated": "client",
    "ClientThrottled": "client",
    "PathSlow": "path",
    "FrontendSaturated": "frontend",
}
"""Codes that blame one of them; a finding that blames none is about the server, about the load, or
says that it does not know."""
LATE = frozenset({"ClientSaturated"})
"""Codes that say that the client was late."""
UNKNOWN = "ClientServerGap"
"""The code that says: something between client and engine, not the client, and no more is known."""


@dataclass(frozen=True, slots=True)
class Place:
    """A server without a mistake, and what is sent to it."""

    name: str
    flags: Sequence[str]
    rate: str
    seconds: float
    tokens: int
    """Of an answer."""

    def open_loop(self, prompt_tokens: int, **changes: Any) -> Mapping[str, Any]:
        """Its load."""
        data = {"random": {"inputTokens": prompt_tokens, "outputTokens": self.tokens}}
        return {**open_loop(self.rate, self.seconds), "dataset": data, **changes}


def _server(ttft_ms: int, tpot_ms: int, prefill_us: int, running_us: int) -> Sequence[str]:
    return (
        *(
            f"--sim-ttft-ms={ttft_ms}",
            f"--sim-tpot-ms={tpot_ms}",
            f"--sim-prefill-us-per-token={prefill_us}",
        ),
        f"--sim-tpot-us-per-running={running_us}",
    )


SLOW = Place("slow", _server(100, 10, 200, 200), "15", 12.0, 24)
"""TTFT 113 ms, of which the prefill of 64 tokens is 13. Its 180 requests bound no p99."""
FAST = Place("fast", _server(13, 4, 30, 0), "60", 20.0, 8)
"""TTFT 15 ms: what the rules let pass in any case (5 ms) is a third of it. Its 1,200 requests, with
short answers, mostly bound a p99."""
HARMFUL_PERCENT = 5.0
FORGIVEN_MS: Mapping[str, float] = {"mean_ttft_ms": 1.0, "mean_tpot_ms": 0.2, "p99_ttft_ms": 5.0}
"""What the machine itself may add on the way; six experiments share its cores, so more to a p99."""
FLOOR_MS = 5.0
"""Differences of TTFT up to this are let pass by the rules of the front end, whatever share of it
they are, lest they blame a vLLM for what its own HTTP and tokenizer take. Such harm is counted for
itself; it is more than 5 % only where TTFT is below 100 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """What goes wrong, from hardly to badly."""

    name: str
    doses: Sequence[float]
    with_dose: Callable[[float], Mapping[str, Any]]
    """Changed fields of the experiment; `flags` are added to the server's."""
    expected: frozenset[str]
    """Findings that say what is wrong, and those that it brings with it. Others of severity Suspect
    or Invalid are extra."""
    fast: Sequence[float] = ()
    """Doses at the fast server."""
    cause: Cause | None = None
    """Who is to blame; None: nobody in particular."""
    cells: int = 1
    """Load points of a dose."""
    prompt_tokens: int = 64
    beside: Beside = "any"

    @property
    def tried(self) -> Sequence[tuple[Place, float]]:
        """Every dose, and where."""
        return [*((SLOW, dose) for dose in self.doses), *((FAST, dose) for dose in self.fast)]

    def experiment(self, place: Place, dose: float) -> Experiment:
        """The mistake at this dose."""
        values = dict(self.with_dose(dose))
        flags = values.pop("flags", ())
        return Experiment(
            name=f"{self.name} {dose:g} ({place.name})",
            workloads=[
                place.open_loop(self.prompt_tokens, name=f"w{number}")
                for number in range(self.cells)
            ],
            servers=((*place.flags, *flags),),
            traffic="doses",
            about_seconds=self.cells * place.seconds,
            **{
                "measurement": WARM,
                "client_ahead": self.beside in AHEAD,
                "servers_ahead": self.beside in AHEAD,
                **values,
            },
        )


WARM: Mapping[str, Any] = {"warmup": {"auto": {}}, "order": "AsListed"}
PROMPTS = (64, 512)
"""Tokens; each length has its own truth, at each place. The fast server gets none of the long
ones."""
REFERENCES = tuple(
    Mistake(
        name=f"nothing, {tokens} tokens",
        doses=(0,),
        fast=(0,) if tokens == PROMPTS[0] else (),
        with_dose=lambda _: {},
        expected=frozenset(),
        prompt_tokens=tokens,
        cells=4,
    )
    for tokens in PROMPTS
)
_GAP = frozenset({"ClientServerGap", "LittlesLawBroken"})
_CLIENT = frozenset(
    {"ClientSaturated", "ClientThrottled", "RateNotAchieved", "NotSteadyState", "LittlesLawBroken"}
)
_SERVER = frozenset({"NotSteadyState", "RepeatsDisagree", "Drift"})


def _stop(seconds: float) -> Standstill:
    return Standstill(4.0, 4.0 + seconds)


MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        name="client with a share of a core",
        doses=(0.5, 0.3, 0.2, 0.12, 0.07),
        fast=(0.3, 0.15, 0.08),
        with_dose=lambda share: {"client_cpu_share": share, "servers_ahead": True},
        expected=_CLIENT,
        cause="client",
        cells=2,
        beside="alike",
    ),
    Mistake(
        name="client stands still for s",
        doses=(0.05, 0.15, 0.4, 0.8, 1.5),
        fast=(0.05, 0.15, 0.5),
        with_dose=lambda seconds: {"client_stopped": _stop(seconds)},
        expected=_CLIENT,
        cause="client",
    ),
    Mistake(
        name="neighbours that burn cores",
        doses=(1, 2, 4, 8, 16),
        fast=(2, 8),
        with_dose=lambda count: {"neighbours": int(count)},
        expected=_CLIENT | _SERVER | _GAP | {"FrontendSaturated", "ServerThrottled"},
        beside="none",
    ),
    Mistake(
        name="path of ms each way",
        doses=(1, 3, 8, 20, 60),
        fast=(1, 3, 8),
        with_dose=lambda delay: {"path_delay_ms": delay},
        expected=_GAP | {"PathSlow"},
        cause="path",
        # What delays it takes a core from the clients of others, as a wire would not.
        beside="few",
    ),
    Mistake(
        name="path that loses percent",
        doses=(0.03, 0.1, 0.3, 1, 3),
        fast=(0.1, 1),
        with_dose=lambda percent: {"path_loss_percent": percent},
        expected=_GAP | {"PathSlow"},
        cause="path",
        # All share a network namespace, and with it the count of lost packets.
        beside="none",
    ),
    Mistake(
        name="front end takes ms a request",
        doses=(2, 10, 30, 50, 60),
        fast=(5, 8, 12),  # 2 ms is what vLLM's own takes on such cores
        # The core that it takes is not the client's.
        with_dose=lambda busy: {"flags": (f"--sim-frontend-ms={busy}",), "client_ahead": True},
        expected=_GAP | {"FrontendSaturated", "NotSteadyState"},
        cause="frontend",
        beside="none",
    ),
    Mistake(
        name="server with a share of a core",
        doses=(0.3, 0.12, 0.06, 0.03, 0.02),
        fast=(0.12, 0.06),
        with_dose=lambda share: {"server_cpu_share": share, "client_ahead": True},
        expected=_SERVER | _GAP | {"FrontendSaturated", "ServerThrottled"},
        beside="alike",
    ),
    Mistake(
        name="server stands still for s",
        doses=(0.05, 0.15, 0.4, 0.8, 1.5),
        fast=(0.05, 0.15, 0.5),
        with_dose=lambda seconds: {"server_stopped": _stop(seconds)},
        expected=_SERVER | _GAP | {"FrontendSaturated"},
    ),
    Mistake(
        name="chat template of tokens",
        doses=(2, 8, 32, 128, 512),
        with_dose=lambda tokens: {"flags": (f"--sim-template-tokens={tokens:g}",)},
        expected=frozenset({"ForeignTraffic", "PrefixCacheContaminated", "PromptTokensDisagree"}),
        cause="server",
    ),
    Mistake(
        name="foreign requests a second",
        doses=(0.1, 0.5, 2, 8, 20),
        with_dose=lambda rate: {
            "flags": (f"--sim-foreign-rate={rate}", "--sim-foreign-output-tokens=64")
        },
        expected=frozenset({"ForeignTraffic", "LittlesLawBroken"}),
        cause="server",
    ),
    Mistake(
        name="foreign cache hits percent",
        doses=(1, 4, 10, 25, 60),
        with_dose=lambda percent: {"flags": (f"--sim-foreign-hits-percent={percent}",)},
        expected=frozenset({"PrefixCacheContaminated"}),
        prompt_tokens=512,
        cause="server",
    ),
    Mistake(
        name="cold start of ms",
        doses=(10, 40, 120, 400, 1000),
        fast=(40, 400),
        with_dose=lambda cold: {
            "flags": ("--sim-cold-requests=5", f"--sim-cold-ms={cold}"),
            "measurement": {**WARM, "warmup": {"none": {}}},
        },
        expected=frozenset({"ColdStart", "NotSteadyState"}),
        cause="server",
    ),
    Mistake(
        name="compiling for ms",
        doses=(20, 60, 150, 400, 1000),
        fast=(60, 400),
        with_dose=lambda long: {"flags": ("--sim-jit-at-request=100", f"--sim-jit-ms={long}")},
        expected=frozenset({"CompilationInWindow"}),
        cause="server",
    ),
    Mistake(
        name="slower by percent a second",
        doses=(0.3, 1, 2, 5, 12),
        with_dose=lambda percent: {
            "flags": (f"--sim-slowdown-percent-per-second={percent}",),
            "measurement": {**WARM, "warmup": {"none": {}}},
        },
        expected=_SERVER,
        cause="server",
    ),
    Mistake(
        name="answers of percent",
        doses=(99, 96, 92, 85, 60),
        with_dose=lambda percent: {"flags": (f"--sim-output-percent={percent}",)},
        expected=frozenset({"OutputTooShort"}),
        cause="server",
    ),
    Mistake(
        name="usage of percent",
        doses=(99.5, 97, 94, 85, 60),
        with_dose=lambda percent: {"flags": (f"--sim-usage-percent={percent}",)},
        expected=frozenset({"TokenCountsDisagree", "OutputTooShort"}),
        cause="server",
    ),
    Mistake(
        name="failed requests percent",
        doses=(0.4, 1, 3, 8, 25),
        with_dose=lambda percent: {"flags": (f"--sim-error-percent={percent}",)},
        expected=frozenset({"RequestsFailed"}),
        cause="server",
    ),
)


@dataclass(frozen=True, slots=True)
class Truth:
    """The headline figures without a mistake."""

    figures: Figures
    """Latencies: of several stages the median."""
    throughput: Mapping[str, float]
    """Of the plateau of each load point: requests arrive at random, and each has its own."""

    def of(self, row: Result) -> Figures:
        """What the row should say."""
        own = self.throughput.get(row.cell)
        return self.figures if own is None else {**self.figures, "output_throughput": own}


def truths(outcome: Outcome) -> Truth:
    """By the server's own log."""
    found = list(true_figures(outcome))
    if not found:
        raise Failed(f"no stage of {outcome.spec.workloads[0].name} is whole in the server's log")
    medians = {name: median(figures[name] for _, figures in found) for name in found[0][1]}
    return Truth(medians, {cell: figures["output_throughput"] for cell, figures in found})


@dataclass(frozen=True, slots=True)
class Seen:
    """One load point of one dose."""

    harm_percent: float
    figure: str
    """The one that is harmed most."""
    verdict: str
    blamed: frozenset[Cause]
    extra: frozenset[str]
    unknown: bool = False
    """Whether it says that the cause is between client and engine, and no more."""
    bounded: bool = False
    """Whether its p99 of TTFT has an interval, and is held against the truth."""
    floor_percent: float = 0.0
    """The harm to TTFT where it is within the floor of the rules; else 0."""
    slowed: bool = False
    """Whether the host slowed the cores."""

    @property
    def harmed(self) -> bool:
        """Beyond what may go unnoticed."""
        return self.harm_percent > HARMFUL_PERCENT

    @property
    def within_floor(self) -> bool:
        """Harmed, but by no more than the floor of the rules."""
        return not self.harmed and self.floor_percent > HARMFUL_PERCENT

    def named(self, mistake: Mistake) -> Named | None:
        """Who is blamed: rightly, only the cause, or none of the others where it is the server;
        None where nobody needs to be. Whoever says that it is not known clears the client, which is
        wrong where it is the client."""
        if mistake.cause is None or not self.harmed or self.verdict == "Valid":
            return None
        if self.blamed == {mistake.cause} - {"server"}:
            return "rightly"
        if self.blamed:
            return "wrongly"
        if self.unknown:
            return "wrongly" if mistake.cause == "client" else "unknown"
        return "nobody"


def seen(
    mistake: Mistake, outcome: Outcome, truth: Truth, slowed: Callable[[StageRecord], bool]
) -> Iterator[Seen]:
    """What came of a dose, load point by load point. Where the host slowed the cores, the client
    was late indeed: that it is named beside another counts neither for nor against."""
    late = {record.stage_id.rpartition("/")[0] for record in outcome.records if slowed(record)}
    severe = {finding.code for finding in outcome.judged.findings if finding.severity != "Note"}
    for row in outcome.judged.results:
        codes = frozenset(severe.intersection(row.findings))
        if row.cell in late and mistake.cause != "client" and codes != LATE:
            codes -= LATE
        harms = [_harm(name, row, value) for name, value in truth.of(row).items()]
        worst = max(
            (harm for harm in harms if not harm.within_floor), key=lambda harm: harm.percent
        )
        yield Seen(
            harm_percent=worst.percent,
            figure=worst.figure,
            verdict=row.verdict,
            blamed=frozenset(CAUSES[code] for code in codes if code in CAUSES),
            extra=codes - mistake.expected,
            unknown=UNKNOWN in codes,
            bounded="p99_ttft_ms" in row.intervals,
            floor_percent=max((harm.percent for harm in harms if harm.within_floor), default=0.0),
            slowed=row.cell in late,
        )


class _Harm(NamedTuple):
    figure: str
    percent: float
    within_floor: bool


def _harm(name: str, row: Result, truth: float) -> _Harm:
    told = row.figure(name)
    if told is None or name in row.uncertain:
        return _Harm(
            name, 0.0, within_floor=False
        )  # what the row itself says is not to be relied on misleads nobody
    difference = abs(told - truth)
    forgiven = difference <= FORGIVEN_MS.get(name, 0.0)
    percent = 0.0 if forgiven else 100 * difference / truth
    return _Harm(
        name, percent, within_floor="ttft" in name and not forgiven and difference <= FLOOR_MS
    )


@dataclass(frozen=True, slots=True)
class Tally:
    """Over all doses."""

    harmful_unnoticed_percent: float
    """Of the load points of one dose, those that are Valid with a headline figure off by more than
    5 %: of the worst mistake and dose."""
    harmful_unnoticed_mean_percent: float
    """Of all harmed load points."""
    harmed: int
    within_floor: int
    within_floor_unnoticed: int
    """Load points with more than 5 % harm to TTFT, but no more than the floor of the rules; and
    those of them that are Valid."""
    p99_bounded: int
    """Load points whose p99 is held against the truth."""
    p99_bounded_or_slowed: int
    """Those, and others of the fast server that the host slowed, whose p99 then rests on too
    little."""
    extra_findings: int
    named: int
    """Harmed load points that are not Valid and whose cause is client, path or front end: what the
    next three are shares of."""
    named_rightly_percent: float
    """Of those that do not say, with reason, that it is not known."""
    named_unknown_percent: float
    nobody_named_percent: float
    server_blames_others_percent: float
    """Of harmed load points that are not Valid and whose cause is the server."""


Dose = tuple[str, str, float]
"""The mistake's name, the place's, and how much."""


def tally(found: Mapping[Dose, Sequence[Seen]], *, say: Callable[[str], None]) -> Tally:
    """All doses in a few figures."""
    mistakes = {mistake.name: mistake for mistake in MISTAKES}
    worst, extra, harmed = 0.0, 0, Counter[bool]()
    named, of_server = Counter[str](), Counter[str]()
    for (name, place, dose), cells in found.items():
        mistake = mistakes[name]
        unnoticed = [cell.harmed and cell.verdict == "Valid" for cell in cells]
        words = [word for cell in cells if (word := cell.named(mistake)) is not None]
        harmed.update(u for u, cell in zip(unnoticed, cells, strict=True) if cell.harmed)
        (of_server if mistake.cause == "server" else named).update(words)
        extra += sum(len(cell.extra) for cell in cells)
        worst = max(worst, 100 * fmean(unnoticed) if cells else 0.0)
        marks = ("wrongly", "MISNAMED"), ("nobody", "nobody"), ("unknown", "unknown")
        heading = (
            "UNNOTICED"
            if any(unnoticed)
            else next((mark for word, mark in marks if word in words), "ok")
        )
        say(f"  {heading} {name} {dose:g} ({place}): {[_in_words(cell) for cell in cells]}")
    every = [cell for cells in found.values() for cell in cells]
    return Tally(
        harmful_unnoticed_percent=worst,
        harmful_unnoticed_mean_percent=100 * harmed[True] / max(1, harmed.total()),
        harmed=harmed.total(),
        within_floor=sum(cell.within_floor for cell in every),
        within_floor_unnoticed=sum(cell.within_floor and cell.verdict == "Valid" for cell in every),
        p99_bounded=sum(cell.bounded for cell in every),
        p99_bounded_or_slowed=sum(
            cell.bounded or (cell.slowed and place == FAST.name)
            for (_, place, _), cells in found.items()
            for cell in cells
        ),
        extra_findings=extra,
        named=named.total(),
        named_rightly_percent=100 * named["rightly"] / max(1, named.total() - named["unknown"]),
        named_unknown_percent=_share(named, "unknown"),
        nobody_named_percent=_share(named, "nobody"),
        server_blames_others_percent=_share(of_server, "wrongly"),
    )


def _share(of: Counter[str], word: str) -> float:
    return 100 * of[word] / max(1, of.total())


def _in_words(cell: Seen) -> str:
    blamed = ",".join(sorted(cell.blamed)) or "nobody"
    extra = f" extra {','.join(sorted(cell.extra))}" if cell.extra else ""
    extra += f" (within the floor: {cell.floor_percent:.1f} %)" if cell.floor_percent else ""
    return f"{cell.figure} off {cell.harm_percent:.1f} % {cell.verdict} blames {blamed}{extra}"
