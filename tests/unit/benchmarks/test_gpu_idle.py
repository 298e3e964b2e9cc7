"""What the idle benchmark makes of packets: exchanges, whatever way their bytes were cut, and
seconds without any."""

from typing import Self

import pytest
from gpu_idle_kit.figures import NotAsExpected, seen
from gpu_idle_kit.streams import Exchange, exchanges, refused
from gpu_idle_kit.wire import RST, SYN, Packet

PEER = ("10.0.0.2", 40000)
REQUEST = b"POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
PLAIN = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: "
    b"chunked\r\n\r\n5\r\nhello\r\nb;x=1\r\n0\r\n\r\nworld!\r\n0\r\n\r\n"
)


class Talk:
    """A connection under way: pieces of bytes, one packet and one second each."""

    def __init__(self, *, sequence: int = 0xFFFFFFF0) -> None:
        self.packets: list[Packet] = []
        self._next = {True: sequence, False: sequence}
        for to_server in (True, False):
            self._add(to_server, b"", flags=SYN)
            self._next[to_server] = (sequence + 1) % (1 << 32)

    def ask(self, *pieces: bytes) -> Self:
        return self._say(True, pieces)

    def answer(self, *pieces: bytes) -> Self:
        return self._say(False, pieces)

    def _say(self, to_server: bool, pieces: tuple[bytes, ...]) -> Self:
        for piece in pieces:
            self._add(to_server, piece)
            self._next[to_server] = (self._next[to_server] + len(piece)) % (1 << 32)
        return self

    def _add(self, to_server: bool, payload: bytes, *, flags: int = 0) -> None:
        self.packets.append(
            Packet(
                at=float(len(self.packets)),
                to_server=to_server,
                peer=PEER,
                sequence=self._next[to_server],
                flags=flags,
                payload=payload,
            )
        )


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[n : n + size] for n in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("reply", [PLAIN, CHUNKED], ids=["plain", "chunked"])
def test_an_exchange_lasts_from_the_first_byte_asked_to_the_last_answered(
    reply: bytes, size: int
) -> None:
    talk = Talk().ask(*cut(REQUEST, size)).answer(*cut(reply, size))
    found = exchanges(talk.packets)
    assert [(e.method, e.path, e.status) for e in found] == [
        ("POST", "/v1/completions", 200)
    ]
    assert (found[0].began, found[0].ended) == (2.0, talk.packets[-1].at)
    assert found[0].is_load


def test_a_connection_that_is_kept_gives_one_exchange_a_request() -> None:
    talk = (
        Talk()
        .ask(REQUEST)
        .answer(CHUNKED)
        .ask(b"GET /metrics?x=1 HTTP/1.1\r\n\r\n")
        .answer(PLAIN)
    )
    assert [
        (e.path, e.began, e.ended, e.is_load) for e in exchanges(talk.packets)
    ] == [
        ("/v1/completions", 2.0, 3.0, True),
        ("/metrics", 4.0, 5.0, False),
    ]


def test_packets_may_come_twice_and_out_of_order() -> None:
    packets = Talk().ask(*cut(REQUEST, 20)).answer(*cut(PLAIN, 20)).packets
    shuffled = [
        *packets[:2],
        packets[3],
        packets[2],
        packets[2],
        *packets[4:],
        packets[-1],
    ]
    assert [(e.status, e.began) for e in exchanges(shuffled)] == [(200, 2.0)]


def test_a_request_that_was_cut_off_has_no_status_and_ends_with_its_connection() -> (
    None
):
    talk = Talk().ask(REQUEST).answer(CHUNKED[:60])
    assert [(e.status, e.ended) for e in exchanges(talk.packets)] == [(None, 3.0)]


def test_a_port_used_again_is_another_connection() -> None:
    repeated = Talk(sequence=77).ask(REQUEST).answer(PLAIN)
    assert (
        len(
            exchanges(
                [*Talk().ask(REQUEST).answer(PLAIN).packets, *repeated.packets]
            )
        )
        == 2
    )


def test_only_the_servers_own_reset_shows_that_it_did_not_listen_yet() -> None:
    packets = Talk().packets
    assert not refused(packets)
    assert not refused([*packets, Packet(9.0, True, PEER, 0, RST, b"")])
    assert refused([*packets, Packet(9.0, False, PEER, 0, RST, b"")])


def exchange(
    path: str, began: float, ended: float, *, status: int | None = 200
) -> Exchange:
    method = "GET" if path in ("/health", "/metrics") else "POST"
    return Exchange(method, path, status, began, ended, PEER)


def load(*spans: tuple[float, float]) -> list[Exchange]:
    return [exchange("/v1/completions", began, ended) for began, ended in spans]


ARM = [
    exchange("/health", 0, 9, status=503),
    exchange("/health", 9, 10),
    *load((11, 12)),  # canary
    *load((12.5, 14), (13, 14)),  # warm-up
    exchange("/metrics", 14, 15),
    *load((15, 20), (16, 18)),
    *load((20.5, 25), (24, 30)),
]


def test_idle_is_what_no_request_covers() -> None:
    arm = seen(ARM, deleted_at=32, stages=2, requests=2)
    assert arm.idle_spans() == [
        (10, 11),
        (12, 12.5),
        (14, 15),
        (20, 20.5),
        (30, 32),
    ]
    assert (arm.idle_seconds, arm.warmup_seconds, arm.ready_to_first_seconds) == (
        5,
        2.5,
        1,
    )
    assert (arm.between_stages_seconds, arm.last_to_deleted_seconds) == (0.5, 2)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param(load((11, 12)), "never was healthy", id="no health"),
        pytest.param(ARM[:5], "fewer than", id="too few"),
        pytest.param(
            [*ARM[:-1], exchange("/v1/completions", 24, 30, status=500)],
            "failed",
            id="failed",
        ),
        pytest.param(
            [*ARM, *load((29, 31))],
            "overlap",
            id="not the stages that were asked for",
        ),
    ],
)
def test_an_unknown_measurement_is_rejected(
    found: list[Exchange], why: str
) -> None:
    with pytest.raises(NotAsExpected, match=why):
        seen(found, deleted_at=32, stages=2, requests=2)
