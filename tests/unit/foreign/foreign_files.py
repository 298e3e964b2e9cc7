"""Result files of other tools for tests: as the tools wrote them, and changed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchrun.foreign import document, judged
from benchrun.foreign.model import ForeignStage, Source
from benchrun.foreign.readers import READERS
from benchrun.judge.thresholds import Thresholds

FILES = Path(__file__).parent / "files"
Change = Callable[[dict[str, Any]], object]


def text_of(name: str, change: Change | None = None) -> bytes:
    """Return a file as the tool wrote it, or with a change of its document."""
    data = (FILES / name).read_bytes()
    if change is None:
        return data
    content = json.loads(data)
    change(content)
    return json.dumps(content).encode()


def read(tool: str, **files: bytes) -> list[ForeignStage]:
    """Return what the reader of a tool makes of these files, by their names."""
    reader = READERS[tool]
    sources = [
        Source("folder", document.documents(name, data, remedy=reader.remedy))
        for name, data in files.items()
    ]
    return list(reader.read(sources))


def judge(stages: list[ForeignStage]) -> judged.ForeignJudgement:
    """Judge measurements by the usual thresholds."""
    return judged.judged(stages, Thresholds())


def answers(found: judged.ForeignJudgement) -> dict[str, judged.RuleAnswer]:
    """Return the answers of the only load point, by code."""
    (load_point,) = found.load_points
    return {each.code.value: each for each in load_point.answers}
