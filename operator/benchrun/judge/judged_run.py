"""Judge a run, or judge a stored run again.

Everything in a run's status that is computed from its records begins here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from benchrun_client.contract import DatasetFacts, StageRecord

from benchrun import api
from benchrun.judge.comparison.compare import (
    AgainstBaseline,
    against_baseline,
    judged_side,
)
from benchrun.judge.explain.profile import backed, profile_status
from benchrun.judge.results import Judged, results, shown
from benchrun.judge.rules.all_rules import with_more
from benchrun.judge.rules.rule import StageFinding
from benchrun.judge.rules.unequal_servers import unequal_servers
from benchrun.judge.search_results import SEARCH_BYTES
from benchrun.judge.status_size import (
    COMPARISON_BYTES,
    MAX_BYTES,
    PROFILE_BYTES,
    fitted,
    fitted_load_points,
    truncations,
)
from benchrun.judge.thresholds import Thresholds, judge_of
from benchrun.judge.until_decided import UNTIL_DECIDED_BYTES
from benchrun.measure import cost_status, role_timelines
from benchrun.measure.metrics_page import Sample
from benchrun.observe import Run
from benchrun.plan import measured_load_points

# A mix may have eight datasets, and a run sixteen mixes; this bound keeps the status small.
MAX_DATASETS = 16
# Most spans of the timeline in the document: as many as a chart shows.
TIMELINE_SPANS = 600
# Characters kept from the end of a path, which identifies it best.
SOURCE_CHARACTERS = 160
_VALID_REASONS: Mapping[api.Verdict, str] = {
    "Valid": api.Reason.ALL_VALID,
    "Suspect": api.Reason.SUSPECT,
}


def dataset_statuses(
    records: Iterable[StageRecord], *, workloads: int
) -> list[api.DatasetStatus]:
    """Return the status of each dataset once, in the order in which workloads were measured.

    Reading stops when records of `workloads` different workloads were found, because all records of
    a workload have the same datasets.
    """
    facts: dict[str, tuple[DatasetFacts, ...]] = {}
    for record in records:
        facts.setdefault(record.stage_id.partition("/")[0], record.datasets)
        if len(facts) == workloads:
            break
    return [
        api.DatasetStatus(
            name=f"{workload}/{each.part}"
            if len(of_workload) > 1 or each.part
            else workload,
            source=each.source[-SOURCE_CHARACTERS:],
            sha256=each.sha256,
            rows_read=each.rows_read,
            rows_used=each.rows_used,
            rows_dropped=each.rows_dropped,
        )
        for workload, of_workload in facts.items()
        for each in of_workload
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the judge needs to know of a run besides its records."""

    identity: api.RunIdentity
    servers: Sequence[api.ServerStatus] = ()  # As the last status will have them.
    client: api.ClientStatus | None = None  # As the last status will have it.
    instants: api.RunInstants = field(default_factory=api.RunInstants)
    baseline: Run | None = (
        None  # The run that the spec names; None if there is none.
    )
    baseline_document: api.ResultDocument | None = None  # Its result document.
    ending: api.EndingStatus | None = None
    """Why the run ended early; None if every stage was measured. A run that ended early is not
    compared with its baseline, nor is one whose requests all failed."""
    unstored: Sequence[str] = ()  # Stages whose record is lost once it is judged.
    refused: Sequence[str] = ()  # What of it could not be read, and why.


class JudgedRun(NamedTuple):
    """A judged run: what its status holds, and the whole result document."""

    judgement: api.Judgement
    document: api.ResultDocument


