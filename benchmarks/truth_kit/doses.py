"""Each mistake at two doses, with the harm that each does to the headline figures.

No load point may be Valid and wrong. Beside the doses of a mistake, in the same minutes, a clean
twin is measured: the same requests at the same instants, without the mistake. Harm is how much a
load point's figures differ from the twin's, so it is measured, not assumed. A finding that a clean
twin of those minutes has, too, may be the host's: it names no cause.
"""

from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from benchrun.api import Result, Severity

from truth_kit.lab import Experiment, Outcome
from truth_kit.mistakes import counting_codes, open_loop
from truth_kit.physical import Standstill

Cause = Literal["client", "path", "frontend", "server"]
Named = Literal["rightly", "wrongly", "unknown", "nobody"]
Beside = Literal["none", "few", "alike", "any"]
"""Experiments that may run beside this one: none; one more; only those that compete for the cores
in the same way; or any, because its client and servers run ahead of all processes."""
AHEAD: Collection[Beside] = ("any", "few")
"""Values with which client and servers run ahead of all processes."""
CAUSES: Mapping[str, Cause] = {
    "ClientSaturated": "client",
    "ClientThrottled": "client",
    "PathSlow": "path",
    "FrontendSaturated": "frontend",
}
"""Code -> the cause that it blames. A finding that blames none is about the server, about the load,
or says that it does not know."""
UNKNOWN = "ClientServerGap"
"""Code for a delay between client and engine that is not the client's, with nothing more known."""
RATE = "15"
SECONDS = 11.5
OUTPUT_TOKENS = 24
SERVER = (
    "--sim-ttft-ms=100",
    "--sim-tpot-ms=10",
    "--sim-prefill-us-per-token=200",
    "--sim-tpot-us-per-running=200",
)
"""TTFT is 113 ms, 13 ms of which are the prefill of 64 tokens. 5 % of it are more than the 5 ms
that the rules tolerate."""
HARMFUL_PERCENT = 5.0
HEADLINE = ("output_throughput", "mean_ttft_ms", "mean_tpot_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A mistake, at a small and at a large dose."""

    name: str
    doses: Sequence[float]
    with_dose: Callable[[float], Mapping[str, Any]]
    """Return the changed fields of the experiment for a dose; `flags` are added to the server's."""
    expected: frozenset[str]
    """Findings that name the mistake, and those that it causes as well. Others of severity Suspect
    or Invalid are extra."""
    also: Mapping[str, Any] = field(default_factory=dict)
    """Changed fields of the twin's experiment and of the experiments of all doses."""
    cause: Cause | None = None
    """The part to blame; None: none in particular."""
    load_points: int = 1
    """Number of load points of a dose."""
    prompt_tokens: int = 64
    beside: Beside = "any"

    def twin(self) -> Experiment:
        """Return the experiment with the same load and without the mistake."""
        return self._experiment("twin", {})

    def dosed(self, dose: float) -> Experiment:
        """Return the experiment with the mistake at this dose."""
        return self._experiment(f"{dose:g}", self.with_dose(dose))

    def _experiment(self, suffix: str, changed: Mapping[str, Any]) -> Experiment:
        values = {**self.also, **changed}
        flags = values.pop("flags", ())
        random = {"inputTokens": self.prompt_tokens, "outputTokens": OUTPUT_TOKENS}
        workload = {**open_loop(RATE, SECONDS), "dataset": {"random": random}}
        return Experiment(
            name=f"{self.name} {suffix}",
            workloads=[
                {**workload, "name": f"w{number}"}
                for number in range(self.load_points)
            ],
            servers=((*SERVER, *flags),),
            traffic="doses",
            about_seconds=self.load_points * SECONDS,
            **{
                "measurement": WARM,
                "client_ahead": self.beside in AHEAD,
                "servers_ahead": self.beside in AHEAD,
                **values,
            },
        )


WARM: Mapping[str, Any] = {"warmup": {"auto": {}}, "order": "AsListed"}
COLD: Mapping[str, Any] = {"measurement": {**WARM, "warmup": {"none": {}}}}
_GAP = frozenset({"ClientServerGap", "LittlesLawBroken"})
_CLIENT = frozenset(
    {
        "ClientSaturated",
        "ClientThrottled",
        "RateNotAchieved",
        "NotSteadyState",
        "LittlesLawBroken",
    }
)
_SERVER = frozenset({"NotSteadyState", "RepeatsDisagree", "Drift"})


def _stop(seconds: float) -> Standstill:
    return Standstill(4.0, 4.0 + seconds)


MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        name="client with a share of a core",
        doses=(0.2, 0.07),
        with_dose=lambda share: {"client_cpu_share": share},
        also={"client_cpu_share": 1.0, "servers_ahead": True},
        expected=_CLIENT,
        cause="client",
        load_points=2,
        beside="alike",
    ),
    Mistake(
        name="client stands still for s",
        doses=(0.15, 0.8),
        with_dose=lambda seconds: {"client_stopped": _stop(seconds)},
        expected=_CLIENT,
        cause="client",
    ),
    Mistake(
        name="neighbours that burn cores",
        doses=(2, 8),
        with_dose=lambda count: {"neighbours": int(count)},
        expected=_CLIENT
        | _SERVER
        | _GAP
        | {"FrontendSaturated", "ServerThrottled"},
        beside="none",
    ),
    Mistake(
        name="path of ms each way",
        doses=(3, 20),
        with_dose=lambda delay: {"path_delay_ms": delay},
        expected=_GAP | {"PathSlow"},
        cause="path",
        # The delaying process takes a core from other experiments' clients, as no wire would.
        beside="few",
    ),
    Mistake(
        name="path that loses percent",
        doses=(0.3, 3),
        with_dose=lambda percent: {"path_loss_percent": percent},
        expected=_GAP | {"PathSlow"},
        cause="path",
        # All experiments share a network namespace, and with it the count of lost packets.
        beside="none",
    ),
    Mistake(
        name="front end takes ms a request",
        doses=(10, 50),
        # The front end must not take the client's core.
        with_dose=lambda busy: {"flags": (f"--sim-frontend-ms={busy}",)},
        also={"client_ahead": True},
        expected=_GAP | {"FrontendSaturated", "NotSteadyState"},
        cause="frontend",
        beside="none",
    ),
    Mistake(
        name="server with a share of a core",
        doses=(0.06, 0.02),
        with_dose=lambda share: {"server_cpu_share": share},
        also={"server_cpu_share": 1.0, "client_ahead": True},
        expected=_SERVER | _GAP | {"FrontendSaturated", "ServerThrottled"},
        beside="alike",
    ),
    Mistake(
        name="server stands still for s",
        doses=(0.15, 0.8),
        with_dose=lambda seconds: {"server_stopped": _stop(seconds)},
        expected=_SERVER | _GAP | {"FrontendSaturated"},
    ),
    Mistake(
        name="chat template of tokens",
        doses=(8, 128),
        with_dose=lambda tokens: {"flags": (f"--sim-template-tokens={tokens:g}",)},
        expected=frozenset(
            {"ForeignTraffic", "PrefixCacheContaminated", "PromptTokensDisagree"}
        ),
        cause="server",
    ),
    Mistake(
        name="foreign requests a second",
        doses=(0.5, 8),
        with_dose=lambda rate: {
            "flags": (
                f"--sim-foreign-rate={rate}",
                "--sim-foreign-output-tokens=64",
            )
        },
        expected=frozenset({"ForeignTraffic", "LittlesLawBroken"}),
        cause="server",
    ),
    Mistake(
        name="foreign cache hits percent",
        doses=(4, 25),
        with_dose=lambda percent: {
            "flags": (f"--sim-foreign-hits-percent={percent}",)
        },
        expected=frozenset({"PrefixCacheContaminated"}),
        prompt_tokens=512,
        cause="server",
    ),
    Mistake(
        name="cold start of ms",
        doses=(120, 1000),
        with_dose=lambda cold: {
            "flags": ("--sim-cold-requests=5", f"--sim-cold-ms={cold}")
        },
        also=COLD,
        expected=frozenset({"ColdStart", "NotSteadyState"}),
        cause="server",
    ),
    Mistake(
        name="compiling for ms",
        doses=(60, 400),
        with_dose=lambda long: {
            "flags": ("--sim-jit-at-request=100", f"--sim-jit-ms={long}")
        },
        expected=frozenset({"CompilationInWindow"}),
        cause="server",
    ),
    Mistake(
        name="slower by percent a second",
        doses=(1, 5),
        with_dose=lambda percent: {
            "flags": (f"--sim-slowdown-percent-per-second={percent}",)
        },
        also=COLD,
        expected=_SERVER,
        cause="server",
    ),
    Mistake(
        name="answers of percent",
        doses=(96, 85),
        with_dose=lambda percent: {"flags": (f"--sim-output-percent={percent}",)},
        expected=frozenset({"OutputTooShort"}),
        cause="server",
    ),
    Mistake(
        name="usage of percent",
        doses=(97, 85),
        with_dose=lambda percent: {"flags": (f"--sim-usage-percent={percent}",)},
        expected=frozenset({"TokenCountsDisagree", "OutputTooShort"}),
        cause="server",
    ),
    Mistake(
        name="failed requests percent",
        doses=(1, 8),
        with_dose=lambda percent: {"flags": (f"--sim-error-percent={percent}",)},
        expected=frozenset({"RequestsFailed"}),
        cause="server",
    ),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One load point of one dose."""

    harm_percent: float
    figure: str
    """Name of the figure with the largest harm."""
    codes: frozenset[str]
    """Codes of Suspect and Invalid findings that no clean twin has as severely."""
    shared: frozenset[str] = frozenset()
    """Codes of Suspect and Invalid findings that a clean twin has as severely."""

    @property
    def harmed(self) -> bool:
        """Return whether a figure is off by more than may go unnoticed."""
        return self.harm_percent > HARMFUL_PERCENT

    @property
    def unnoticed(self) -> bool:
        """Return whether the load point is harmed, and Valid."""
        return self.harmed and not self.codes | self.shared

    @property
    def blamed(self) -> frozenset[Cause]:
        """Return the causes that its findings blame."""
        return frozenset(CAUSES[code] for code in self.codes if code in CAUSES)

    def named(self, mistake: Mistake) -> Named | None:
        """Return how the findings name the mistake's cause.

        They name it "rightly" when they blame only the cause, or none of the others where it is the
        server. None means that no cause needs to be named, or that the right one is blamed at a
        twin, too. A finding that the cause is not known clears the client, which is wrong where it
        is the client.
        """
        if mistake.cause is None or not self.harmed or not self.codes:
            return None
        if (
            any(CAUSES.get(code) == mistake.cause for code in self.shared)
            or UNKNOWN in self.shared
        ):
            return None
        if self.blamed == {mistake.cause} - {"server"}:
            return "rightly"
        if self.blamed:
            return "wrongly"
        if UNKNOWN in self.codes:
            return "wrongly" if mistake.cause == "client" else "unknown"
        return "nobody"


def seen(
    outcome: Outcome, twin: Outcome, others: Iterable[Outcome] = ()
) -> Iterator[Seen]:
    """Yield the results of a dose, load point by load point.

    `others` holds the clean twins of other mistakes in the same minutes.
    """
    severities = _severities(outcome)
    counting = counting_codes(severities, *map(_severities, (twin, *others)))
    severe = {code for code, severity in severities.items() if severity != "Note"}
    twins = {row.load_point: row for row in twin.judged.results}
    for row in outcome.judged.results:
        harms = {
            name: _harm_percent(name, row, twins[row.load_point])
            for name in HEADLINE
        }
        worst = max(harms, key=harms.__getitem__)
        found = severe.intersection(row.findings)
        yield Seen(
            harms[worst],
            worst,
            frozenset(found & counting),
            frozenset(found - counting),
        )


def _severities(outcome: Outcome) -> Mapping[str, Severity]:
    return {finding.code: finding.severity for finding in outcome.judged.findings}


def _harm_percent(name: str, row: Result, twin: Result) -> float:
    told = row.figure(name)
    true = twin.figure(name)
    if told is None or not true or name in row.uncertain:
        return 0.0  # The row itself calls the figure uncertain, so it does no harm.
    return 100 * abs(told - true) / true


@dataclass(frozen=True, slots=True)
class Tally:
    """The figures over all doses."""

    harmful_unnoticed_percent: float
    """Share of the load points of one dose that are Valid with a headline figure off by more than
    5 %, for the worst mistake and dose."""
    harmful_unnoticed_mean_percent: float
    """Share of all harmed load points that are Valid."""
    harmed: int
    undecided: int
    """Number of harmed load points whose findings a clean twin all has, too."""
    extra_findings: int
    named: int
    """Number of harmed load points with a finding and with client, path or front end as the cause:
    the base of the next three shares."""
    named_rightly_percent: float
    """Share whose findings name the right cause, among those that do not say, with reason, that the
    cause is not known."""
    named_unknown_percent: float
    nobody_named_percent: float
    server_blames_others_percent: float
    """Share of harmed load points with a finding and with the server as the cause, whose findings
    blame another part."""


Dose = tuple[str, float]
"""Name of the mistake, and the size of the dose."""


def tally(
    found: Mapping[Dose, Sequence[Seen]], *, say: Callable[[str], None]
) -> Tally:
    """Sum up all doses in a few figures."""
    mistakes = {mistake.name: mistake for mistake in MISTAKES}
    worst = 0.0
    extra = 0
    harmed = Counter[bool]()
    named = Counter[str]()
    of_server = Counter[str]()
    for (name, dose), load_points in found.items():
        mistake = mistakes[name]
        words = [
            word
            for load_point in load_points
            if (word := load_point.named(mistake)) is not None
        ]
        harmed.update(
            load_point.unnoticed for load_point in load_points if load_point.harmed
        )
        (of_server if mistake.cause == "server" else named).update(words)
        extra += sum(
            len(load_point.codes - mistake.expected) for load_point in load_points
        )
        worst = max(
            worst,
            100 * fmean(load_point.unnoticed for load_point in load_points)
            if load_points
            else 0.0,
        )
        marks = (
            ("wrongly", "MISNAMED"),
            ("nobody", "nobody"),
            ("unknown", "unknown"),
        )
        heading = (
            "UNNOTICED"
            if any(load_point.unnoticed for load_point in load_points)
            else next((mark for word, mark in marks if word in words), "ok")
        )
        say(
            f"  {heading} {name} {dose:g}: {[_in_words(load_point) for load_point in load_points]}"
        )
    known = named.total() - named["unknown"]
    return Tally(
        harmful_unnoticed_percent=worst,
        harmful_unnoticed_mean_percent=100 * harmed[True] / max(1, harmed.total()),
        harmed=harmed.total(),
        undecided=sum(
            bool(load_point.harmed and load_point.shared and not load_point.codes)
            for load_points in found.values()
            for load_point in load_points
        ),
        extra_findings=extra,
        named=named.total(),
        named_rightly_percent=100 * named["rightly"] / known if known else 100.0,
        named_unknown_percent=_share(named, "unknown"),
        nobody_named_percent=_share(named, "nobody"),
        server_blames_others_percent=_share(of_server, "wrongly"),
    )


def _share(of: Counter[str], word: str) -> float:
    return 100 * of[word] / max(1, of.total())


def _in_words(load_point: Seen) -> str:
    codes = ", ".join(sorted(load_point.codes)) or "Valid"
    return f"{load_point.figure} off {load_point.harm_percent:.1f} %: {codes}"
