"""The tables of settings, figures and findings by engine, for `docs/engines.md`.

An engine has a figure, has it from answers, or lacks it; a setting has flags, or is reported.

Which findings an engine allows is judged: the rules read a record and samples that have everything
an engine says, and what they could not check for want of it is absent.
"""

from dataclasses import replace
from typing import Any

from benchrun.api import Code, ServerStatus
from benchrun.api.server_figures import ROLE_FIGURES, SAMPLE_FIGURES, RoleFigures
from benchrun.api.status import CompiledKernels
from benchrun.judge.results import results
from benchrun_client.contract import (
    PROCESS_CPU,
    START_TIME,
    RequestColumns,
    ServerEdge,
)
from benchrun_client.engines import ENGINES, Engine, EngineName, EngineSetting
from unit.judge.specs import spec, workload
from unit.measure.records import edge, load_point, record, requests, sample, served

HAS = "yes"
ABSENT = "-"
FROM_ANSWERS = "from answers"
_OF_RECORDS = {
    "request_success_total": "Requests that have ended.",
    "generation_tokens_total": "Tokens generated.",
    "prompt_tokens_total": "Tokens of prompts.",
    "request_queue_time_seconds_sum": "How long requests waited.",
    "time_to_first_token_seconds_sum": "Time to first token, by the server.",
    "finished_abort_total": "Requests that were aborted.",
    "spec_decode_num_accepted_tokens_total": "Tokens that were drafted and accepted.",
    "admission_rejections_total": "Requests that were refused.",
}
"""Counters that rules and explanations read, and no figure of a row."""


def table() -> str:
    """Return both tables as Markdown."""
    engines = [ENGINES[name] for name in _names()]
    figures = [
        *_figures(engines),
        *_answers(engines),
        *_counters(engines),
        _starts(engines),
    ]
    return f"{_head('of a server')}{''.join(figures)}\n{_head('finding')}{''.join(_findings())}"


def settings_table() -> str:
    """Return the settings that are compared, with what they change and each engine's names."""
    engines = [ENGINES[name] for name in _names()]
    named = " | ".join(each.name for each in engines)
    rows = [
        _cells(
            f"{setting.value} | {', '.join(map(str.lower, setting.effects))}",
            [_said_of(setting, engine) for engine in engines],
        )
        for setting in EngineSetting
        if setting.effects
    ]
    head = f"| setting | can change | {named} |\n|---|---|{'---|' * len(engines)}\n"
    return head + "".join(rows)


def _said_of(setting: EngineSetting, engine: Engine) -> str:
    """Return the flags of a setting, and whether servers report it."""
    flags = (engine.setting_flags.get(setting), engine.flags_off.get(setting))
    parts = [f"`--{flag}`" for flag in flags if flag is not None]
    parts += ["reported"] if setting in engine.reported_settings else []
    return ", ".join(parts) or ABSENT


def _names() -> list[EngineName]:
    return sorted(ENGINES, key=lambda name: (name != "VLLM", ENGINES[name].name))


def _head(what: str) -> str:
    """Return the head of a table, and below it where each engine's names were seen."""
    engines = [ENGINES[name] for name in _names()]
    named, seen = (
        " | ".join(each)
        for each in ([e.name for e in engines], [e.seen for e in engines])
    )
    lines = (
        f"| {what} | {named} |",
        f"|---|{'---|' * len(engines)}",
        f"| seen | {seen} |",
    )
    return "".join(f"{line}\n" for line in lines)


def _findings() -> list[str]:
    unchecked = [_unchecked(name) for name in _names()]
    lacking = set().union(*unchecked)
    every = [code for code in Code if code in lacking]
    rest = len(Code) - len(every)
    return [
        *(
            _row(
                f"[{code}](findings/{code}.md)",
                [code not in of for of in unchecked],
            )
            for code in every
        ),
        _row(f"the other {rest}", [True] * len(unchecked)),
    ]


REQUESTS = 200


