"""Look-ups beside the queue's workers: each in a task of its own, bounded in time, and answered whatever happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from benchrun.decide.collected import (
    Answer,
    Answers,
    Compilations,
    EndpointPods,
    GpuExporter,
    Judging,
    LogTail,
    Question,
    ServerStart,
)
from benchrun.effects.errors import ClusterError
from benchrun.effects.lookups.judging import JUDGING
from benchrun.effects.lookups.reads import (
    COMPILATIONS,
    ENDPOINT_PODS,
    GPU_EXPORTER,
    LOG_TAIL,
    SERVER_START,
    About,
    Kind,
    NotFoundOut,
    Tools,
)

# ---- kinds ------------------------------------------------------------------------------------------------------------
# Every kind of look-up. A new one is a question in `benchrun.decide.collected`, a function in `reads`, and a line below.

KINDS: Mapping[type[Question[Any]], Kind] = {
    Compilations: COMPILATIONS,
    EndpointPods: ENDPOINT_PODS,
    GpuExporter: GPU_EXPORTER,
    Judging: JUDGING,
    LogTail: LOG_TAIL,
    ServerStart: SERVER_START,
}


# ---- asking -----------------------------------------------------------------------------------------------------------
# Look-ups beside the queue's workers: each in a task of its own, bounded in time, and answered whatever happens.

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""Look-ups of a kind that are under way, of all runs together: each holds at most 4 MiB of a log."""
PROBLEM_CHARS = 300

K = TypeVar("K", bound=Hashable)
"""By what its asker knows a run."""


class LookUps(Generic[K]):
    """Starts look-ups and keeps their answers. `news` is called when a run has a new one."""

    def __init__(
        self, tools: Tools, *, news: Callable[[K], None], kinds: Mapping[type[Question[Any]], Kind] = KINDS
    ) -> None:
        self._tools = tools
        self._news = news
        self._kinds = kinds
        self._tasks: dict[tuple[K, Question[Any]], asyncio.Task[None]] = {}
        self._failed_at: dict[tuple[K, Question[Any]], float] = {}
        self._places = {kind: asyncio.Semaphore(AT_ONCE) for kind in kinds}

    def ask(self, key: K, about: About, questions: Iterable[Question[Any]], answers: Answers) -> None:
        """Answer these questions, but for those that are answered or being answered. Never raises, never waits."""
        for question in questions:
            if (key, question) not in self._tasks and not self._is_settled(key, question, answers):
                work = self._answer(key, about, question, answers)
                self._tasks[key, question] = asyncio.create_task(work, name=f"look up {type(question).__name__}")

    async def within(self, seconds: float, about: About, question: Question[Any], answers: Answers) -> None:
        """Answer this question now, once and for all, in at most so many seconds. Never raises."""
        if question not in answers:
            answers[question] = await self._outcome(about, question, seconds)

    def stop(self, key: K) -> None:
        """Leave everything that is being looked up for the run."""
        for each in [each for each in self._tasks if each[0] == key]:
            self._tasks.pop(each).cancel()
        for each in [each for each in self._failed_at if each[0] == key]:
            del self._failed_at[each]

    async def close(self) -> None:
        """Leave everything."""
        tasks = list(self._tasks.values())
        for key in {key for key, _ in self._tasks}:
            self.stop(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_settled(self, key: K, question: Question[Any], answers: Answers) -> bool:
        answer, again = answers.of(question), self._kinds[type(question)].again_seconds
        if answer is None:
            return False
        waited = asyncio.get_running_loop().time() - self._failed_at.get((key, question), 0.0)
        return answer.value is not None or again is None or waited < again

    async def _answer(self, key: K, about: About, question: Question[Any], answers: Answers) -> None:
        seconds = self._kinds[type(question)].seconds
        async with self._places[type(question)]:
            answer = await self._outcome(about, question, seconds)
        news = answers.of(question) != answer
        answers[question] = answer
        del self._tasks[key, question]
        if answer.value is None:
            self._failed_at[key, question] = asyncio.get_running_loop().time()
        if news:
            self._news(key)

    async def _outcome(self, about: About, question: Question[Any], seconds: float) -> Answer[Any]:
        where = f"{about.run.namespace}/{about.run.name}: {type(question).__name__}"
        try:
            async with asyncio.timeout(seconds):
                return Answer(await self._kinds[type(question)].look_up(self._tools, about, question))
        except TimeoutError:
            problem = f"no answer within {seconds:g} s"
        except (ClusterError, NotFoundOut) as error:
            problem = str(error) or type(error).__name__
        except Exception as error:
            logger.exception("%s", where)
            problem = f"{type(error).__name__}: {error}"
        logger.info("%s: %s", where, problem)
        return Answer(None, problem[:PROBLEM_CHARS])
