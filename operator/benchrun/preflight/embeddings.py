"""Remarks on a server that is to make embeddings."""

from benchrun_client.contract import WHOLE_ANSWERS

from benchrun.api import BenchmarkRunSpec
from benchrun.preflight.kv_cache import ARGS
from benchrun.preflight.remark import Remark, not_checked, note
from benchrun.sizing import ServeArgs

RUNNER = "runner"


def embedding_remarks(spec: BenchmarkRunSpec, args: ServeArgs) -> list[Remark]:
    """Return what to know of a server of embeddings; empty if no workload asks for them.

    How much of a KV cache it needs is not computed: an encoder has none.
    """
    if all(workload.api not in WHOLE_ANSWERS for workload in spec.workloads):
        return []
    remarks = [
        not_checked(
            ARGS,
            "the KV cache of a server of embeddings can't be computed: a model that is an encoder "
            "has none",
        )
    ]
    if not args.is_given(RUNNER):
        text = (
            "without --runner=pooling, vLLM makes embeddings only if the model's files say that it "
            "is made for them"
        )
        remarks.append(note(ARGS, text))
    return remarks