def judged_run(
    run: Surroundings,
    spec: api.BenchmarkRunSpec,
    records: Sequence[StageRecord],
    samples: Sequence[Sample],
) -> JudgedRun:
    """Judge a run by its records, which are in the order of measurement.

    `records` may be a sequence that opens each record when it is accessed.
    """
    profile, records = _profile_of(spec, records)
    planned = measured_load_points(spec, records)
    found = results(
        planned,
        records,
        samples,
        spec=spec,
        servers=run.servers,
        unstored=run.unstored,
    )
    client = _client_status(records, run.client)
    against = None
    if spec.baseline is not None and run.ending is None and not _all_failed(found):
        after = judged_side(
            run.identity.name,
            run.identity.uid,
            spec,
            found.results,
            servers=run.servers,
            client=client,
            instants=run.instants,
        )
        against = against_baseline(
            after, spec.baseline, run.baseline, run.baseline_document
        )
    found = replace(
        found,
        results=backed(found.results, profile),
        findings=with_more(found.findings, _unequal(against, found)),
    )
    facts = _Facts(
        found=found,
        profile=profile,
        client=client,
        datasets=dataset_statuses(records, workloads=len(spec.workloads)),
        against=against,
        diagnostic=next((r.diagnostic for r in records if r.diagnostic), None)
        if _all_failed(found)
        else None,
        measured_anything=bool(records),
    )
    judgement = _judgement(run, spec, facts)
    end = api.run_end(judgement, run.ending, has_objectives=bool(spec.objectives))
    return JudgedRun(judgement, _document(run, spec, facts, end, samples))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """All parts of a run's judgement, before they are cut to fit into the status."""

    found: Judged
    profile: api.ProfileStatus | None
    client: api.ClientStatus | None
    datasets: list[api.DatasetStatus]
    against: AgainstBaseline | None
    diagnostic: str | None
    measured_anything: bool


def _unequal(against: AgainstBaseline | None, found: Judged) -> list[StageFinding]:
    """Return the findings on how the servers differ from those of the baseline."""
    if against is None or not found.results:
        return []
    compared = against.comparison
    return unequal_servers(
        found.results[0].load_point, compared.settings, compared.baseline.name
    )


def _all_failed(found: Judged) -> bool:
    """Return whether every request failed, in all stages that were measured."""
    failed = next(
        (f for f in found.findings if f.code == api.Code.ALL_REQUESTS_FAILED), None
    )
    return failed is not None and failed.count == sum(
        row.repeats for row in found.results
    )


def _judgement(
    run: Surroundings, spec: api.BenchmarkRunSpec, facts: _Facts
) -> api.Judgement:
    """Return what the status holds of a judgement: each list is cut to a share of the status."""
    found = facts.found
    against = facts.against
    kept, truncated = status_rows(spec, found)
    datasets = facts.datasets[:MAX_DATASETS]
    truncated += truncations([("datasets", len(facts.datasets), len(datasets))])
    comparison = None
    if against is not None:
        compared, compared_cut = fitted_load_points(against.comparison.load_points)
        told = [
            each
            for each in against.comparison.settings
            if each.word == "Differs" or each.is_half_known
        ]
        comparison = against.comparison.model_copy(
            update={"load_points": compared, "settings": told}
        )
        truncated += compared_cut
    answers = (
        _objectives_answer(found),
        against.answer if against else "",
        found.until_decided.sentence if found.until_decided else "",
        _sentence(found),
    )
    return api.Judgement(
        results=kept,
        searches=found.searches,
        until_decided=found.until_decided,
        findings=found.findings,
        verdict=found.verdict,
        headline=found.headline,
        profile=facts.profile,
        judge=judge_of(spec),
        cost=cost_status(spec.cost, run.servers),
        datasets=datasets,
        client=facts.client,
        comparison=comparison,
        not_regressed=against.not_regressed if against else None,
        not_regressed_reason=against.reason if against else "",
        objectives_met=_objectives_met(found) if spec.objectives else None,
        objectives_message=_objectives_message(found),
        valid_reason=_VALID_REASONS.get(
            found.verdict, api.Reason.INVALID_LOAD_POINTS
        ),
        message=api.sentence("; ".join(part for part in answers if part)),
        all_requests_failed=_all_failed(found),
        diagnostic=facts.diagnostic,
        measured_anything=facts.measured_anything,
        truncated=truncated,
        refused=list(run.refused[: api.MAX_REFUSED]),
        refused_count=len(run.refused),
    )


def status_rows(
    spec: api.BenchmarkRunSpec, found: Judged
) -> tuple[list[api.Result], list[api.Truncated]]:
    """Return the rows that fit into the status, and a list of what was cut."""
    max_bytes = (
        MAX_BYTES
        - (COMPARISON_BYTES if spec.baseline else 0)
        - SEARCH_BYTES * len(found.searches)
        - (UNTIL_DECIDED_BYTES if found.until_decided else 0)
    )
    max_bytes -= PROFILE_BYTES if spec.measurement.profile else 0
    return fitted(found.results, found.findings, max_bytes=max_bytes)


