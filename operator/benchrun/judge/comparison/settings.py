"""Whether the servers of two sides were alike: engine, release and every setting that is known.

Each is the same, differs, or is not known of both sides. A difference is on purpose if the specs of
the two sides say so; any other came by itself. One that changes answers and that nobody asked for
makes the sides not comparable: another quantization is another model.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from benchrun_client.engines import ENGINES, Effect, EngineSetting

from benchrun.api import BenchmarkRunSpec, ComparedSetting, ServerStatus
from benchrun.measure import (
    Effective,
    effective_settings,
    given_settings,
    shortened,
)
from benchrun.names import ROLE_DECODE, ROLE_PREFILL, ROLE_PROXY

WHICH_ENGINE, RELEASE = "engine", "release"
NOT_SETTINGS: Mapping[str, tuple[Effect, ...]] = {
    WHICH_ENGINE: ("Answers", "Speed", "Memory"),
    RELEASE: ("Speed", "Memory"),
}
"""What a server has beside its settings, and what it changes where it differs."""
MEASURED_PERCENT = 5.0
"""The most by which the KV caches of equal servers differ: a server measures at its start how much
memory is left. In percent."""
MAX_LISTED = 4  # Most differences that a sentence names.


class RunServers(NamedTuple):
    """The servers of one run, and the spec that they were started by."""

    name: str
    spec: BenchmarkRunSpec
    servers: Sequence[ServerStatus]


class Differing(NamedTuple):
    """The sides of a comparison, each one or several runs."""

    baseline: Sequence[RunServers]
    candidate: Sequence[RunServers]


def compared_settings(sides: Differing) -> list[ComparedSetting]:
    """Compare engine, release and settings of both sides, in a fixed order.

    What is known of neither side is Unknown without values.
    """
    values = [_values(side) for side in sides]
    purposes = _purposes(sides)
    found = []
    for name, effects in _COMPARED.items():
        before, after = (of.get(name) for of in values)
        is_known = before is not None and after is not None
        differs = is_known and not _alike(name, before or "", after or "")
        found.append(
            ComparedSetting(
                setting=name,
                baseline=before,
                value=after,
                word="Unknown"
                if not is_known
                else "Differs"
                if differs
                else "Same",
                on_purpose=differs and name in purposes,
                changes=list(effects) if differs else [],
            )
        )
    return _with_consequences(found)


_COMPARED: Mapping[str, tuple[Effect, ...]] = {
    **NOT_SETTINGS,
    **{each.value: each.effects for each in EngineSetting if each.effects},
}


def unequal(found: Iterable[ComparedSetting]) -> list[ComparedSetting]:
    """Return the settings that differ without purpose, except the engine.

    Those that change answers come first.
    """
    left = [
        each
        for each in found
        if each.word == "Differs"
        and not each.on_purpose
        and each.setting != WHICH_ENGINE
    ]
    return sorted(left, key=lambda each: "Answers" not in each.changes)


def obstacle(sides: Differing) -> str | None:
    """Return why servers that differ so may not be compared, or None if they may.

    Nothing is refused for endpoints, because their settings are not in the spec. Nothing is refused
    for different engines, because they need different files of weights.
    """
    specs = [run.spec for side in sides for run in side]
    engines = {spec.engine_name for spec in specs}
    if len(engines) > 1 or any(spec.started is None for spec in specs):
        return None
    for each in unequal(compared_settings(sides)):
        if "Answers" in each.changes:
            return (
                f"{difference(each, names_of(sides))}, which changes answers, and neither spec "
                "asks for it: set it in the arguments of both sides"
            )
    return None


def names_of(sides: Differing) -> tuple[str, str]:
    """Return the name of the first run of each side."""
    return sides.baseline[0].name, sides.candidate[0].name


def difference(each: ComparedSetting, names: Sequence[str]) -> str:
    """Return a difference in words: `dtype: bfloat16 in a, float16 in b`."""
    return (
        f"{each.setting}: {each.baseline} in {names[0]}, {each.value} in {names[1]}"
    )


def in_words(found: Sequence[ComparedSetting], names: Sequence[str]) -> list[str]:
    """Return sentences on how servers differ: in the engine, by themselves, and what is unknown.

    Empty if they are known to be alike but for what was varied on purpose.
    """
    parts = []
    engines = next((e for e in found if e.setting == WHICH_ENGINE), None)
    if engines is not None and engines.word == "Differs":
        parts.append(
            f"the engines differ: {engines.baseline} in {names[0]}, "
            f"{engines.value} in {names[1]}"
        )
    if left := unequal(found):
        parts.append(
            f"settings differ that were not varied on purpose: {_listed(left, names)}"
        )
    half = [e.setting for e in found if e.is_half_known]
    if parts and half:
        more = (
            f" and {len(half) - MAX_LISTED} more" if len(half) > MAX_LISTED else ""
        )
        parts.append(
            f"known of one side only: {', '.join(half[:MAX_LISTED])}{more}"
        )
    return parts


def _listed(found: Sequence[ComparedSetting], names: Sequence[str]) -> str:
    shown = [difference(each, names) for each in found[:MAX_LISTED]]
    more = len(found) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _values(side: Sequence[RunServers]) -> Mapping[str, str]:
    """Return, by name, the values that are known of every server of a side, in words.

    If servers differ between roles or runs, the text has all their values.
    """
    servers = [
        _of_server(run, server)
        for run in side
        for server in run.servers
        if server.role != ROLE_PROXY
    ]
    found = {}
    for name in _COMPARED:
        values = [of.get(name) for of in servers]
        known = [value for value in values if value is not None]
        if values and len(known) == len(values):
            found[name] = shortened(" and ".join(_unlike(name, known)))
    return found


def _unlike(name: str, values: Iterable[str]) -> list[str]:
    """Return each value once; of measured values that are close together only the first."""
    kept: list[str] = []
    for value in values:
        if not any(_alike(name, each, value) for each in kept):
            kept.append(value)
    return kept


def _of_server(run: RunServers, server: ServerStatus) -> Mapping[str, str]:
    words = _words(run.spec, server.role)
    known: Mapping[EngineSetting, Effective] = effective_settings(
        server, server.args if words is None else words
    )
    release = {} if server.version is None else {RELEASE: server.version}
    return {
        WHICH_ENGINE: ENGINES[server.engine].name,
        **release,
        **{setting.value: each.value for setting, each in known.items()},
    }


def _alike(name: str, before: str, after: str) -> bool:
    """Return whether two values are equal, or measured and so close that servers are alike."""
    if before == after:
        return True
    if name != EngineSetting.KV_CACHE_TOKENS.value:
        return False
    if not (before.isdecimal() and after.isdecimal()):
        return False
    low, high = sorted((int(before), int(after)))
    return 100 * (high - low) <= MEASURED_PERCENT * high


def _purposes(sides: Differing) -> set[str]:
    """Return the names of what the specs of the sides set differently, and so vary on purpose.

    The first run of a side stands for all its runs, whose servers must be equal.
    """
    before, after = sides.baseline[0].spec, sides.candidate[0].spec
    found = {name for name, of in _SAID.items() if of(before) != of(after)}
    if before.engine_name != after.engine_name:
        # Each engine needs files of its own, which does not ask for another type.
        found -= {EngineSetting.DTYPE.value, EngineSetting.QUANTIZATION.value}
    for role in _ROLES:
        given = [_given(spec, role) for spec in (before, after)]
        found |= {
            setting.value
            for setting in EngineSetting
            if given[0].get(setting) != given[1].get(setting)
        }
    return found


_ROLES = (ROLE_PREFILL, ROLE_DECODE)
"""A server that is not split has the same words in every role."""


def _given(spec: BenchmarkRunSpec, role: str) -> Mapping[EngineSetting, str]:
    return given_settings(tuple(_words(spec, role) or ()), spec.engine)


def _words(spec: BenchmarkRunSpec, role: str) -> list[str] | None:
    """Return the words that the spec gives to servers of a role; None if it does not say them."""
    is_split = spec.server is not None and spec.server.disaggregated is not None
    if spec.started is None or (is_split and role not in _ROLES):
        return None
    return spec.started.words_of(role)


def _image(spec: BenchmarkRunSpec) -> object:
    return (
        spec.engine_name,
        spec.started.image if spec.started is not None else None,
    )


def _weights(spec: BenchmarkRunSpec) -> object:
    return spec.model.name, spec.model.revision, spec.model.source


def _kernels(spec: BenchmarkRunSpec) -> object:
    return _image(spec), spec.started.env if spec.started is not None else None


_SAID: Mapping[str, Callable[[BenchmarkRunSpec], object]] = {
    WHICH_ENGINE: lambda spec: spec.engine_name,
    RELEASE: _image,
    EngineSetting.DTYPE.value: _weights,
    EngineSetting.QUANTIZATION.value: _weights,
    EngineSetting.ATTENTION_KERNELS.value: _kernels,
    EngineSetting.EXPERT_KERNELS.value: _kernels,
}
"""What decides a difference beside the flag of a setting -> where a spec says it."""


def _with_consequences(found: list[ComparedSetting]) -> list[ComparedSetting]:
    """Mark what follows from a difference that is on purpose.

    A KV cache of the weights' type follows them, and its size follows all that takes memory.
    """
    by_name = {each.setting: each for each in found}
    purposes = [each for each in found if each.on_purpose]
    weights = by_name[EngineSetting.DTYPE.value]
    follows = {
        EngineSetting.KV_CACHE_TOKENS.value: any(
            "Memory" in each.changes for each in purposes
        ),
        EngineSetting.KV_CACHE_DTYPE.value: weights.on_purpose
        and _values_of(by_name[EngineSetting.KV_CACHE_DTYPE.value])
        == _values_of(weights),
    }
    return [
        each.model_copy(
            update={
                "on_purpose": each.on_purpose
                or (each.word == "Differs" and follows.get(each.setting, False))
            }
        )
        for each in found
    ]


def _values_of(each: ComparedSetting) -> tuple[str | None, str | None]:
    return each.baseline, each.value
