"""The recorder process: records come back in order, and its death is told."""

import json

import pytest
from benchrun_client.contract import open_record
from benchrun_client.failures import RunFailure
from benchrun_client.record_process import RecordProcess, packed
from benchrun_client.stage_record import record_of
from unit.client.plans import raw_stage


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    import benchrun_client

    assert benchrun_client.__file__ is not None
    monkeypatch.setenv("PYTHONPATH", benchrun_client.__file__.rsplit("/", 2)[0])


async def test_records_come_back_sealed_in_order_with_their_headlines() -> None:
    recorder = await RecordProcess.start()
    stages = [raw_stage(sequence=n) for n in range(3)]
    made = [await recorder.record(packed(stage)) for stage in stages]
    await recorder.stop()
    assert [open_record(body) for (_, body), _ in made] == [
        record_of(stage) for stage in stages
    ]
    assert [json.loads(line)["digest"] for _, line in made] == [
        envelope.digest for (envelope, _), _ in made
    ]


async def test_a_recorder_that_dies_is_reported_and_not_waited_for(
    capfd: pytest.CaptureFixture[str],
) -> None:
    recorder = await RecordProcess.start()
    with pytest.raises(RunFailure, match="ended with code 1") as failure:
        await recorder.record(packed(raw_stage(ttfts=[])))
    assert failure.value.reason == "ClientError"
    assert "zip()" in capfd.readouterr().err
