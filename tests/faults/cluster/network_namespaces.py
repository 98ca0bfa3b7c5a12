"""Hosts as network namespaces: a bridge in a namespace of its own, and a cable to each host.

This process and its roles stay in the machine's own network, which has one cable to the bridge. A
host vanishes when its cable is pulled out of the bridge. Addresses are from the range that is set
aside for measuring networks (RFC 2544), which no machine uses. The number of a site's block of
addresses is part of every name, so of two sites with the same block the second one is refused by
the kernel and takes another.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from tests.support.servers.nats_cluster import NodeEndpoints, NodePlace

ADDRESS_RANGE: Final = IPv4Network("198.18.0.0/15")

BLOCK_PREFIX: Final = 28
"""Each site has a block of sixteen addresses."""

BLOCK_COUNT: Final = 1 << (BLOCK_PREFIX - ADDRESS_RANGE.prefixlen)

CLIENT_PORT, ROUTE_PORT, MONITOR_PORT = 4222, 6222, 8222

BRIDGE: Final = "bridge0"
HOST_DEVICE: Final = "eth0"


class NamespaceRefused(Exception):
    """`ip` refused a command."""


@dataclass(frozen=True, slots=True)
class NamespaceNetwork:
    """A bridge and its hosts."""

    block: int
    places: Sequence[NodePlace]

    async def cut_off_host(self, number: int) -> None:
        """See `SiteNetwork`."""
        await _set_cable(self.block, number, "down")

    async def reconnect_host(self, number: int) -> None:
        """See `SiteNetwork`."""
        await _set_cable(self.block, number, "up")


@cache
def can_make_namespaces() -> bool:
    """Return whether this process may make namespaces and connect them."""
    if os.geteuid() != 0 or _find_ip() is None:
        return False
    probe = f"turnlog-probe-{os.getpid()}"
    commands = (
        f"netns add {probe}",
        f"-n {probe} link add {BRIDGE} type bridge",
        f"-n {probe} link add cable type veth peer name {HOST_DEVICE}",
        f"netns exec {probe} true",
    )
    try:
        return all(_can_run_ip(command) for command in commands)
    finally:
        _can_run_ip(f"netns del {probe}")


@asynccontextmanager
async def run_namespaces(count: int) -> AsyncGenerator[NamespaceNetwork]:
    """Make a namespace for each host; all are removed when the body, or this process, ends."""
    block = await _claim_block()
    cleaner = await _start_cleaner(block, count)
    try:
        for command in _list_commands(block, count):
            await _run_ip(command)
        yield NamespaceNetwork(block, [_build_place(block, number) for number in range(count)])
    finally:
        assert cleaner.stdin is not None
        cleaner.stdin.close()
        await cleaner.wait()


async def _claim_block() -> int:
    """Return a block of addresses that no other site has, with its first namespace."""
    while True:
        block = secrets.randbelow(BLOCK_COUNT)
        try:
            await _run_ip(f"netns add {_name_switch(block)}")
        except NamespaceRefused as refusal:
            if "File exists" not in str(refusal):
                raise
        else:
            return block


def _list_commands(block: int, count: int) -> Iterator[str]:
    switch, uplink = _name_switch(block), _name_uplink(block)
    yield f"-n {switch} link add {BRIDGE} type bridge forward_delay 0"
    yield f"-n {switch} link set {BRIDGE} up"
    yield f"-n {switch} link add uplink type veth peer name {uplink} netns 1"
    yield f"-n {switch} link set uplink master {BRIDGE} up"
    yield f"addr add {_get_address(block, count)}/{BLOCK_PREFIX} dev {uplink}"
    yield f"link set {uplink} up"
    for number in range(count):
        host = _name_host(block, number)
        yield f"netns add {host}"
        yield f"-n {host} link set lo up"
        yield f"-n {switch} link add cable{number} type veth peer name {HOST_DEVICE} netns {host}"
        yield f"-n {switch} link set cable{number} master {BRIDGE} up"
        yield f"-n {host} addr add {_get_address(block, number)}/{BLOCK_PREFIX} dev {HOST_DEVICE}"
        yield f"-n {host} link set {HOST_DEVICE} up"


async def _set_cable(block: int, number: int, state: str) -> None:
    await _run_ip(f"-n {_name_switch(block)} link set cable{number} {state}")


def _build_place(block: int, number: int) -> NodePlace:
    address = _get_address(block, number)
    endpoints = NodeEndpoints(
        client=f"{address}:{CLIENT_PORT}",
        route=f"{address}:{ROUTE_PORT}",
        monitor=f"{address}:{MONITOR_PORT}",
    )
    prefix = (_require_ip(), "netns", "exec", _name_host(block, number))
    return NodePlace(listening=endpoints, reachable=endpoints, command_prefix=prefix)


_CLEANER_SCRIPT: Final = """\
read -r _
ip=$1 uplink=$2
shift 2
for name in "$@"; do
  for pid in $("$ip" netns pids "$name"); do kill -9 "$pid"; done
  "$ip" netns del "$name"
done
"$ip" link del "$uplink"
"""


async def _start_cleaner(block: int, count: int) -> Process:
    """Start a process that removes everything once this process closes its input or ends."""
    hosts = (_name_host(block, number) for number in range(count))
    words = (_require_ip(), _name_uplink(block), *hosts, _name_switch(block))
    return await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", _CLEANER_SCRIPT, "turnlog-site-cleaner", *words),
        stdin=PIPE,
        stdout=DEVNULL,
        stderr=DEVNULL,
        start_new_session=True,
    )


def _name_switch(block: int) -> str:
    return f"turnlog-{block}-switch"


def _name_host(block: int, number: int) -> str:
    return f"turnlog-{block}-n{number}"


def _name_uplink(block: int) -> str:
    """Return the name of the machine's cable, of at most fifteen characters."""
    return f"turnlog{block}"


def _get_address(block: int, number: int) -> IPv4Address:
    return ADDRESS_RANGE.network_address + 16 * block + 1 + number


@cache
def _find_ip() -> str | None:
    # A shell of root without a login lacks the system's own programs.
    return shutil.which("ip", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _require_ip() -> str:
    program = _find_ip()
    assert program is not None
    return program


def _can_run_ip(command: str) -> bool:
    words = (_require_ip(), *command.split())
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


async def _run_ip(command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        _require_ip(), *command.split(), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
    )
    _, errors = await process.communicate()
    if process.returncode:
        raise NamespaceRefused(f"ip {command}: {errors.decode().strip()}")
