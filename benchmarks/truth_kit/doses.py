"""Each mistake at five doses, with the harm that each does to the headline figures: no load point may be Valid and wrong.

Harm is the difference between a figure of the row and the same figure without the mistake, as the server's own log has it for
runs without any. What a dose harms is thus measured, not assumed.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Literal

from benchrun.api import Result

from truth_kit.lab import Experiment, Failed, Outcome
from truth_kit.mistakes import open_loop
from truth_kit.physical import Standstill
from truth_kit.timing import Figures, true_figures

Cause = Literal["client", "path", "frontend", "server"]
Named = Literal["rightly", "wrongly", "nobody"]
Beside = Literal["none", "alike", "any"]
"""What may run beside an experiment: nothing; only those that compete for the cores as it does; or any, since its client and
servers run ahead of all processes."""
CAUSES: Mapping[str, Cause] = {
    "ClientSaturated": "client", "ClientThrottled": "client", "PathSlow": "path", "FrontendSaturated": "frontend",
}  # fmt: skip
"""Codes that blame one of them; a finding that blames none is about the server, about the load, or says that it does not know."""
RATE, SECONDS = "15", 12.0
TTFT_MS, TPOT_MS, PREFILL_US = 100, 10, 200
"""The prefill is a fifth of a ms a token: 64 tokens take 13 ms of the 113."""
SERVER = (
    *(f"--sim-ttft-ms={TTFT_MS}", f"--sim-tpot-ms={TPOT_MS}", f"--sim-prefill-us-per-token={PREFILL_US}"),
    "--sim-tpot-us-per-running=200",
)
CELLS = 2
"""Of a dose."""
HARMFUL_PERCENT = 5.0
FORGIVEN_MS: Mapping[str, float] = {"mean_ttft_ms": 1.0, "mean_tpot_ms": 0.2, "p99_ttft_ms": 5.0}
"""What the machine itself may add on the way; a p99 of 180 requests is the second slowest of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """What goes wrong, from hardly to badly."""

    name: str
    doses: Sequence[float]
    with_dose: Callable[[float], Mapping[str, Any]]
    """Changed fields of the experiment; `flags` are added to the server's."""
    expected: frozenset[str]
    """Findings that say what is wrong, and those that it brings with it. Others of severity Suspect or Invalid are extra."""
    cause: Cause | None = None
    """Who is to blame; None: nobody in particular."""
    cells: int = CELLS
    prompt_tokens: int = 64
    beside: Beside = "any"

    def experiment(self, dose: float) -> Experiment:
        """The mistake at this dose."""
        values = dict(self.with_dose(dose))
        flags = values.pop("flags", ())
        data = {"random": {"inputTokens": self.prompt_tokens, "outputTokens": 24}}
        workloads = [
            {**open_loop(RATE, SECONDS), "dataset": data, "name": f"w{number}"} for number in range(self.cells)
        ]
        return Experiment(
            name=f"{self.name} {dose:g}",
            workloads=workloads,
            servers=((*SERVER, *flags),),
            **{
                "measurement": WARM,
                "client_ahead": self.beside == "any",
                "servers_ahead": self.beside == "any",
                **values,
            },
        )


WARM: Mapping[str, Any] = {"warmup": {"auto": {}}, "order": "AsListed"}
PROMPTS = (64, 512)
"""Tokens; each length has its own truth."""
REFERENCES = tuple(
    Mistake(
        name=f"nothing, {tokens} tokens",
        doses=(0,),
        with_dose=lambda _: {},
        expected=frozenset(),
        prompt_tokens=tokens,
        cells=5,
    )
    for tokens in PROMPTS
)
_GAP = frozenset({"ClientServerGap", "LittlesLawBroken"})
_CLIENT = frozenset({"ClientSaturated", "ClientThrottled", "RateNotAchieved", "NotSteadyState", "LittlesLawBroken"})
_SERVER = frozenset({"NotSteadyState", "RepeatsDisagree", "Drift"})


def _stop(seconds: float) -> Standstill:
    return Standstill(4.0, 4.0 + seconds)


MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        name="client with a share of a core",
        doses=(0.5, 0.3, 0.2, 0.12, 0.07),
        with_dose=lambda share: {"client_cpu_share": share},
        expected=_CLIENT,
        cause="client",
        beside="alike",
    ),
    Mistake(
        name="client stands still for s",
        doses=(0.05, 0.15, 0.4, 0.8, 1.5),
        with_dose=lambda seconds: {"client_stopped": _stop(seconds)},
        expected=_CLIENT,
        cause="client",
        cells=1,
    ),
    Mistake(
        name="neighbours that burn cores",
        doses=(1, 2, 4, 8, 16),
        with_dose=lambda count: {"neighbours": int(count)},
        expected=_CLIENT | _SERVER | _GAP | {"FrontendSaturated"},
        cells=1,
        beside="none",
    ),
    Mistake(
        name="path of ms each way",
        doses=(1, 3, 8, 20, 60),
        with_dose=lambda delay: {"path_delay_ms": delay},
        expected=_GAP | {"PathSlow"},
        cause="path",
        beside="alike",
    ),
    Mistake(
        name="path that loses percent",
        doses=(0.03, 0.1, 0.3, 1, 3),
        with_dose=lambda percent: {"path_loss_percent": percent},
        expected=_GAP | {"PathSlow"},
        cause="path",
    ),
    Mistake(
        name="front end takes ms a request",
        doses=(2, 10, 30, 50, 60),
        with_dose=lambda busy: {"flags": (f"--sim-frontend-ms={busy}",)},
        expected=_GAP | {"FrontendSaturated", "NotSteadyState"},
        cause="frontend",
        cells=1,
        beside="none",
    ),
    Mistake(
        name="server with a share of a core",
        doses=(0.3, 0.12, 0.06, 0.03, 0.02),
        with_dose=lambda share: {"server_cpu_share": share, "client_ahead": True},
        expected=_SERVER | _GAP | {"FrontendSaturated"},
        beside="alike",
    ),
    Mistake(
        name="server stands still for s",
        doses=(0.05, 0.15, 0.4, 0.8, 1.5),
        with_dose=lambda seconds: {"server_stopped": _stop(seconds)},
        expected=_SERVER | _GAP | {"FrontendSaturated"},
        cells=1,
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
        with_dose=lambda rate: {"flags": (f"--sim-foreign-rate={rate}", "--sim-foreign-output-tokens=64")},
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
        with_dose=lambda cold: {
            "flags": ("--sim-cold-requests=5", f"--sim-cold-ms={cold}"),
            "measurement": {**WARM, "warmup": {"none": {}}},
        },
        expected=frozenset({"ColdStart", "NotSteadyState"}),
        cause="server",
        cells=1,
    ),
    Mistake(
        name="compiling for ms",
        doses=(20, 60, 150, 400, 1000),
        with_dose=lambda long: {"flags": ("--sim-jit-at-request=100", f"--sim-jit-ms={long}")},
        expected=frozenset({"CompilationInWindow"}),
        cause="server",
        cells=1,
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
        cells=1,
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


def truths(outcome: Outcome) -> Figures:
    """The headline figures without a mistake, by the server's own log: of several stages the median."""
    found = list(true_figures(outcome))
    if not found:
        raise Failed(f"no stage of {outcome.spec.workloads[0].name} is whole in the server's log")
    return {name: median(figures[name] for figures in found) for name in found[0]}


@dataclass(frozen=True, slots=True)
class Seen:
    """One load point of one dose."""

    harm_percent: float
    figure: str
    """The one that is harmed most."""
    verdict: str
    blamed: frozenset[Cause]
    extra: frozenset[str]

    @property
    def harmed(self) -> bool:
        """Beyond what may go unnoticed."""
        return self.harm_percent > HARMFUL_PERCENT

    def named(self, mistake: Mistake) -> Named | None:
        """Who is blamed: rightly, only the cause, or none of the others where it is the server; None where nobody needs to be."""
        if mistake.cause is None or not self.harmed or self.verdict == "Valid":
            return None
        if self.blamed == {mistake.cause} - {"server"}:
            return "rightly"
        return "wrongly" if self.blamed else "nobody"


def seen(mistake: Mistake, outcome: Outcome, truth: Figures) -> Iterator[Seen]:
    """What came of a dose, load point by load point."""
    severe = {finding.code for finding in outcome.judged.findings if finding.severity != "Note"}
    for row in outcome.judged.results:
        codes = frozenset(severe.intersection(row.findings))
        harm, figure = max((_harm(name, row, value), name) for name, value in truth.items())
        blamed = frozenset(CAUSES[code] for code in codes if code in CAUSES)
        yield Seen(harm, figure, row.verdict, blamed, codes - mistake.expected)


def _harm(name: str, row: Result, truth: float) -> float:
    told = row.metrics.get(name)
    if told is None or name in row.uncertain:
        return 0.0  # what the row itself says is not to be relied on misleads nobody
    difference = abs(told - truth)
    return 0.0 if difference <= FORGIVEN_MS.get(name, 0.0) else 100 * difference / truth


@dataclass(frozen=True, slots=True)
class Tally:
    """Over all doses."""

    harmful_unnoticed_percent: float
    """Of the load points of one dose, those that are Valid with a headline figure off by more than 5 %: of the worst mistake and dose."""
    harmful_unnoticed_mean_percent: float
    """Of all harmed load points."""
    harmed: int
    extra_findings: int
    named_rightly_percent: float
    """Of harmed load points that are not Valid and blame somebody."""
    nobody_named_percent: float
    """Of harmed load points that are not Valid."""


def tally(found: Mapping[tuple[str, float], Sequence[Seen]], *, say: Callable[[str], None]) -> Tally:
    """All doses in a few figures."""
    mistakes = {mistake.name: mistake for mistake in MISTAKES}
    worst, named, extra, harmed = 0.0, Counter[str](), 0, Counter[bool]()
    for (name, dose), cells in found.items():
        unnoticed = [cell.harmed and cell.verdict == "Valid" for cell in cells]
        words = [word for cell in cells if (word := cell.named(mistakes[name])) is not None]
        harmed.update(u for u, cell in zip(unnoticed, cells, strict=True) if cell.harmed)
        named.update(words)
        extra += sum(len(cell.extra) for cell in cells)
        worst = max(worst, 100 * fmean(unnoticed) if cells else 0.0)
        heading = (
            "UNNOTICED"
            if any(unnoticed)
            else "MISNAMED"
            if "wrongly" in words
            else "nobody"
            if "nobody" in words
            else "ok"
        )
        say(f"  {heading} {name} {dose:g}: {[_in_words(cell) for cell in cells]}")
    return Tally(
        harmful_unnoticed_percent=worst,
        harmful_unnoticed_mean_percent=100 * harmed[True] / max(1, harmed.total()),
        harmed=harmed.total(),
        extra_findings=extra,
        named_rightly_percent=100 * named["rightly"] / max(1, named["rightly"] + named["wrongly"]),
        nobody_named_percent=100 * named["nobody"] / max(1, named.total()),
    )


def _in_words(cell: Seen) -> str:
    blamed = ",".join(sorted(cell.blamed)) or "nobody"
    extra = f" extra {','.join(sorted(cell.extra))}" if cell.extra else ""
    return f"{cell.figure} off {cell.harm_percent:.1f} % {cell.verdict} blames {blamed}{extra}"
