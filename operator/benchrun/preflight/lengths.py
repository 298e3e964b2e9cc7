"""How long requests get, as far as the spec tells it."""

from __future__ import annotations

from dataclasses import dataclass

from benchrun.api.datasets.union import MixableDataset, parts_of
from benchrun.api.workloads import Workload
from benchrun.preflight.remark import Remark, error, not_checked, note

SHARE_GPT_TOTAL_TOKENS = 2048
"""vLLM's limit, where none is set and each row has its own answer."""
CHAT_TEMPLATE_TOKENS = 64
"""More than most chat templates add to one turn."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """The longest request of a dataset, in tokens. None: only its data tells."""

    prompt: int | None
    output: int | None
    drops_long_rows: bool
    """Whether rows are left out that are longer than the model takes."""

    @property
    def total(self) -> int | None:
        """What it takes of the model's context and of the KV cache."""
        return None if self.prompt is None or self.output is None else self.prompt + self.output


def lengths_of(dataset: MixableDataset) -> Lengths:
    """The longest request that a dataset can send."""
    if dataset.random is not None:
        return Lengths(dataset.random.input_tokens, dataset.random.output_tokens, drops_long_rows=False)
    if dataset.prefix_repetition is not None:
        repeated = dataset.prefix_repetition
        return Lengths(repeated.prefix_tokens + repeated.suffix_tokens, repeated.output_tokens, drops_long_rows=False)
    if dataset.share_gpt is not None:
        rows = dataset.share_gpt
        rest = max(1, (rows.max_total_tokens or SHARE_GPT_TOTAL_TOKENS) - rows.max_prompt_tokens)
        return Lengths(rows.max_prompt_tokens, rows.output_tokens or rest, drops_long_rows=True)
    if dataset.texts is not None:
        answers = dataset.texts.output_tokens_per_text * dataset.texts.texts_per_prompt
        return Lengths(None, answers, drops_long_rows=True)
    forced = next((each.output_tokens for each in (dataset.custom, dataset.hugging_face) if each is not None), None)
    return Lengths(None, forced, drops_long_rows=dataset.agent is None)


def longest_request(workload: Workload, *, max_tokens: int | None) -> int | None:
    """Tokens of the longest request of a workload that the model takes; None where only its data tells."""
    totals = [lengths_of(part).total for part in parts_of(workload.dataset)]
    known = [total for total in totals if total is not None]
    return min(max(known), max_tokens or max(known)) if len(known) == len(totals) else None


def length_remarks(workload: Workload, path: str, *, max_tokens: int | None, told_by: str) -> list[Remark]:
    """Whether every request fits the model's longest sequence. `told_by` says where that limit is from, or that none is
    known."""
    remarks = []
    for place, part in enumerate(parts_of(workload.dataset)):
        field = f"{path}.dataset" + (f".mix[{place}]" if workload.dataset.mix is not None else "")
        remarks += _part(
            lengths_of(part), field, max_tokens=max_tokens, told_by=told_by, is_chat=workload.api == "Chat"
        )
    return remarks


def _part(lengths: Lengths, field: str, *, max_tokens: int | None, told_by: str, is_chat: bool) -> list[Remark]:
    if max_tokens is None:
        return [not_checked(field, f"whether its requests fit the model: {told_by}")]
    limit = f"a sequence has at most {max_tokens:,} ({told_by})"
    if lengths.output is not None and lengths.output >= max_tokens:
        return [error(field, f"answers of {lengths.output:,} tokens leave no room for a prompt: {limit}")]
    if lengths.total is None:
        return [] if lengths.drops_long_rows else [not_checked(field, "how long its prompts get: only the data tells")]
    said = f"{lengths.prompt:,} tokens of prompt and {lengths.output:,} of answer are {lengths.total:,}"
    if lengths.total > max_tokens:
        if lengths.drops_long_rows:
            return [note(field, f"{said}, but {limit}: longer rows are left out, and counted")]
        return [error(field, f"{said}, but {limit}: vLLM refuses the request")]
    spare = max_tokens - lengths.total
    if is_chat and not lengths.drops_long_rows and spare < CHAT_TEMPLATE_TOKENS:
        return [note(field, f"{said}, which leaves {spare} for the chat template: {limit}")]
    return []
