"""The packets of one pod, seen from its node and stamped by the kernel (CLOCK_REALTIME).

Watching costs the server nothing. Each packet passes the node's end of the pod's veth pair exactly
once: to the pod it goes out there, from the pod it comes in. The same packet on the bridge, or on
the veth pair of the other pod, is left out by direction.
"""

import ctypes
import os
import socket
import struct
import threading
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNET = 0x40000000
ETH_P_ALL = 0x0003
ETH_P_IP = 0x0800
"""Protocol number of IPv4. Sockets for it alone see no outgoing packets; only those for `ETH_P_ALL`
do."""
PACKET_PROTOCOL = 0xFFFFF000
"""Offset at which a filter program finds the protocol of a packet."""
SOL_PACKET = 263
PACKET_STATISTICS = 6
SO_ATTACH_FILTER = 26
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
BUFFER_BYTES = 64 * 1024 * 1024
LARGEST_PACKET = 1 << 18
FIN = 0x01
SYN = 0x02
RST = 0x04


@dataclass(frozen=True, slots=True)
class Packet:
    """One TCP segment."""

    at: float
    """Instant of the segment (`time.time()`)."""
    to_server: bool
    peer: tuple[str, int]
    sequence: int
    flags: int
    payload: bytes


class Wire:
    """Everything that goes over one port of a pod, from `start` to `stop`."""

    def __init__(self, *, node_pid: int, address: str, port: int) -> None:
        self._address = address
        self._port = port
        self._socket = _packet_socket(in_network_of=node_pid)
        program = _segments_of(address, port)
        code = ctypes.create_string_buffer(
            b"".join(struct.pack("HBBI", *step) for step in program)
        )
        attached = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, attached)
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read, name="wire")
        self._packets: list[Packet] = []

    def start(self) -> None:
        """Start listening."""
        self._reader.start()

    def stop(self) -> list[Packet]:
        """Stop listening and return all packets, in order.

        Raises RuntimeError when the kernel had to drop some.
        """
        self._ended.set()
        self._reader.join()
        _, dropped = struct.unpack(
            "II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        )
        self._socket.close()
        if dropped:
            raise RuntimeError(
                f"{dropped} packets were lost: this machine is too busy to be listened to"
            )
        return self._packets

    def _read(self) -> None:
        self._socket.settimeout(0.2)
        while True:
            try:
                data, ancillary, _, (interface, _, kind, *_) = self._socket.recvmsg(
                    LARGEST_PACKET, 256
                )
            except TimeoutError:
                if self._ended.is_set():
                    return
                continue
            packet = self._parsed(data, at=_stamp(ancillary))
            outgoing = kind == socket.PACKET_OUTGOING
            if interface.startswith("veth") and packet.to_server == outgoing:
                self._packets.append(packet)

    def _parsed(self, data: bytes, *, at: float) -> Packet:
        header = (data[0] & 0x0F) * 4
        total = struct.unpack_from("!H", data, 2)[0]
        source, destination = (socket.inet_ntoa(data[n : n + 4]) for n in (12, 16))
        source_port, destination_port, sequence = struct.unpack_from(
            "!HHI", data, header
        )
        payload = header + (data[header + 12] >> 4) * 4
        to_server = destination == self._address and destination_port == self._port
        return Packet(
            at=at,
            to_server=to_server,
            peer=(source, source_port)
            if to_server
            else (destination, destination_port),
            sequence=sequence,
            flags=data[header + 13],
            payload=data[payload : total or None],
        )


def node_pid(state: Path) -> int:
    """Read the id of process 1 of the embedded cluster's node, which leads to its namespaces."""
    return int((state / "node.pid").read_text().split()[0])


def _packet_socket(*, in_network_of: int) -> socket.socket:
    """Open a packet socket in the network namespace of a process.

    A socket stays in the network namespace of the thread that made it, so a thread of its own goes
    there. Raises RuntimeError when that fails, as it does without root.
    """
    made: list[socket.socket] = []

    def make() -> None:
        namespace = os.open(f"/proc/{in_network_of}/ns/net", os.O_RDONLY)
        try:
            if (
                ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET)
                != 0
            ):
                raise OSError(
                    ctypes.get_errno(),
                    f"cannot enter the network of process {in_network_of}",
                )
            made.append(
                socket.socket(
                    socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL)
                )
            )
        finally:
            os.close(namespace)

    thread = threading.Thread(target=make, name="to the node")
    thread.start()
    thread.join()
    if not made:
        raise RuntimeError("no packet socket on the node; this needs root")
    made[0].setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    made[0].setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return made[0]


def _stamp(ancillary: list[tuple[int, int, bytes]]) -> float:
    stamp = next(data for _, kind, data in ancillary if kind == SO_TIMESTAMPNS)
    seconds, nanoseconds = struct.unpack("@qq", stamp)
    return int(seconds) + int(nanoseconds) / 1e9


def _segments_of(address: str, port: int) -> list[tuple[int, int, int, int]]:
    """Build a kernel filter program that passes only TCP from or to that address and port.

    Other packets do not wake the reader up.
    """
    ip = struct.unpack("!I", socket.inet_aton(address))[0]
    byte = 0x30
    half = 0x28
    word = 0x20
    half_after_header = 0x48
    header_length = 0xB1
    equals = 0x15
    give = 0x06
    return [
        (half, 0, 0, PACKET_PROTOCOL),
        (equals, 0, 12, ETH_P_IP),
        (byte, 0, 0, 9),
        (equals, 0, 10, socket.IPPROTO_TCP),
        (header_length, 0, 0, 0),
        (word, 0, 0, 12),  # source
        (equals, 0, 2, ip),
        (half_after_header, 0, 0, 0),
        (equals, 4, 5, port),
        (word, 0, 0, 16),  # destination
        (equals, 0, 3, ip),
        (half_after_header, 0, 0, 2),
        (equals, 0, 1, port),
        (give, 0, 0, LARGEST_PACKET),
        (give, 0, 0, 0),
    ]