def _document(
    run: Surroundings,
    spec: api.BenchmarkRunSpec,
    facts: _Facts,
    end: api.RunEnd,
    samples: Sequence[Sample],
) -> api.ResultDocument:
    found = facts.found
    return api.ResultDocument(
        run=run.identity,
        instants=run.instants,
        phase=end.phase,
        message=end.message,
        conditions=tuple(
            api.Condition(type=type_, status=status, reason=reason, message=message)
            for type_, status, reason, message in end.conditions
        ),
        spec=spec,
        verdict=found.verdict,
        headline=found.headline,
        results=found.results,
        searches=found.searches,
        until_decided=found.until_decided,
        findings=found.findings,
        comparison=facts.against.comparison if facts.against else None,
        stages=found.stages,
        distributions=found.distributions,
        timeline=role_timelines(samples, at_most=TIMELINE_SPANS),
        servers=list(run.servers),
        client=facts.client,
        datasets=facts.datasets,
        cost=cost_status(spec.cost, run.servers),
        profile=facts.profile,
        judge=judge_of(spec),
        diagnostic=facts.diagnostic,
        unstored=list(run.unstored),
        refused=list(run.refused[: api.MAX_REFUSED]),
        refused_count=len(run.refused),
    )


def _profile_of(
    spec: api.BenchmarkRunSpec, records: Sequence[StageRecord]
) -> tuple[api.ProfileStatus | None, Sequence[StageRecord]]:
    """Return the status of the profile, and the records of the stages.

    The profile's record is the last one, and is left out. The status is None if the spec wants no
    profile, or if there are no records.
    """
    if spec.measurement.profile is None or not records:
        return None, records
    found = records[-1].profile
    return profile_status(found), records if found is None else records[:-1]


def _client_status(
    records: Sequence[StageRecord], pod: api.ClientStatus | None
) -> api.ClientStatus | None:
    """Return the status of the client: its pod, with engine, shards and chat template added.

    These come from the first record. Return None if nothing was measured.
    """
    if not records:
        return None
    first = records[0]
    shards = records[0].shards
    known = {
        "engine": first.engine.name,
        "engine_version": first.engine.version,
        "chat_template": first.chat_template,
    }
    counted = {"shards": shards.count if shards else None}
    return (pod or api.ClientStatus()).model_copy(
        update=known | counted | {"commit": first.tokenizer_commit}
    )


def _objectives_met(found: Judged) -> api.ConditionStatus:
    """Return whether all objectives are met, as the status of a condition.

    It is Unknown if an objective is inconclusive and none is missed. A search that found a load met
    its objectives.
    """
    searches = {search.workload for search in found.searches}
    outcomes = {
        o.outcome
        for r in found.results
        for o in r.objectives
        if r.workload not in searches
    }
    # Where a load was met and not confirmed, its objectives are not missed.
    outcomes |= {
        "Met"
        if s.lower is not None
        else (s.outcome == "NoneMet" and s.upper_outcome) or "Inconclusive"
        for s in found.searches
    }
    if "Missed" in outcomes:
        return "False"
    return "Unknown" if "Inconclusive" in outcomes else "True"


def _objectives(found: Judged) -> dict[str, list[str]]:
    """Return the objectives as texts, by outcome, at load points that the spec lists.

    Objectives of a search are left out, because a search has a sentence of its own.
    """
    searched = {search.workload for search in found.searches}
    texts: dict[str, list[str]] = {}
    for row in found.results:
        for each in row.objectives if row.workload not in searched else ():
            limit = f"{each.metric} p{each.percentile} at most {each.max_milliseconds} ms"
            value = each.measured_milliseconds
            told = [f"measured {shown(value)} ms"] if value is not None else []
            if each.price is not None:
                told.append(f"about {each.price.in_words} would decide it")
            measured = f" ({', '.join(told)})" if told else ""
            texts.setdefault(each.outcome, []).append(
                f"{limit} at {row.load_point}{measured}"
            )
    return texts


def _objectives_message(found: Judged) -> str:
    """Return the message of the condition on objectives.

    It lists every objective that is not met, the missed ones first, then the sentences of searches.
    """
    texts = _objectives(found)
    listed = [
        f"{word}: {text}"
        for word in ("Missed", "Inconclusive")
        for text in texts.get(word, ())
    ]
    listed += [f"{search.workload}: {search.sentence}" for search in found.searches]
    return api.sentence("; ".join(listed) or _objectives_answer(found))


