"""Scenes of rules: what a file of `rules/scenes` describes, and what all rules find in it.

There is one file a code. Its scenes are grouped by what must be found in them: `nothing`, a
severity, or `NotChecked`. Each changes some knobs of a clean stage of two requests in ten seconds.
Beside these groups a file may have:

    baseline: knobs that all its scenes have
    decided_by: what holds for the evidence of every finding, such as "failed > 0"
    compares_with: names of the thresholds that the rule compares with

A scene may have `user_rules`, which are those of the spec, and `sides`: what a run's servers and those of its baseline report, and their arguments.

The first scene in which something is found is the example of the code. A column of requests or
samples is a number for all of them, a list of numbers by turns, numbers in a row ("900*3 20": three
times 900, then 20), or `{from: 0, each: 250}`. `!long e` is a text of 300 letters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from benchrun.api import LoadPoint, Objective, ServerStatus, UserRule
from benchrun.judge.comparison.settings import (
    Differing,
    RunServers,
    compared_settings,
)
from benchrun.judge.result_row import measured_row
from benchrun.judge.rules.all_rules import judge_load_point, judge_row, judge_run
from benchrun.judge.rules.rule import (
    Code,
    LoadPointContext,
    RunContext,
    StageFinding,
)
from benchrun.judge.rules.sample_size import unstored_records
from benchrun.judge.rules.unequal_servers import unequal_servers
from benchrun.judge.thresholds import Thresholds
from benchrun.measure.metrics_page import Sample
from benchrun_client.contract import Load
from benchrun_client.engines import EngineName
from unit.judge.scene_stages import Knobs, expected_of, stage_of
from unit.judge.stages import with_compilations
from unit.plan.specs import spec

FOLDER = Path(__file__).parent / "rules/scenes"
FINDS = ("Note", "Suspect", "Invalid")
OUTCOMES = ("nothing", *FINDS, "NotChecked")
LONG = 300  # Letters of a `!long` text.


@dataclass(frozen=True)
class Scene:
    """A run of one load point, and what must be found in it."""

    code: Code
    name: str
    outcome: str
    context: LoadPointContext
    # Of a finding: figures of its evidence, and its weight.
    evidence: Knobs
    weight: float | None
    unstored: Sequence[str] = ()
    runs_servers: bool = False  # Or it measures an endpoint.
    sides: Differing | None = None
    user_rules: Sequence[UserRule] = ()

    @property
    def samples(self) -> list[Sample]:
        """Return the samples of all servers in all stages."""
        return [each for stage in self.context.stages for each in stage.samples]


@dataclass(frozen=True)
class SceneFile:
    """The scenes of a code, and what else its file says."""

    code: Code
    knobs: Mapping[str, Mapping[str, Knobs]]  # By outcome and name.
    baseline: Knobs
    decided_by: Sequence[str]
    compares_with: Sequence[str]

    @property
    def names(self) -> list[tuple[str, str]]:
        """Return the outcome and the name of every scene."""
        return [
            (outcome, name) for outcome, of in self.knobs.items() for name in of
        ]

    def scene(self, outcome: str, name: str) -> Scene:
        """Build a scene."""
        return _scene(
            self.code,
            name,
            outcome,
            **_merged(self.baseline, self.knobs[outcome][name]),
        )

    def example(self) -> Scene:
        """Build the first scene in which something is found."""
        return self.scene(*next(each for each in self.names if each[0] in FINDS))


@cache
def file_of(code: Code) -> SceneFile:
    """Read the file of a code."""
    text = (FOLDER / f"{code}.yaml").read_text(encoding="utf-8")
    content = yaml.load(text, _Loader)
    return SceneFile(
        code,
        {each: content.pop(each) for each in list(content) if each in OUTCOMES},
        **({"baseline": {}, "decided_by": (), "compares_with": ()} | content),
    )


def found_in(scene: Scene) -> list[StageFinding]:
    """Return everything that any rule finds in a scene."""
    context = scene.context
    run = RunContext(context.thresholds, {context.load_point.id: context.summary()})
    return [
        *judge_load_point(context),
        *unstored_records(context.load_point, scene.unstored),
        *judge_run(run),
        *judge_row(measured_row(context, [], spec=spec()), scene.user_rules),
        *compared_in(scene),
    ]


def compared_in(scene: Scene) -> list[StageFinding]:
    """Return what is found where a run is compared with its baseline."""
    if scene.sides is None:
        return []
    found = compared_settings(scene.sides)
    return unequal_servers(scene.context.load_point.id, found, "before")


class _Loader(yaml.CSafeLoader):
    """Knows `!long`."""


def _long(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node)) * LONG


_Loader.add_constructor("!long", _long)


def _merged(below: Knobs, above: Knobs | None) -> dict[str, Any]:
    """Return the knobs of both: those of `above`, or both mappings together where they are two.

    A load is one of several kinds, so it replaces another.
    """
    together = {
        name: known | value
        for name, value in (above or {}).items()
        if isinstance(known := below.get(name), dict)
        and isinstance(value, dict)
        and name != "load"
    }
    return {**below, **(above or {}), **together}


def _scene(
    code: Code,
    name: str,
    outcome: str,
    *,
    load: Knobs | None = None,
    expects: Knobs | None = None,
    thresholds: Knobs | None = None,
    percentiles: Sequence[str] = ("50", "99"),
    objectives: Sequence[Knobs] = (),
    own_servers: Sequence[Knobs] = (),
    compilations: Sequence[float] | None = (),
    stages: Sequence[Knobs] = ({},),
    planned: int | None = None,
    unstored: bool = False,
    sides: Sequence[Knobs] = (),
    user_rules: Sequence[Knobs] = (),
    evidence: Knobs | None = None,
    weight: float | None = None,
    **of_stages: Any,
) -> Scene:
    expected = expected_of(**(load or {}), **(expects or {}))
    limits = Thresholds(**(thresholds or {}))
    point = _load_point(expected.load, repeats=planned or len(stages))
    known: Knobs = {"engine": "VLLM", "role": "server"}
    servers = [ServerStatus(**(known | each)) for each in own_servers]
    facts = [
        replace(
            stage_of(
                expected,
                {"stage_id": point.stage_ids[place], "sequence": place},
                **_merged(of_stages, changes),
            ),
            thresholds=limits,
            servers=with_compilations(servers, compilations),
        )
        for place, changes in enumerate(stages)
    ]
    asked = [Objective(**each) for each in objectives]
    return Scene(
        code,
        name,
        outcome,
        LoadPointContext(point, limits, expected, percentiles, tuple(facts), asked),
        evidence or {},
        weight,
        point.stage_ids if unstored else (),
        bool(own_servers),
        Differing(*([_side(**each)] for each in sides)) if sides else None,
        [UserRule.model_validate(each) for each in user_rules],
    )


def _side(
    *,
    engine: EngineName = "VLLM",
    args: Sequence[str] = (),
    image: str = "image:1",
    model: Knobs | None = None,
    **told: Any,
) -> RunServers:
    """Build the servers of a run, and the spec by which it started them."""
    server = {"engine": engine, "args": list(args), "image": image}
    found = ServerStatus(role="server", engine=engine, **told)
    given = spec(server=server, model={"name": "org/m", **(model or {})})
    return RunServers("run", given, [found])


def _load_point(load: Load, *, repeats: int) -> LoadPoint:
    load_point_id = f"chat/{load.label}"
    ids = [f"{load_point_id}/r{n}" for n in range(1, repeats + 1)]
    return LoadPoint(load_point_id, "chat", load, tuple(ids))
