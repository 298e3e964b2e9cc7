"""The judge process: `python -m benchrun.judge_process MEMORY_BYTES CPU_SECONDS`.

It forks for each job. The fork sets the limits, reads the job, judges, writes the answer and ends.
So modules are loaded only once, which takes a second, and no run is affected by what another left
behind. If a fork fails, the process ends as well, because the rest of the job is still in the pipe.
"""

import gc
import os
import resource
import select
import signal
import sys
import traceback

from pydantic import BaseModel

from benchrun.judge_process.judge_job import judge_job, table_job
from benchrun.judge_process.messages import (
    MAX_JUDGEMENT_BYTES,
    DocumentHead,
    Job,
    read_job,
)

NO_MORE_JOBS = 100
NICENESS = 10  # a judgement may wait; scraping and releasing servers, in the operator, may not
MAX_WORDS = 300


def main(arguments: list[str]) -> int:
    """Judge jobs until there are no more; return the exit code.

    1 if a fork failed, otherwise 0.
    """
    memory_bytes, cpu_seconds = (int(argument) for argument in arguments)
    os.nice(NICENESS)
    gc.freeze()  # what is loaded stays shared with the forks
    while True:
        select.select([sys.stdin.fileno()], [], [])
        child = os.fork()
        if child == 0:
            os._exit(_judge_one(memory_bytes, cpu_seconds))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == NO_MORE_JOBS:
            return 0
        if code != 0:
            if code < 0:
                print(f"killed by {signal.Signals(-code).name}", file=sys.stderr)
            return 1


def _judge_one(memory_bytes: int, cpu_seconds: int) -> int:
    try:
        _limit(memory_bytes, cpu_seconds)
        if (found := read_job(sys.stdin.buffer)) is None:
            return NO_MORE_JOBS
        job, parts = found
        judged: BaseModel
        document = b""
        if isinstance(job, Job):
            judged, document = judge_job(job, parts)
        else:
            judged = table_job(job, parts)
        line = judged.model_dump_json(by_alias=True, exclude_none=True).encode()
        if len(line) >= MAX_JUDGEMENT_BYTES:
            raise ValueError(f"the judgement has {len(line)} bytes")
        sys.stdout.buffer.write(
            line + b"\n" + DocumentHead.of(document).line() + document
        )
        sys.stdout.buffer.flush()
    except BaseException as error:
        print(_in_a_line(error), file=sys.stderr, flush=True)
        return 1
    return 0


def _limit(memory_bytes: int, cpu_seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))


def _in_a_line(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = (
        f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"  # noqa: PTH119
        if frames
        else ""
    )
    words = " ".join(str(error).split())[:MAX_WORDS]
    return f"{_kind(error)}: {words}{where}"


def _kind(error: BaseException) -> str:
    """Return the name of an error's type.

    If memory runs out within a Rust library, its Python binding panics over a null pointer. That
    counts as a MemoryError.
    """
    is_allocation = "pointer is null" in str(error)
    return "MemoryError" if is_allocation else type(error).__name__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
