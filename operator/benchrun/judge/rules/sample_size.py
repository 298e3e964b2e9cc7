"""Rules on too few requests for a percentile, on repeats that disagree, and on missing stages."""

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from benchrun_client.contract import (
    MIN_REPEATS,
    LatencySample,
    is_bounded,
    least_count,
    missing_rounds,
)

from benchrun.api import LoadPoint, as_many_as_fit
from benchrun.judge.objectives import sample_of
from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    LoadPointContext,
    LoadPointRule,
    NotChecked,
    Sentence,
    StageFinding,
    in_words,
)
from benchrun.measure import rounded, significance


def too_few_samples(load_point: LoadPointContext) -> Found:
    """Find percentiles of the spec and of its objectives that rest on too few requests.

    For the spec's percentiles the requests with an E2EL are counted, for an objective those with
    its own latency. Without a steady part those of the whole stages count, whose figures are shown
    then; WindowTooShort says why there is none.
    """
    wanted = [
        (float(percentile), load_point.answered.get("e2el"))
        for percentile in load_point.percentiles
    ]
    wanted += [
        (float(o.percentile), sample_of(o, load_point.answered))
        for o in load_point.objectives
    ]
    unbounded = {
        percentile: sample
        for percentile, sample in wanted
        if sample is not None and sample.count and _is_short(sample, percentile)
    }
    if not unbounded:
        return []
    needed = {percentile: least_count(percentile) or 0 for percentile in unbounded}
    neediest, sample = max(unbounded.items(), key=lambda each: needed[each[0]])
    short = missing_rounds(sample, max(unbounded)) if sample.is_steady else None
    is_burst = (
        sample.is_steady
        and all(stage.at_once for stage in sample.stages)
        and sample.repeats < MIN_REPEATS
    )
    is_few = sample.count < needed[neediest]
    evidence: Evidence = {
        "samples": sample.count,
        "percentiles": ", ".join(
            f"{percentile:g}" for percentile in sorted(unbounded)
        ),
        "percentile": f"{neediest:g}" if is_few else None,
        "needed": needed[neediest] if is_few else None,
        "rounds": rounded(short.seen) if short is not None else None,
        "roundsNeeded": short.needed if short is not None else None,
        "repeats": sample.repeats if is_burst else None,
        "repeatsNeeded": MIN_REPEATS if is_burst else None,
        "noSteadyPart": None if sample.is_steady else "true",
    }
    evidence = {key: value for key, value in evidence.items() if value is not None}
    times_too_few = needed[neediest] / sample.count
    return [
        StageFinding(
            Code.TOO_FEW_SAMPLES,
            "Note",
            load_point.load_point.id,
            evidence,
            weight=times_too_few,
        )
    ]


def _is_short(sample: LatencySample, percentile: float) -> bool:
    """Return whether a sample is too small for a percentile.

    Rounds are counted in a steady part alone; without one, only the requests are.
    """
    if sample.is_steady:
        return not is_bounded(sample, percentile)
    return sample.count < (least_count(percentile) or 0)


def too_few_sentence(evidence: Evidence) -> str:
    """Return the sentence of a TooFewSamples finding; it says which requests were counted."""
    part = "the whole stages" if "noSteadyPart" in evidence else "the steady part"
    return in_words(
        f"Too few requests for percentile {{percentiles}}: {{samples}} in {part}"
        "[; p{percentile} needs {needed}][, {rounds} rounds of all requests in "
        "flight (needed: {roundsNeeded})][, {repeats} repeats (needed, as all "
        "requests are sent at once: {repeatsNeeded})].",
        evidence,
    )


def repeats_disagree(load_point: LoadPointContext) -> Found:
    """Find repeats that differ by more than noise explains.

    The coefficient of variation is computed for throughput and for mean TTFT, TPOT and E2EL. The
    finding is about the figure with the largest one.
    """
    if len(load_point.load_point.stage_ids) < 2 or not load_point.stages:
        return []
    if len(load_point.stages) < 2:
        return [
            NotChecked(
                Code.REPEATS_DISAGREE,
                "only one repeat was measured (raise spec.repeats)",
            )
        ]
    stages = [stage.batches for stage in load_point.stages]
    thresholds = load_point.thresholds
    apart = {}
    for figure in stages[0]:
        repeats = [stage[figure] for stage in stages if stage[figure]]
        cv = significance.cv_percent(list(map(fmean, repeats)))
        chance = significance.groups_p_value(repeats)
        if cv is None or chance is None:
            continue
        if (
            cv > thresholds.repeats_cv_percent
            and chance < thresholds.chance_of_alarm
        ):
            apart[figure] = cv, chance
    if not apart:
        return []
    worst = max(apart, key=lambda figure: apart[figure][0])
    weight, chance = apart[worst]
    means = [
        sum(stage[worst]) / len(stage[worst]) for stage in stages if stage[worst]
    ]
    evidence = {
        "figure": worst,
        "cvPercent": rounded(weight),
        "suspectPercent": thresholds.repeats_cv_percent,
        "repeats": len(means),
        "least": rounded(min(means)),
        "most": rounded(max(means)),
        "chance": rounded(chance),
        "suspectChance": thresholds.chance_of_alarm,
        "figures": ", ".join(apart),
    }
    return [
        StageFinding(
            Code.REPEATS_DISAGREE,
            "Suspect",
            load_point.load_point.id,
            evidence,
            weight=weight,
        )
    ]


def missing_records(
    load_point: LoadPoint, measured: Collection[str]
) -> list[StageFinding]:
    """Return a finding for each repeat of the load point that has no record."""
    evidence = {
        "planned": len(load_point.stage_ids),
        "measured": sum(stage in measured for stage in load_point.stage_ids),
    }
    return [
        StageFinding(Code.RECORD_MISSING, "Invalid", s, evidence)
        for s in load_point.stage_ids
        if s not in measured
    ]


MAX_NAMED_CHARS = 400


def unstored_records(
    load_point: LoadPoint, unstored: Sequence[str]
) -> list[StageFinding]:
    """Return a finding for each stage of the load point whose record could not be stored.

    Each finding names the unstored stages of all load points, up to a limit of characters.
    """
    named = ", ".join(
        as_many_as_fit(unstored, lambda stage: len(stage) + 2, MAX_NAMED_CHARS)
    )
    evidence: Evidence = {"unstored": len(unstored), "stages": named}
    return [
        StageFinding(Code.RECORD_NOT_STORED, "Note", stage, evidence)
        for stage in load_point.stage_ids
        if stage in unstored
    ]


LOAD_POINT_RULES: tuple[LoadPointRule, ...] = (too_few_samples, repeats_disagree)
SENTENCES: Mapping[Code, Sentence] = {
    Code.RECORD_MISSING: "{measured} of {planned} repeats were measured.",
    Code.REPEATS_DISAGREE: (
        "{figure} is between {least} and {most} in {repeats} repeats: coefficient "
        "of variation {cvPercent} % (threshold {suspectPercent} %)."
    ),
    Code.TOO_FEW_SAMPLES: too_few_sentence,
    Code.RECORD_NOT_STORED: "Stages whose record could not be stored: {unstored} ({stages}).",
}
NEEDS: Mapping[Code, Needs] = {
    Code.RECORD_MISSING: needs(Input.PLAN),
    Code.TOO_FEW_SAMPLES: needs(Input.OUTCOMES, Input.TIMES, Input.LOAD),
    Code.REPEATS_DISAGREE: needs(
        Input.OUTCOMES, Input.TIMES, Input.OUTPUT_TOKENS, Input.REPEATS
    ),
    Code.RECORD_NOT_STORED: needs(Input.PLAN),
}
