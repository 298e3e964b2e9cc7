"""The judge's process, without a process."""

from collections.abc import AsyncGenerator

from benchrun.api import Judgement
from benchrun.effects import A, JudgeChild
from benchrun.judge_process.messages import Job, JobPart, SweepJob


class Judge(JudgeChild):
    """A judge that takes and keeps every part, and returns the outcomes it was given."""

    def __init__(self, *outcomes: Judgement | Exception) -> None:
        super().__init__()
        self.jobs: list[Job] = []
        self.parts: list[list[JobPart]] = []  # of each job
        self._outcomes = list(outcomes)
        self.document = b""

    async def judge(
        self,
        job: Job | SweepJob,
        parts: AsyncGenerator[JobPart, None],
        answer: type[A],
    ) -> tuple[A, bytes]:
        assert isinstance(job, Job)
        self.jobs.append(job)
        self.parts.append([])
        async for part in parts:
            self.parts[-1].append(part)
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, answer)
        return outcome, self.document
