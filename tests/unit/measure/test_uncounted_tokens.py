"""Answers whose tokens no server has counted: throughput and TPOT are absent, never guessed."""

from benchrun.measure import Plateau, plateau_totals, totals
from benchrun.measure.request_figures import counts_tokens, latencies
from benchrun_client.contract import StageRecord, Streams
from unit.measure.records import record, requests

TOKENS = ("total_output_tokens", "output_throughput", "total_token_throughput")


def answers(*, counted: bool) -> StageRecord:
    """Four answers of ten tokens; a server that does not count them leaves 0."""
    columns = requests(
        start_us=[0, 1000, 2000, 3000],
        ttft_us=[100] * 4,
        e2el_us=[1000] * 4,
        output_tokens=[10 if counted else 0] * 4,
        ended=[int(counted)] * 4,
    )
    streams = None if counted else Streams(closed=(1,) * 4, uncounted=4)
    return record(requests=columns, streams=streams)


def test_what_depends_on_tokens_is_absent() -> None:
    found = totals([answers(counted=False)])
    assert [found[key] for key in TOKENS] == [None] * 3
    assert found["completed"] == 4
    assert latencies([answers(counted=False)], "tpot").count == 0
    assert latencies([answers(counted=False)], "ttft").count == 4


def test_one_stage_without_counts_takes_them_from_its_load_point() -> None:
    mixed = [answers(counted=True), answers(counted=False)]
    assert list(map(counts_tokens, mixed)) == [True, False]
    assert totals(mixed)["output_throughput"] is None
    steady = plateau_totals([(each, Plateau(0, 4000, ())) for each in mixed])
    assert steady["output_throughput"] is None
    assert steady["request_throughput"] is not None


def test_of_a_record_that_does_not_know_what_was_closed_any_count_will_do() -> None:
    older = answers(counted=False).model_copy(update={"streams": None})
    assert not counts_tokens(older)
    assert counts_tokens(answers(counted=True))
