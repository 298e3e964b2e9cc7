"""The engines of GitOps tools, asked about objects."""

import json
from pathlib import Path
from typing import NamedTuple

from kit.tools import tool
from unit.decide.recorded_statuses import recordings

DOCS = Path(__file__).parents[2] / "docs"
LUA = DOCS / "gitops" / "argocd-health.lua"
FLUX = DOCS / "gitops" / "flux-kustomization.yaml"


class Answer(NamedTuple):
    """What an engine says of an object."""

    word: str
    message: str


def asked(program: str, *arguments: str | Path) -> dict[str, Answer]:
    """Return what the engine says of every recorded object, by the recording's name."""
    objects = "\n".join(json.dumps(each.body) for each in recordings())
    lines = tool(program, *arguments, text=objects).splitlines()
    names = (each.name for each in recordings())
    return {
        name: Answer(**json.loads(line))
        for name, line in zip(names, lines, strict=True)
    }
