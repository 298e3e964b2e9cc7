"""`docs/museum.md`: wrong benchmarks that people have published, and who notices them.

`docs/museum.json` has the latest replay (`make bench-museum`).
"""

from collections.abc import Mapping
from typing import Any

_HEAD = """\
# The museum of wrong benchmarks

Conclusions that people published, and that were wrong: each is a public thread with figures. \
`make bench-museum` replays
what went wrong, on a [simulated server](../tests/simulator/README.md), \
through the real client and the rules, beside a clean
twin in the same minutes. A server's mistake is a flag of the simulator, \
at a size like the thread's, not the thread's own
software. What is not found stands here as silent.

- **named**: a finding says what was wrong. **flagged**: something is said to be wrong, not what. \
**silent**: nothing is said.
  **prevented**: the figure that was wrong in the thread is right here.
- **Other tools**: the same server and load through them, as installed. Flagged: it counts failed \
requests, ends without a result,
  or warns, and does not for the twin. A dash: the mistake is in another client, \
or it was not replayed through this tool yet.
- A twin that is blamed while the machine was busy (its client or server waited for a core for \
more than 2 % of the time) is
  measured again, at most three times, with the exhibits that were not named. If it is blamed \
then, too, that shows
  nothing: on a busy host a client is late.

"""
TOOLS = {
    "vllm": "vllm bench 0.32",
    "guidellm": "guidellm 0.8.1",
    "aiperf": "AIPerf 0.13.0",
    "inference-perf": "inference-perf 0.7.0",
}

UNKNOWN_ALARMS = (
    " So this replay does not show how often a clean benchmark is blamed."
)


def museum_text(found: Mapping[str, Any]) -> str:
    """Return the page: the counts, the table, and what does not happen by default."""
    figures = found["figures"]
    exhibits = found["exhibits"]
    parts = (
        _HEAD,
        _counts(figures),
        _table(exhibits),
        _twins(exhibits),
        _defaults(exhibits),
    )
    return "".join(parts)


def _counts(figures: Mapping[str, int]) -> str:
    ours = (
        f"Of {figures['exhibits']} exhibits {figures['replayed']} were replayed so far. Of these "
        f"benchrun names {figures['named']}, flags "
        f"{figures['flagged']}, prevents {figures['prevented']} and misses "
        f"{figures['silent']}.\nOf {figures['twins']} clean twins {figures['calm_twins']} were "
        f"measured on a host that was not busy: {figures['false_alarms']} findings blame them. "
        f"{figures['busy_alarms']} blame the others, on a\nbusy host, and may be right."
        f"{'' if figures['calm_twins'] else UNKNOWN_ALARMS}\n\n"
    )
    theirs = "".join(
        f"- {title}: flags {figures[f'named_by_{tool}']} of the "
        f"{figures[f'replayed_by_{tool}']} that were replayed through it.\n"
        for tool, title in TOOLS.items()
    )
    return f"{ours}{theirs}\n"


def _table(exhibits: list[Mapping[str, Any]]) -> str:
    columns = (
        "thread",
        "what was told",
        "replayed",
        "benchrun",
        "findings",
        *TOOLS.values(),
    )
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "".join(map(_row, exhibits))


def _row(each: Mapping[str, Any]) -> str:
    name, number = each["thread"].split("#")
    link = f"[{each['thread']}](https://github.com/{name}/issues/{number})"
    said = ", ".join(f"[{code}](findings/{code}.md)" for code in each["said"])
    cells = (
        link,
        each["told"],
        each["replay"],
        each["ours"] or "not replayed yet",
        said or "-",
        *(each["theirs"].get(tool, "-") for tool in TOOLS),
    )
    return f"| {' | '.join(cells)} |\n"


def _twins(exhibits: list[Mapping[str, Any]]) -> str:
    """Return a list of the twins that are blamed, with how busy the machine was."""
    blamed = {each["twin"]: each for each in exhibits if each["alarms"]}
    if not blamed:
        return ""
    lines = "".join(
        f"- {twin}: {', '.join(each['alarms'])}; its client or server waited for a core in "
        f"{each['waited_percent']:g} % of the time.\n"
        for twin, each in blamed.items()
    )
    return f"\nClean twins that are blamed:\n\n{lines}"


def _defaults(exhibits: list[Mapping[str, Any]]) -> str:
    """Return a list of what has to be asked for before it can happen."""
    kept = [each for each in exhibits if each["by_default"]]
    if not kept:
        return ""
    lines = "".join(f"- {each['thread']}: {each['by_default']}.\n" for each in kept)
    return f"\nThese happen in benchrun only where a run asks for them:\n\n{lines}"
