"""Load: several clients in conversation while the body runs.

A client sends one command at a time, and sends the next when it has received the end of the turn
before.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.faults.client import Client
from tests.faults.history import History
from tests.faults.site import Site

SESSION: Final = 5
"""Turns a client has in a session; small, because much happens to the first one only."""


@dataclass
class Load:
    """Clients in conversation."""

    clients: list[Client]
    over: asyncio.Event = field(default_factory=asyncio.Event)
    went_on: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def talk(self, client: Client) -> None:
        """Run a client until the load ends, in one session after another."""
        while not self.over.is_set():
            if client.answered % SESSION == 0:
                await client.open()
            await client.watch(await client.submit())
            async with self.went_on:
                self.went_on.notify_all()

    async def goes_on(self, turns: int = 1) -> None:
        """Wait until every client has had `turns` more turns answered."""
        goals = [client.answered + turns for client in self.clients]
        async with self.went_on:
            await self.went_on.wait_for(
                lambda: all(
                    client.answered >= goal
                    for client, goal in zip(self.clients, goals, strict=True)
                )
            )


@asynccontextmanager
async def load(at: Site, history: History, clients: int = 4) -> AsyncGenerator[Load]:
    """Run clients while the body runs; each finishes its last turn."""
    talking = Load([Client(at.service.http, history) for _ in itertools.repeat(None, clients)])
    async with asyncio.TaskGroup() as tasks:
        for client in talking.clients:
            tasks.create_task(talking.talk(client))
        await talking.goes_on()
        yield talking
        talking.over.set()
