"""A workload's dataset in the client's words."""

from __future__ import annotations

from dataclasses import dataclass

from benchrun_client.contract import (
    AgentData,
    CustomData,
    Data,
    DataFile,
    HuggingFaceData,
    MixableData,
    MixData,
    MixPart,
    PrefixRepetitionData,
    RandomData,
    ShareGPTData,
    TextsData,
    TimedTraceData,
)

from benchrun.api.datasets.files import DatasetFile
from benchrun.api.datasets.union import MixableDataset
from benchrun.api.workloads import Workload
from benchrun.plan.dataset_files import PlacedFile


@dataclass(frozen=True, slots=True)
class _Files:
    """Whose files they are."""

    workload: str
    part: int | None

    def placed(self, file: DatasetFile) -> DataFile:
        return PlacedFile(self.workload, self.part, file).in_plan()


def client_data(workload: Workload) -> Data:
    """What the plan says of a workload's dataset."""
    dataset, files = workload.dataset, _Files(workload.name, None)
    if dataset.mix is not None:
        return MixData(
            parts=tuple(
                MixPart(weight=part.weight, data=_mixable(part, _Files(workload.name, number)))
                for number, part in enumerate(dataset.mix)
            )
        )
    if (trace := dataset.timed_trace) is not None:
        return TimedTraceData(
            file=files.placed(trace.file),
            unit=trace.unit,
            timestamp_field=trace.timestamp_field,
            input_tokens_field=trace.input_tokens_field,
            output_tokens_field=trace.output_tokens_field,
            blocks_field=trace.blocks_field,
            block_tokens=trace.block_tokens,
        )
    return _mixable(dataset, files)


def _mixable(dataset: MixableDataset, files: _Files) -> MixableData:
    if (random := dataset.random) is not None:
        return RandomData(input_tokens=random.input_tokens, output_tokens=random.output_tokens)
    if (prefixed := dataset.prefix_repetition) is not None:
        return PrefixRepetitionData(
            prefixes=prefixed.prefixes,
            prefix_tokens=prefixed.prefix_tokens,
            suffix_tokens=prefixed.suffix_tokens,
            output_tokens=prefixed.output_tokens,
        )
    if (agent := dataset.agent) is not None:
        return AgentData(
            file=files.placed(agent.conversation) if agent.conversation is not None else None,
            variants=1 if agent.dynamic_prefix is None else agent.dynamic_prefix.variants,
            output_tokens=agent.output_tokens,
        )
    return _of_rows(dataset, files)


def _of_rows(dataset: MixableDataset, files: _Files) -> MixableData:
    if (talks := dataset.share_gpt) is not None:
        return ShareGPTData(
            file=files.placed(talks.file),
            output_tokens=talks.output_tokens,
            max_prompt_tokens=talks.max_prompt_tokens,
            max_total_tokens=talks.max_total_tokens,
        )
    if (custom := dataset.custom) is not None:
        return CustomData(
            file=files.placed(custom.file),
            prompt_field=custom.prompt_field,
            output_tokens_field=custom.output_tokens_field,
            output_tokens=custom.output_tokens,
        )
    if (texts := dataset.texts) is not None:
        return TextsData(
            file=files.placed(texts.file),
            format=texts.format,
            column=texts.column,
            texts_per_prompt=texts.texts_per_prompt,
            instruction=texts.instruction,
            output_tokens_per_text=texts.output_tokens_per_text,
            duplicate=texts.duplicate,
        )
    hub = dataset.hugging_face
    if hub is None:
        raise ValueError(f"the dataset of {files.workload} must set exactly one of its members")
    return HuggingFaceData(
        repository=hub.repository,
        revision=hub.revision,
        subset=hub.subset,
        split=hub.split,
        column=hub.column,
        output_tokens=hub.output_tokens,
        max_rows=hub.max_rows,
    )
