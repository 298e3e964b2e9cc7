"""Answer common questions about a load point.

The questions are which repeat to use (cache hits or compilation may distort some), why answers are
short, and what the server's longest sequence limits.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain, compress
from statistics import fmean

from benchrun_client.engines import Engine, EngineSetting

from benchrun.api import Explanation, Result, ServerStatus
from benchrun.judge.rules.kv_cache import prefix_hits
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    LoadPointContext,
    StageFacts,
    in_words,
)
from benchrun.judge.rules.warm_up import compiled_during
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import counters, rounded, sum_of_known

SHORT_BELOW_PERCENT = 99.0
"""Percentage of the expected output tokens below which an answer is short. It is not 100, because
some servers do not count the last token of an answer."""
MAX_NAMED = 8  # Repeats that are named; the others are counted.
_MAX_MODEL_LEN = re.compile(r"\bmax_model_len=([0-9]{1,9})\b")
_APART = "mean {figure} is {otherMs} ms instead of {trueMs} ms ({changePercent} %)"
_HITS = "{hitTokens} of {lookedUpTokens} prompt tokens ({hitPercent} %)"
_KNOWN = (
    f"[ {_HITS} came from the prefix cache.][ Kernels compiled meanwhile: {{compilations}}.]"
    "[ torch.compile took {startCompileSeconds} s before the first stage.]"
)
_EOS = "ignoreEOS is off: the model decides where an answer ends."
_SENTENCES: Mapping[str, str] = {
    "PrefixCache": (
        "Repeats with new prompts (use these): {trueRepeats}. Repeats with prompts from the prefix "
        f"cache: {{otherRepeats}}[; their {_APART}].{_KNOWN}[ Before, {{earlierLoadPoint}} sent "
        "prompts that begin alike, of {earlierTokens} tokens; these have {inputTokens}.]"
    ),
    "Compilation": (
        "Use repeat {trueRepeats} (warm server). In repeat {otherRepeats} the server compiled "
        f"kernels[: its {_APART}].{_KNOWN}"
    ),
    "Noise": (
        "Repeats are not shown to differ by more than chance[: mean {figure} is {otherMs} ms in "
        "the first and {trueMs} ms in the others "
        f"({{changePercent}} %)].{_KNOWN}"
    ),
    "Unknown": (
        "Repeats differ by more than chance, and what is known of cache and compilation does not "
        f"tell why[: in the first, {_APART}].{_KNOWN}"
    ),
    "AnswerLength": (
        "{requests} requests expected {expectedTokens} output tokens and got {outputTokens} "
        "({percent} %).[ {stop} ended at a stop token (EOS).][ {length} ended at the limit of "
        "their tokens.]"
    ),
    "MaxModelLen": (
        "--{flag} ({maxModelLen} tokens) limits one request, prompt and output; the longest "
        "had {longestTokens}. It does not limit all requests together: "
        "those in flight had {tokensInFlight} tokens "
        "on average, with their whole answers[, and the KV cache holds {kvCacheTokens}]."
    ),
    "StepTokens": (
        "No prompt was too long for one step: the longest had {longestPrompt} tokens, "
        "and a step may have {stepTokens} (--{flag})."
    ),
}


def figures_by_repeat(stages: Sequence[StageFacts]) -> dict[str, list[float]]:
    """Return figures by name, each with one value for each stage in the order of the stages.

    A figure that is unknown for a stage is left out.
    """
    rows = [_figures(stage) for stage in stages]
    columns = {
        name: [value for row in rows if (value := row[name]) is not None]
        for name in (rows[0] if rows else ())
    }
    return {
        name: values for name, values in columns.items() if len(values) == len(rows)
    }


def _figures(stage: StageFacts) -> dict[str, float | None]:
    answered = len(stage.answered)
    hits = prefix_hits(stage)
    compiled = compiled_during(stage)
    tokens = sum(map(stage.requests.input_tokens.__getitem__, stage.answered))
    return {
        "sequence": stage.record.sequence,
        "mean_input_tokens": rounded(tokens / answered) if answered else None,
        "mean_ttft_ms": None
        if stage.expected.offline or stage.has_whole_answers
        else rounded(stage.mean_ttft_ms),
        "mean_e2el_ms": rounded(sum(stage.e2el_us) / answered / 1000)
        if answered
        else None,
        "prefix_hit_tokens": None if hits is None else hits.own + hits.external,
        "prefix_query_tokens": None if hits is None else hits.looked_up,
        "prefix_beyond_percent": None
        if hits is None
        else rounded(hits.beyond_percent),
        "compilations": None if compiled is None else len(compiled),
    }


def with_true_runs(
    rows: Sequence[Result],
    servers: Sequence[ServerStatus],
    thresholds: Thresholds,
    earlier: Mapping[str, str],
) -> list[Result]:
    """Return the rows, each with an explanation of which of its repeats to use.

    `earlier` maps a load point to an earlier one whose prompts begin alike, if that is known. A row
    without repeats to compare stays unchanged.
    """
    seconds = next(
        (s.startup.compile_seconds for s in servers if s.startup is not None), None
    )
    answers = [
        _true_run(
            row,
            next(
                (r for r in rows if r.load_point == earlier.get(row.load_point)),
                None,
            ),
            seconds,
            thresholds.prefix_hits_suspect_percent,
        )
        for row in rows
    ]
    return [
        row
        if each is None
        else row.model_copy(update={"explanations": [each, *row.explanations]})
        for row, each in zip(rows, answers, strict=True)
    ]


def with_limit_told_once(rows: Sequence[Result]) -> list[Result]:
    """Return the rows, with the explanation of each server flag only in the first row.

    The flag means the same at every load point.
    """
    told: set[str] = set()
    found = []
    for row in rows:
        kept = [each for each in row.explanations if each.question not in told]
        found.append(row.model_copy(update={"explanations": kept}))
        told |= {each.question for each in kept} & _TOLD_ONCE
    return found


_TOLD_ONCE = {"MaxModelLen", "StepTokens"}


def _true_run(
    row: Result, earlier: Result | None, seconds: float | None, hits_from: float
) -> Explanation | None:
    """Explain which repeats of a row to use; return None if there is nothing to compare.

    `earlier` is the row of an earlier load point whose prompts begin alike, or None. `seconds` is
    how long torch.compile took before the server was healthy. `hits_from` is a percentage of the
    prompt tokens: a repeat with more prefix cache hits counts as answered from the cache.
    """
    every = range(row.repeats)
    compiled = row.by_repeat.get("compilations", [])
    warm = [
        place
        for place, share in enumerate(
            row.by_repeat.get("prefix_beyond_percent", [])
        )
        if share > hits_from
    ]
    cold = [place for place in every if place not in warm]
    known: Evidence = {
        "compilations": sum(compiled) if compiled else None,
        "startCompileSeconds": seconds,
    }
    if warm:
        none = {"trueRepeats": "none", "otherRepeats": _numbers(warm)}
        why = (
            _apart(row, cold, warm)
            if cold
            else {**none, **_sent_before(row, earlier)}
        )
        return _explanation(
            "TrueRun", "PrefixCache", {**why, **_hits(row, warm), **known}
        )
    slow = _slow_by_compilation(row, compiled)
    if slow is not None:
        return _explanation(
            "TrueRun", "Compilation", {**slow, **_hits(row, every), **known}
        )
    evidence = (
        {**_apart(row, every[1:], every[:1]), **_hits(row, every), **known}
        if row.repeats > 1
        else {}
    )
    if "otherMs" not in evidence:  # a single repeat, or one without an answer
        return None
    differ = Code.REPEATS_DISAGREE.value in row.findings
    return _explanation("TrueRun", "Unknown" if differ else "Noise", evidence)


def _slow_by_compilation(row: Result, compiled: Sequence[float]) -> Evidence | None:
    """Return how repeats in which the server compiled differ from those in which it did not.

    None if there are not both, or if compiling did not make them slower.
    """
    busy = [place for place, number in enumerate(compiled) if number]
    warm = [place for place, number in enumerate(compiled) if not number]
    evidence = _apart(row, warm, busy) if busy and warm else {}
    change = evidence.get("changePercent")
    return evidence if isinstance(change, float) and change > 0 else None


def _sent_before(row: Result, earlier: Result | None) -> Evidence:
    """Return as evidence the earlier load point, and the prompt lengths at both load points."""
    if earlier is None:
        return {}
    tokens = [
        each.by_repeat.get("mean_input_tokens", [None])[0]
        for each in (earlier, row)
    ]
    return {
        "earlierLoadPoint": earlier.load_point,
        "earlierTokens": tokens[0],
        "inputTokens": tokens[1],
    }


def _apart(row: Result, true: Sequence[int], others: Sequence[int]) -> Evidence:
    """Return the mean latencies of two groups of repeats, and their difference in percent.

    The latency is TTFT, or E2EL if TTFT is unknown. If both are unknown, the evidence only names
    the repeats.
    """
    evidence: Evidence = {
        "trueRepeats": _numbers(true),
        "otherRepeats": _numbers(others),
    }
    name = next(
        (
            name
            for name in ("mean_ttft_ms", "mean_e2el_ms")
            if name in row.by_repeat
        ),
        None,
    )
    if name is None:
        return evidence
    usual, other = (
        fmean(row.by_repeat[name][place] for place in places)
        for places in (true, others)
    )
    change = rounded(100 * (other - usual) / usual) if usual else None
    figures = {
        "figure": name[5:-3].upper(),
        "trueMs": rounded(usual),
        "otherMs": rounded(other),
    }
    return {**evidence, **figures, "changePercent": change}


def _hits(row: Result, places: Sequence[int]) -> Evidence:
    hits, queries = (
        row.by_repeat.get(name)
        for name in ("prefix_hit_tokens", "prefix_query_tokens")
    )
    if not hits or not queries:
        return {}
    found, asked = (
        sum(values[place] for place in places) for values in (hits, queries)
    )
    return {
        "hitTokens": found,
        "lookedUpTokens": asked,
        "hitPercent": rounded(100 * found / asked) if asked else None,
    }


def _numbers(places: Sequence[int]) -> str:
    """Return the numbers of the repeats as text, counted from 1."""
    shown = ", ".join(str(place + 1) for place in places[:MAX_NAMED])
    return shown + (
        f" and {len(places) - MAX_NAMED} more" if len(places) > MAX_NAMED else ""
    )


def length_explanations(
    load_point: LoadPointContext, engine: Engine, *, step_tokens: int | None
) -> list[Explanation]:
    """Explain the lengths of prompts and answers at a measured load point.

    The explanations say why answers are short, what the server's longest sequence limits, and
    whether the server splits prompts over several steps. `step_tokens` is the most tokens of a
    step, None if the spec does not set it. Return an empty list if nothing was answered, or if the
    lengths of answers are unknown.
    """
    columns = [stage.requests for stage in load_point.stages]
    rows = (
        compress(
            zip(c.input_tokens, c.output_tokens, c.asked_tokens, strict=True), c.ok
        )
        for c in columns
    )
    lengths = list(chain.from_iterable(rows))
    if not all(stage.counts_tokens for stage in load_point.stages):
        return []  # the lengths of the answers are not known
    if not lengths:
        return []
    found = (
        _answer_length(load_point, lengths),
        _max_model_len(load_point, engine, lengths),
        _step_tokens(
            step_tokens, engine, longest=max(prompt for prompt, _, _ in lengths)
        ),
    )
    return [each for each in found if each is not None]


def _step_tokens(
    step_tokens: int | None, engine: Engine, *, longest: int
) -> Explanation | None:
    """Explain that every prompt is shorter than the token limit of a step.

    Return None if a prompt is longer, or if there is no limit. Even a shorter prompt may be split,
    if other requests fill a part of the step.
    """
    if step_tokens is None or longest > step_tokens:
        return None
    evidence: Evidence = {"longestPrompt": longest, "stepTokens": step_tokens}
    flag = engine.setting_flags[EngineSetting.STEP_TOKENS]
    return _explanation("StepTokens", "NoneSplit", evidence, flag=flag)


def _answer_length(
    load_point: LoadPointContext, lengths: Sequence[tuple[int, int, int]]
) -> Explanation | None:
    """Explain why answers are short, by the servers' reasons why requests finished.

    `lengths` holds the prompt, output and expected output tokens of each answer. Return None if
    answers are as long as expected.
    """
    expected = sum(length[2] for length in lengths)
    output = sum(length[1] for length in lengths)
    if 100 * output >= SHORT_BELOW_PERCENT * expected:
        return None
    edges = [counters.answering(stage.edges) for stage in load_point.stages]
    stop, length = (
        sum_of_known(counters.finished(each, why) for each in edges)
        for why in ("stop", "length")
    )
    evidence: Evidence = {
        "requests": len(lengths),
        "expectedTokens": expected,
        "outputTokens": output,
    }
    reasons = {
        "stop": stop,
        "length": length,
        "percent": rounded(100 * output / expected),
    }
    answer = "StopToken" if stop else "TokenLimit" if length else "Unknown"
    found = _explanation("AnswerLength", answer, {**evidence, **reasons})
    by_choice = stop and not load_point.expected.ignore_eos
    return (
        found.model_copy(update={"sentence": f"{found.sentence} {_EOS}"})
        if by_choice
        else found
    )


def _max_model_len(
    load_point: LoadPointContext,
    engine: Engine,
    lengths: Sequence[tuple[int, int, int]],
) -> Explanation | None:
    """Explain max-model-len if the requests in flight together have more tokens than it.

    The tokens in flight follow from Little's law. `lengths` holds the prompt, output and expected
    output tokens of each answer. Return None if they do not have more, or if the limit is unknown.
    """
    texts = [
        edge.models or ""
        for stage in load_point.stages
        for edge in counters.answering(stage.edges)
    ]
    limit = max(
        (
            int(found[1])
            for text in texts
            for found in _MAX_MODEL_LEN.finditer(text)
        ),
        default=None,
    )
    totals = [prompt + output for prompt, output, _ in lengths]
    together = fmean(stage.mean_in_flight for stage in load_point.stages) * fmean(
        totals
    )
    if limit is None or together <= limit:
        return None
    evidence = {
        "maxModelLen": limit,
        "longestTokens": max(totals),
        "tokensInFlight": rounded(together),
        "kvCacheTokens": next(
            (
                s.replicas * s.kv_cache_tokens
                for s in load_point.stages[0].servers
                if s.kv_cache_tokens
            ),
            None,
        ),
    }
    flag = engine.setting_flags[EngineSetting.MAX_TOKENS]
    return _explanation("MaxModelLen", "OneRequest", evidence, flag=flag)


def _explanation(
    question: str, answer: str, evidence: Evidence, **words: str
) -> Explanation:
    """Build the explanation; its sentence may use `words`, which are not part of the evidence."""
    known = {name: value for name, value in evidence.items() if value is not None}
    sentence = in_words(
        _SENTENCES.get(answer) or _SENTENCES[question], {**known, **words}
    ).strip()
    return Explanation.model_validate(
        {
            "question": question,
            "answer": answer,
            "sentence": sentence,
            "evidence": known,
        }
    )