def _objectives_answer(found: Judged) -> str:
    """Return as text whether the objectives are met, with the first one that decided.

    The text is empty if there are none.
    """
    texts = _objectives(found)
    for outcome, word in (("Missed", "missed"), ("Inconclusive", "undecided")):
        if of_outcome := texts.get(outcome):
            first, *more = of_outcome
            several = f", and {len(more)} more" if more else ""
            are = "objectives are" if more else "an objective is"
            return f"{are} {word}: {first}{several}"
    return "every objective is met" if texts and not found.searches else ""


def _sentence(found: Judged) -> str:
    verdict = found.verdict
    total = len(found.results)
    if found.searches:
        sentences = "; ".join(
            f"{search.workload}: {search.sentence}" for search in found.searches
        )
        worth = {
            "Valid": "",
            "Suspect": " Some numbers are Suspect: read the findings.",
        }
        return (
            ""
            f"{sentences}.{worth.get(verdict, ' Some numbers are Invalid: read the findings.')}"
        )
    points = "the load point" if total == 1 else f"all {total} load points"
    if verdict == "Valid":
        return f"measured {points}; every number is valid"
    if verdict == "Suspect":
        return f"measured {points}; some numbers are suspect, see findings"
    invalid = sum(row.verdict == "Invalid" for row in found.results)
    return f"measured {points}, but {invalid} of {total} are invalid: do not use them, see findings"


class Rejudged(NamedTuple):
    """What the rules of this version find in a stored run."""

    # Stored rows, but with new results of all load points that have a record left.
    status: api.BenchmarkRunStatus
    # Records that were judged once and are lost, by load point.
    missing: Mapping[str, int]


def rejudge(
    spec: api.BenchmarkRunSpec,
    stored: api.BenchmarkRunStatus,
    records: Sequence[StageRecord],
    samples: Sequence[Sample],
    *,
    thresholds: Thresholds,
) -> Rejudged:
    """Judge a stored run again by the records that are left.

    A load point whose record was not kept does not become Invalid. A stage that was never measured
    makes its load point Invalid, as it did the first time.
    """
    here = {record.stage_id for record in records}
    judged_once = {row.load_point: row.repeats for row in stored.results}
    planned = []
    missing = {}
    known = measured_load_points(spec, records)
    for load_point in known:
        absent = [stage for stage in load_point.stage_ids if stage not in here]
        there = len(load_point.stage_ids) - len(absent)
        # Of the stages that have no record, the earliest were measured.
        lost = set(
            absent[
                : max(
                    0,
                    judged_once.get(load_point.id, len(load_point.stage_ids))
                    - there,
                )
            ]
        )
        if lost:
            missing[load_point.id] = len(lost)
        if there:
            planned.append(
                replace(
                    load_point,
                    stage_ids=tuple(
                        s for s in load_point.stage_ids if s not in lost
                    ),
                )
            )
    # Loads that a search chose are not in the plan: where all their records are lost, only their
    # row is left.
    ids = {load_point.id for load_point in known}
    missing |= {
        row.load_point: row.repeats
        for row in stored.results
        if row.load_point not in ids
    }
    found = results(
        planned,
        records,
        samples,
        spec=spec,
        servers=stored.servers,
        thresholds=thresholds,
    )
    kept, truncated = status_rows(spec, found)
    update = {
        "results": backed(kept, stored.profile),
        "searches": found.searches,
        "until_decided": found.until_decided,
        "findings": found.findings,
        "verdict": found.verdict,
        "headline": found.headline,
        "truncated": truncated,
        "judge": judge_of(spec, thresholds),
        "cost": stored.cost or cost_status(spec.cost, stored.servers),
        "comparison": None,  # the rows it was made from may have another verdict now
    }
    return Rejudged(stored.model_copy(update=update), missing)


def with_severities(
    spec: api.BenchmarkRunSpec, wanted: Sequence[api.RuleSeverity]
) -> api.BenchmarkRunSpec:
    """Return the spec with the wanted severities.

    Severities that the spec sets for other codes stay.
    """
    rules = {rule.code: rule for rule in (*spec.validity.severities, *wanted)}
    validity = spec.validity.model_copy(update={"severities": list(rules.values())})
    return spec.model_copy(update={"validity": validity})
