"""The tools whose files are read, one reader a file."""

from collections.abc import Mapping

from benchrun.foreign import aiperf, guidellm, inference_perf, llm_d, vllm_bench
from benchrun.foreign.model import FileReader

READERS: Mapping[str, FileReader] = {
    each.tool: each
    for each in (
        vllm_bench.READER,
        guidellm.READER,
        aiperf.READER,
        inference_perf.READER,
        llm_d.READER,
    )
}