def _unchecked(name: EngineName) -> set[str]:
    """Return the findings that can't be checked with what two servers of this engine say.

    They are idle beside a load of ten seconds, so that nothing else is missing.
    """
    engine = ENGINES[name]
    sent = requests(
        ttft_us=[20_000] * REQUESTS,
        e2el_us=[120_000] * REQUESTS,
        output_tokens=[11] * REQUESTS,
        start_us=[50_000 * place for place in range(REQUESTS)],
    )
    edges = [
        _said(address, sent, engine) for address in ("10.0.0.8:1", "10.0.0.9:1")
    ]
    silent: dict[str, Any] = dict.fromkeys(SAMPLE_FIGURES.keys() - _samples(engine))
    samples = [
        replace(sample(1000.0 + second, pod=each.address), **silent)
        for second in range(-1, 12)
        for each in edges
    ]
    logged = (
        None if engine.compilations is None else CompiledKernels(count=0, at=[])
    )
    judged = results(
        [load_point()],
        [record(servers=tuple(edges), requests=sent)],
        samples,
        spec=spec(
            endpoint={"url": "http://server", "engine": name},
            workloads=[workload(requests=REQUESTS)],
        ),
        servers=[ServerStatus(role="server", engine=name, compilations=logged)],
    )
    told = next(
        (e.evidence for e in judged.findings if e.code == Code.NOT_CHECKED), None
    )
    return set(told or {}) & {*Code}


def _said(address: str, sent: RequestColumns, engine: Engine) -> ServerEdge:
    """Return a server of this engine that answered half of the requests, by what it counts."""
    known = _read(engine)
    if "start_time" in engine.sample_series:  # With the other series of a process.
        known |= {START_TIME, PROCESS_CPU}
    rises = {counter: total / 2 for counter, total in served(sent).items()}
    whole = edge(address, rises=rises | {PROCESS_CPU: 3.0})
    said = {
        side: {
            key: value for key, value in (counters or {}).items() if key in known
        }
        for side, counters in (("before", whole.before), ("after", whole.after))
    }
    same = {"version": "1", "settings": "digest", "models": "m"}
    return whole.model_copy(update=said | same)


def _figures(engines: list[Engine]) -> list[str]:
    found = []
    for name, figure in ROLE_FIGURES.items():
        about = RoleFigures.model_fields[name].description or name
        if figure.sample:
            each = [figure.sample in _samples(engine) for engine in engines]
        elif figure.counters:
            each = [
                any(counter in _read(engine) for counter in figure.counters)
                for engine in engines
            ]
        else:
            continue  # Computed from what does not depend on the engine.
        if any(each):
            found.append(_row(f"`{_camel(name)}`: {about}", each))
    return found


def _answers(engines: list[Engine]) -> list[str]:
    """Return the rows of what answers tell, whatever the metrics have."""
    cached = [
        FROM_ANSWERS
        if engine.cached_in_answers is None
        else f"{FROM_ANSWERS}, with `{engine.cached_in_answers}`"
        for engine in engines
    ]
    tokens = (
        "`total_input_tokens`, `total_output_tokens`: Tokens of prompts and answers"
    )
    hits = "`answers_cached_percent`: Prompt tokens found in a cache, in percent"
    return [
        _cells(tokens, [FROM_ANSWERS] * len(engines)),
        _cells(hits, cached),
    ]


def _counters(engines: list[Engine]) -> list[str]:
    return [
        _row(about, [name in _read(engine) for engine in engines])
        for name, about in _OF_RECORDS.items()
    ]


def _starts(engines: list[Engine]) -> str:
    known = [
        "start_time" in engine.sample_series or START_TIME in _read(engine)
        for engine in engines
    ]
    return _row("When its process started.", known)


def _samples(engine: Engine) -> set[str]:
    return {*engine.sample_series, *engine.sample_sums}


def _read(engine: Engine) -> set[str]:
    return {
        *engine.counter_series,
        *engine.counter_sums,
        *engine.labelled_counters,
    }


def _row(about: str, has: list[bool]) -> str:
    return _cells(about, [HAS if each else ABSENT for each in has])


def _cells(about: str, cells: list[str]) -> str:
    return f"| {about.rstrip('.')} | {' | '.join(cells)} |\n"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
