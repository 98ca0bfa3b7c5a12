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

from tests.faults.attacked_service import AttackedService
from tests.faults.clients.attack_client import AttackClient
from tests.faults.clients.client_history import ClientHistory

TURNS_PER_SESSION: Final = 5
"""Turns a client has in a session; small, because much happens to the first one only."""


@dataclass
class ClientLoad:
    """Clients in conversation."""

    clients: list[AttackClient]
    over: asyncio.Event = field(default_factory=asyncio.Event)
    turn_answered: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run_client(self, client: AttackClient) -> None:
        """Run a client until the load ends, in one session after another."""
        while not self.over.is_set():
            if client.answered % TURNS_PER_SESSION == 0:
                await client.open_session()
            await client.watch_turn(await client.submit_turn())
            async with self.turn_answered:
                self.turn_answered.notify_all()

    async def wait_for_turns(self, turns: int = 1) -> None:
        """Wait until every client has had `turns` more turns answered."""
        goals = [client.answered + turns for client in self.clients]
        async with self.turn_answered:
            await self.turn_answered.wait_for(
                lambda: all(
                    client.answered >= goal
                    for client, goal in zip(self.clients, goals, strict=True)
                )
            )


@asynccontextmanager
async def run_load(
    at: AttackedService, history: ClientHistory, clients: int = 4
) -> AsyncGenerator[ClientLoad]:
    """Run clients while the body runs; each finishes its last turn."""
    load = ClientLoad(
        [AttackClient(at.service.http, history) for _ in itertools.repeat(None, clients)]
    )
    async with asyncio.TaskGroup() as tasks:
        for client in load.clients:
            tasks.create_task(load.run_client(client))
        await load.wait_for_turns()
        yield load
        load.over.set()
