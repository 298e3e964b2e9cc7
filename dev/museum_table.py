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
- **vllm bench**: the same server and load through `vllm bench serve` of 0.32. Flagged: it counts \
failed requests, ends without
  a result, or warns, and does not for the twin. A dash: the mistake is in another client.

"""
_COLUMNS = (
    "| thread | what was told | replayed | benchrun | findings | vllm bench |\n"
    "|---|---|---|---|---|---|\n"
)


def museum_text(found: Mapping[str, Any]) -> str:
    """Return the page: the counts, the table, and what does not happen by default."""
    figures = found["figures"]
    rows = "".join(map(_row, found["exhibits"]))
    return f"{_HEAD}{_counts(figures)}\n\n{_COLUMNS}{rows}{_defaults(found['exhibits'])}"


def _counts(figures: Mapping[str, int]) -> str:
    return (
        f"Of {figures['exhibits']} exhibits {figures['replayed']} were replayed so far. Of these "
        f"benchrun names {figures['named']}, flags "
        f"{figures['flagged']}, prevents {figures['prevented']} and misses "
        f"{figures['silent']};\nof {figures['twins']} clean twins it blames "
        f"{figures['false_alarms']}.\n`vllm bench serve` flags {figures['named_by_vllm']} of the "
        f"{figures['vllm_exhibits']} that it can replay."
    )


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
        each["vllm"] or "-",
    )
    return f"| {' | '.join(cells)} |\n"


def _defaults(exhibits: list[Mapping[str, Any]]) -> str:
    """Return a list of what has to be asked for before it can happen."""
    kept = [each for each in exhibits if each["by_default"]]
    if not kept:
        return ""
    lines = "".join(f"- {each['thread']}: {each['by_default']}.\n" for each in kept)
    return f"\nThese do not happen by themselves here:\n\n{lines}"
