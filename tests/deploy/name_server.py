"""A name server like the one that Docker gives a container: the name of a service has the addresses
of all its containers that run.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import cast

TIME_TO_LIVE = 600
"""Seconds, as Docker says; a client that believed it would miss every restart."""

NAME_ERROR = 3

_HEADER = struct.Struct("!6H")

_ANSWER = struct.Struct("!HHHIH4s")


@dataclass
class NameServer:
    """The addresses by name, which a test may change."""

    addresses: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def build_answer(self, query: bytes) -> bytes:
        """Return the answer to a query for the addresses of one name."""
        number, *_ = _HEADER.unpack_from(query)
        name, end = _read_name(query)
        found = self.addresses.get(name, [])
        question = query[_HEADER.size : end + 4]
        flags = 0x8180 | (0 if found else NAME_ERROR)
        return (
            _HEADER.pack(number, flags, 1, len(found), 0, 0)
            + question
            + b"".join(map(_pack_address, found))
        )


def _read_name(query: bytes) -> tuple[str, int]:
    """Return the name of a question, and where it ends."""
    labels: list[str] = []
    at = _HEADER.size
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return ".".join(labels), at + 1


def _pack_address(address: str) -> bytes:
    # 0xC00C refers to the name in the question.
    return _ANSWER.pack(0xC00C, 1, 1, TIME_TO_LIVE, 4, IPv4Address(address).packed)


@dataclass
class _NameProtocol(asyncio.DatagramProtocol):
    server: NameServer
    transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No subclass of it on Python 3.11, though it has its methods.
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self.transport
        self.transport.sendto(self.server.build_answer(data), addr)


@asynccontextmanager
async def run_name_server(server: NameServer, address: Sequence[str | int]) -> AsyncGenerator[None]:
    """Answer on a host and port while the body runs."""
    host, port = address
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _NameProtocol(server), local_addr=(str(host), int(port))
    )
    try:
        yield
    finally:
        transport.close()
