"""Sessions sent to a server whose prefix cache is as large as asked for: hits expected, and those
that came."""

import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchrun.api import ServerStatus, StageSessions
from benchrun.judge.cache_hits import cache_hits
from benchrun.judge.session_results import session_figures
from benchrun.measure import counters, parse_facts
from benchrun_client.contract import SessionsLoad, StageRecord
from benchrun_client.contract.datasets import SessionsData
from benchrun_client.engines import ENGINES
from client.processes import TINY_MODEL, client
from unit.client.plans import plan, stage

AT_ONCE = 6
TURNS = 150
MODEL_TOKENS = 2048
SESSIONS = SessionsData.model_validate(
    {
        "synthetic": {
            "turns": {"mean": 5, "stdev": 2, "min": 2, "max": 7},
            "system_tokens": 200,
            "first_tokens": {"mean": 200, "stdev": 80, "min": 50, "max": 400},
            "turn_tokens": {"mean": 80, "stdev": 40, "min": 10, "max": 150},
            "output_tokens": {"mean": 20, "stdev": 10, "min": 4, "max": 40},
        }
    }
)
"""Six of them have some 4,000 tokens together, without their common 200."""
EVERY_ENGINE_FLAGS = (
    f"--max-model-len={MODEL_TOKENS}",
    "--served-model-name=tiny",
    "--enable-prompt-tokens-details",
)


@dataclass(frozen=True, slots=True)
class CacheRun:
    """A stage of sessions, and what the server said of its cache."""

    record: StageRecord
    server: ServerStatus

    @property
    def figures(self) -> StageSessions:
        hits = cache_hits(self.record, [self.server])
        assert hits is not None
        assert hits.kept is not None
        figures = session_figures(self.record, hits)
        assert figures is not None
        return figures

    @property
    def counted_percent(self) -> float:
        """Return the prompt tokens that were found by the server's own counters."""
        lookups = counters.prefix_lookups(self.record.servers)
        assert lookups is not None
        return 100 * lookups[1] / lookups[0]

    @property
    def error_points(self) -> float:
        """Return by how many points the hits expected of this cache miss those that came."""
        figures = self.figures
        assert figures.kept_hit_percent is not None
        assert figures.hit_percent is not None
        return abs(figures.kept_hit_percent - figures.hit_percent)

    @property
    def evicted_points(self) -> float:
        """Return how much less this cache keeps than an endless one."""
        figures = self.figures
        assert figures.kept_hit_percent is not None
        assert figures.expected_hit_percent is not None
        return figures.expected_hit_percent - figures.kept_hit_percent


def run_sessions(
    url: str,
    folder: Path,
    *,
    args: Sequence[str] = (),
    seed: int = 5,
    sessions: SessionsData = SESSIONS,
    turns: int = TURNS,
    at_once: int = AT_ONCE,
) -> CacheRun:
    """Send a stage of sessions through vLLM's load engine."""
    planned = plan(
        stage(
            id=f"agents/sessions={at_once}/r1",
            workload="agents",
            load=SessionsLoad(sessions=at_once),
            data=sessions,
            requests=turns,
            seed=seed,
        ),
        target={"base_url": url, "tokenizer": str(TINY_MODEL)},
    )
    with client(folder, planned) as running:
        (record,), progress = running.pull_all()
        assert progress.failure is None, progress.failure
        with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
            page = answer.read().decode()
        assert running.process.wait() == 0
    facts = parse_facts(page, ENGINES["VLLM"])
    server = ServerStatus(
        role="server",
        engine="VLLM",
        kv_cache_tokens=facts.kv_cache_tokens,
        reported=facts.reported,
        args=list(args),
    )
    return CacheRun(record, server)
