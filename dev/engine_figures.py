"""The table of server figures by engine, for `docs/engines.md`: has it, or absent."""

from benchrun.api.server_figures import ROLE_FIGURES, RoleFigures
from benchrun_client.contract import START_TIME
from benchrun_client.engines import ENGINES, Engine

HAS = "yes"
ABSENT = "-"
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
    """Return the table as Markdown."""
    names = sorted(ENGINES, key=lambda name: (name != "VLLM", ENGINES[name].name))
    engines = [ENGINES[name] for name in names]
    head = " | ".join(engine.name for engine in engines)
    rows = [*_figures(engines), *_counters(engines), _starts(engines)]
    return (
        f"| of a server | {head} |\n|---|{'---|' * len(engines)}\n{''.join(rows)}"
    )


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
    cells = " | ".join(HAS if each else ABSENT for each in has)
    return f"| {about.rstrip('.')} | {cells} |\n"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
