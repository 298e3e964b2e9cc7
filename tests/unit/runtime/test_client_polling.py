"""Following a client: every record once, every change told, nothing asked in a hurry, and no client
disables deadlines. Time jumps."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from benchrun.decide import MAX_BACKLOG_BYTES, Collected, PullTarget
from benchrun.effects import WAIT_SECONDS, FetchError
from benchrun.runtime.scrapers import (
    BETWEEN_ANSWERS_SECONDS,
    LONGEST_RETRY_SECONDS,
    MISMATCHED_AFTER,
    NEXT_STAGE_SECONDS,
    NO_NEWS_SECONDS,
    SILENT_AFTER_SECONDS,
    UNUSABLE_RETRY_SECONDS,
    ClientPoller,
)
from benchrun.runtime.telemetry import Telemetry
from benchrun_client.contract import (
    TOKEN_HEADER,
    ClientProgress,
    Delivery,
    Sealed,
    pack_delivery,
    seal,
)
from unit.measure.records import record, sealed_bytes
from unit.runtime.bodies import UID
from unit.runtime.fakes import Web
from unit.runtime.fast_time import passing, run_fast

TOKEN = "0123456789abcdef" * 4
PLAN_DIGEST = "e" * 64
TARGET = PullTarget(
    pod="client",
    url="http://10.0.0.9:8090",
    run_uid=UID,
    from_sequence=0,
    token=TOKEN,
    plan_digest=PLAN_DIGEST,
    stage_ids=tuple(f"chat/rate=4/r{n}" for n in (1, 2, 3)),
)
REFUSED = FetchError("connection refused")


def sealed(sequence: int = 0, **changes: Any) -> Sealed:
    """A record as the client makes it for stage `sequence`, but for `changes`."""
    values = {
        "run_uid": UID,
        "sequence": sequence,
        "stage_id": f"chat/rate=4/r{sequence + 1}",
        "plan_digest": PLAN_DIGEST,
    }
    return seal(record().model_copy(update=values | changes))


def answer(
    *records: Sealed, version: int = 1, run_uid: str = UID, made: int | None = None
) -> bytes:
    """`made`: how many records the client says that it has made."""
    progress = ClientProgress(
        version=version,
        phase="Measuring",
        records=len(records) if made is None else made,
    )
    head = Delivery(
        run_uid=run_uid,
        progress=progress,
        records=tuple(envelope for envelope, _ in records),
    )
    return pack_delivery(head, [body for _, body in records])


def in_turn(*answers: bytes | Exception) -> Callable[[], bytes]:
    """One answer after the other; the last one stays."""
    left = list(answers)

    def next_one() -> bytes:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found

    return next_one


class Scene:
    """A follower, and what came of it."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.web = Web(records=in_turn(*answers))
        self.collected = Collected()
        self.telemetry = Telemetry()
        self.news = 0
        self.follower = ClientPoller(
            TARGET,
            self.collected,
            fetcher=self.web,
            telemetry=self.telemetry,
            news=self._tell,
        )

    async def go_on(self, seconds: float) -> None:
        task = asyncio.create_task(self.follower.run())
        await passing(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def queries(self) -> list[str]:
        return [url.partition("?")[2] for url, _ in self.web.requests]

    def pauses(self) -> list[float]:
        """Between one question and the next."""
        return [
            round(b - a, 3) for a, b in pairwise(at for _, at in self.web.requests)
        ]

    def value(self, name: str) -> float:
        return self.telemetry.registry.get_sample_value(name) or 0.0

    def _tell(self) -> None:
        self.news += 1


def after(seconds: float, *answers: bytes | Exception) -> Scene:
    scene = Scene(*answers)
    run_fast(scene.go_on(seconds))
    return scene


def test_records_are_kept_as_arrivals_and_reported() -> None:
    scene = after(0.5, answer(sealed(0), sealed(1)))
    assert (
        sorted(scene.collected.arrivals)
        == sorted(scene.collected.sequences)
        == [0, 1]
    )
    assert scene.news == 1
    assert scene.value("benchrun_records_total") == 2


def test_each_question_asks_for_what_is_not_known_yet() -> None:
    scene = after(
        0.5, answer(sealed(0)), answer(sealed(1), version=2), answer(version=2)
    )
    assert scene.queries() == [
        "from=0&seen=-1&wait=30&settle=1&contract=3",
        "from=1&seen=1&wait=30&settle=1&contract=3",
        "from=2&seen=2&wait=30&settle=1&contract=3",
    ]


def test_what_is_stored_already_is_not_requested() -> None:
    scene = Scene(answer())
    scene.collected.sequences = {2}
    scene.follower.target = replace(TARGET, from_sequence=2)
    run_fast(scene.go_on(0.1))
    assert scene.queries()[0].startswith("from=3&")


def test_record_that_comes_twice_is_taken_once() -> None:
    scene = after(10, answer(sealed(0)))
    assert scene.news == 1
    assert scene.value("benchrun_records_total") == 1


def test_change_of_the_progress_is_reported_and_nothing_else_is() -> None:
    scene = after(
        60,
        answer(version=1),
        answer(version=1),
        answer(version=2),
        answer(version=2),
    )
    assert scene.news == 2
    assert scene.collected.client.progress is not None
    assert scene.collected.client.progress.version == 2


def test_next_stage_is_reported_with_the_record_of_the_one_before() -> None:
    assert after(0.5, answer(version=1), answer(version=2)).news == 1
    assert (
        after(NEXT_STAGE_SECONDS + 0.5, answer(version=1), answer(version=2)).news
        == 2
    )
    assert (
        after(
            0.5, answer(version=1), answer(version=2), answer(sealed(0), version=3)
        ).news
        == 2
    )


def test_client_that_answers_at_once_without_news_is_polled_with_pauses() -> None:
    assert len(after(60, answer()).web.requests) <= 62


def test_client_that_does_not_answer_is_polled_less_and_less_often() -> None:
    times = after(300, FetchError("connection refused")).web.times_of("contract=3")
    pauses = [round(b - a, 3) for a, b in pairwise(times)]
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert set(pauses[4:]) == {LONGEST_RETRY_SECONDS}


# ---- silence
# ---------------------------------------------------------------------------------------------------------


def test_an_unresponsive_client_is_reported_silent_once() -> None:
    assert after(SILENT_AFTER_SECONDS - 1, REFUSED).collected.client.silent is False
    scene = after(300, REFUSED)
    assert (
        scene.collected.client.silent,
        scene.collected.client.answered,
        scene.news,
    ) == (
        True,
        True,
        1,
    )


def test_client_that_never_answers_the_first_question_counts_as_silent() -> None:
    scene = Scene(answer())
    scene.web.takes_seconds = 1e9
    run_fast(scene.go_on(SILENT_AFTER_SECONDS + 1))
    assert (len(scene.web.requests), scene.collected.client.silent, scene.news) == (
        1,
        True,
        1,
    )


def test_client_that_answers_is_no_longer_silent() -> None:
    scene = after(60, *[REFUSED] * 8, answer(sealed(0)))
    assert scene.collected.client.silent is False
    assert scene.news == 2, "that it is silent, and its record"


def test_a_client_without_news_costs_no_pass_and_an_answer_in_half_a_minute() -> (
    None
):
    """A thousand runs that wait for a GPU would otherwise be reconciled a hundred times a second."""

    async def long_answers() -> Scene:
        scene = Scene(answer())
        await scene.go_on(0.05)  # the first is answered at once
        scene.web.takes_seconds = WAIT_SECONDS
        await scene.go_on(600)
        return scene

    scene = run_fast(long_answers())
    assert (scene.news, scene.collected.client.silent) == (1, False)
    assert min(scene.pauses()[1:]) >= WAIT_SECONDS > SILENT_AFTER_SECONDS


def test_a_client_that_has_answered_once_is_no_reason_for_a_pass_when_it_stops() -> (
    None
):
    assert after(300, answer(), REFUSED).news == 1


def test_client_that_is_only_not_understood_counts_as_silent_too() -> None:
    """Or it would keep every deadline from passing for as long as it likes."""
    assert (
        after(SILENT_AFTER_SECONDS + 1, b"<html>").collected.client.silent is True
    )


def test_a_client_that_breaks_the_follower_counts_as_silent() -> None:
    async def broken_off() -> Scene:
        scene = Scene(ZeroDivisionError("ours"))
        for seconds in (1, 2, 4, 8, 1):
            with pytest.raises(ZeroDivisionError):
                await scene.follower.run()
            await passing(seconds)
        return scene

    assert run_fast(broken_off()).collected.client.silent is True


def test_client_that_answers_after_silence_is_followed_as_before() -> None:
    assert after(3, REFUSED, REFUSED, answer(sealed(0))).collected.sequences == {0}


# ---- what can't be used
# ----------------------------------------------------------------------------------------------


def changing() -> Callable[[], bytes]:
    """Another progress every time, and always the same record of another run."""
    version = 0

    def next_one() -> bytes:
        nonlocal version
        version += 1
        return answer(sealed(0, run_uid="another-run"), version=version)

    return next_one


def test_a_rejected_record_slows_the_polling_of_a_busy_client() -> None:
    scene = Scene(answer())
    scene.web.pages["/records"] = changing()
    run_fast(scene.go_on(60))
    assert min(scene.pauses()) >= UNUSABLE_RETRY_SECONDS
    assert (
        scene.collected.sequences,
        scene.value("benchrun_records_refused_total"),
    ) == (
        set(),
        len(scene.web.requests),
    )


def test_client_that_has_news_all_the_time_is_polled_ten_times_a_second_at_most() -> (
    None
):
    scene = Scene(answer())
    versions = iter(range(1_000_000))
    scene.web.pages["/records"] = lambda: answer(version=next(versions))
    run_fast(scene.go_on(10))
    assert min(scene.pauses()) >= BETWEEN_ANSWERS_SECONDS


def test_client_that_sends_the_same_records_with_every_change_is_polled_once_a_second() -> (
    None
):
    """Some megabytes, whose digests are checked before they are passed over."""
    scene = Scene(answer())
    versions = iter(range(1_000_000))
    scene.web.pages["/records"] = lambda: answer(sealed(0), version=next(versions))
    run_fast(scene.go_on(10))
    assert set(scene.pauses()[1:]) == {NO_NEWS_SECONDS}


UNUSABLE = [
    pytest.param(
        answer(sealed(0, run_uid="another-run")), id="record-of-another-run"
    ),
    pytest.param(
        answer(sealed(0, plan_digest="f" * 64)), id="record-of-another-plan"
    ),
    pytest.param(answer(sealed(0), sealed(1))[:-1], id="cut-short"),
    pytest.param(answer(run_uid="another-run"), id="another-run"),
    pytest.param(b'{"contract":3}\n', id="another-version"),
    pytest.param(b"<html>", id="somebody-else"),
    pytest.param(FetchError("HTTP 401", status=401), id="another-token"),
]


@pytest.mark.parametrize("unusable", UNUSABLE)
def test_three_answers_in_a_row_that_cannot_be_used_are_a_mismatch(
    unusable: bytes | Exception,
) -> None:
    seconds = UNUSABLE_RETRY_SECONDS * (MISMATCHED_AFTER - 1)
    assert seconds <= 4
    assert after(seconds - 0.5, unusable).collected.client.mismatch is None
    scene = after(seconds + 0.5, unusable)
    assert scene.collected.client.mismatch is not None
    assert scene.collected.client.answered
    assert scene.news >= 1
    assert (set(scene.pauses()), len(scene.web.requests)) == (
        {UNUSABLE_RETRY_SECONDS},
        MISMATCHED_AFTER,
    )


def test_one_answer_with_many_records_that_cannot_be_used_is_one() -> None:
    """All are counted. The next answer may be one of the client that replaces it."""
    many = answer(*(sealed(n, run_uid="another-run") for n in range(3)))
    scene = after(60, many, answer(sealed(0)))
    assert (scene.collected.client.mismatch, scene.collected.sequences) == (
        None,
        {0},
    )
    assert scene.value("benchrun_records_refused_total") == 3


def test_answers_that_can_be_used_begin_the_count_anew() -> None:
    bad = b"<html>"
    good = answer(version=1)
    assert (
        after(60, bad, bad, good, bad, bad, good).collected.client.mismatch is None
    )


def test_good_record_beside_a_refused_one_is_taken() -> None:
    scene = after(1, answer(sealed(0, run_uid="another-run"), sealed(1)))
    assert (list(scene.collected.arrivals), scene.news) == ([1], 1)


def test_client_of_another_token_is_polled_slowly() -> None:
    assert set(after(60, FetchError("HTTP 401", status=401)).pauses()) == {
        UNUSABLE_RETRY_SECONDS
    }


# ---- records that are nowhere, records that are too many
# -------------------------------------------------------------


def test_record_that_the_client_has_made_and_does_not_have_is_lost() -> None:
    scene = after(1, answer(made=2))
    assert (scene.collected.client.lost_record, scene.news >= 1) == (0, True)


def test_record_between_others_can_be_lost() -> None:
    scene = after(
        1, answer(sealed(0), sealed(2), made=3), answer(sealed(2), made=3)
    )
    assert scene.collected.client.lost_record == 1


@pytest.mark.parametrize("made", [0, 1])
def test_record_that_is_not_made_yet_or_has_just_come_is_not_lost(
    made: int,
) -> None:
    assert (
        after(
            30, answer(*[sealed(0)][:made], made=made)
        ).collected.client.lost_record
        is None
    )


def test_record_that_was_refused_is_not_lost() -> None:
    scene = after(1, answer(sealed(0, run_uid="another-run"), made=1))
    assert scene.collected.client.lost_record is None


def test_client_is_not_polled_while_too_much_waits_to_be_stored() -> None:
    scene = Scene(answer(sealed(1), made=2))
    scene.collected.take(sealed_bytes(0, bytes(MAX_BACKLOG_BYTES + 1)))

    async def go_on() -> None:
        await scene.go_on(60)
        assert scene.web.requests == []
        scene.collected.arrivals.clear()
        await scene.go_on(0.5)

    run_fast(go_on())
    assert scene.queries()[0].startswith("from=1&")
    assert list(scene.collected.arrivals) == [1]


# ---- the token
# -------------------------------------------------------------------------------------------------------


def test_questions_and_acknowledgements_carry_the_token_and_nothing_else_does() -> (
    None
):
    async def both() -> Scene:
        scene = Scene(answer())
        await scene.go_on(0.1)
        assert await scene.follower.records.acknowledge(2) is True
        return scene

    scene = run_fast(both())
    assert scene.web.headers == [{TOKEN_HEADER: TOKEN}] * len(scene.web.headers)
    assert scene.web.posted == [("http://10.0.0.9:8090/ack", '{"through":2}')]
    assert TOKEN not in repr(TARGET) + "".join(scene.queries())
