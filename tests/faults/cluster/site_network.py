"""The network of a site: every NATS node is a host of its own, which can vanish.

A host that vanishes closes no connection: its peers wait. That needs a network between the
processes. Where this process may make network namespaces each node gets one; elsewhere each
node is behind proxies on loopback. Both do the same, and both are used by the tests.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Literal, Protocol

from tests.faults.cluster.network_namespaces import can_make_namespaces, run_namespaces
from tests.faults.cluster.network_proxies import run_proxies
from tests.support.servers.nats_cluster import NODE_COUNT, NodePlace

NetworkForm = Literal["namespaces", "proxies"]


class SiteNetwork(Protocol):
    """Where nodes run, and what separates them."""

    @property
    def places(self) -> Sequence[NodePlace]:
        """The place of each node."""
        ...

    async def cut_off_host(self, number: int) -> None:
        """Let a host vanish: nothing leaves it or reaches it, and its connections stay open."""
        ...

    async def reconnect_host(self, number: int) -> None:
        """Bring a host back; what was sent meanwhile arrives now, as far as anyone still waits."""
        ...


def choose_network_form() -> NetworkForm:
    """Return the best form that is possible here."""
    return "namespaces" if can_make_namespaces() else "proxies"


@asynccontextmanager
async def run_site_network(form: NetworkForm) -> AsyncGenerator[SiteNetwork]:
    """Run a network for the nodes of a cluster while the body runs."""
    if form == "namespaces":
        async with run_namespaces(NODE_COUNT) as spaces:
            yield spaces
    else:
        async with run_proxies(NODE_COUNT) as proxies:
            yield proxies
