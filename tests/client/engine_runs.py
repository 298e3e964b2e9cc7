"""A closed loop of random prompts against a server of any engine, measured and judged."""

from dataclasses import dataclass
from pathlib import Path

from benchrun.api import ServerStatus
from benchrun.judge.results import Judged, results
from benchrun_client.contract import StageRecord, UsersLoad
from benchrun_client.contract.datasets import RandomData
from benchrun_client.engines import ENGINES, EngineName
from client.processes import TINY_MODEL, client
from unit.client.plans import plan, stage
from unit.judge.specs import spec, workload
from unit.measure.records import load_point


@dataclass(frozen=True, slots=True)
class EngineRun:
    """The engine of the server, and the load; lengths are in tokens."""

    engine: EngineName
    users: int
    requests: int
    prompt_tokens: int
    answer_tokens: int

    def measured(self, folder: Path, url: str) -> StageRecord:
        """Return the record that the real client makes of a server at this address."""
        whole = plan(
            stage(
                id=f"chat/concurrency={self.users}/r1",
                data=RandomData(
                    input_tokens=self.prompt_tokens,
                    output_tokens=self.answer_tokens,
                ),
                requests=self.requests,
                load=UsersLoad(concurrency=self.users),
            ),
            target={
                "base_url": url,
                "tokenizer": str(TINY_MODEL),
                "engine": self.engine,
                "metrics_urls": (url + ENGINES[self.engine].metrics_path,),
            },
        )
        with client(folder, whole) as running:
            (found,), _ = running.pull_all()
            assert running.process.wait() == 0
        return found

    def judged(self, record: StageRecord) -> Judged:
        """Return what is said of the record, as of an endpoint of this engine."""
        lengths = {
            "inputTokens": self.prompt_tokens,
            "outputTokens": self.answer_tokens,
        }
        asked = workload(
            requests=self.requests,
            load={"concurrencies": [self.users]},
            dataset={"random": lengths},
        )
        return results(
            [load_point(axis="Concurrency", value=str(self.users))],
            [record],
            [],
            spec=spec(
                endpoint={"url": "http://server", "engine": self.engine},
                workloads=[asked],
            ),
            servers=[ServerStatus(role="server", engine=self.engine)],
        )
