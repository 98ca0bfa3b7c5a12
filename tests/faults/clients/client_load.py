"""Load: several clients in conversation while the body runs.

A client sends one command at a time, and sends the next when it has received the end of the turn
before.
"""

from __future__ import annotations

import asyncio
import itertools
import time
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
    turn_seconds: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    """Seconds of each turn, from its first request until its client received the end."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    turn_answered: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run_client(self, client: AttackClient) -> None:
        """Run a client until the load ends, in one session after another."""
        while not self.over.is_set():
            if client.answered % TURNS_PER_SESSION == 0:
                await client.open_session()
            began_at = time.monotonic()
            heard = await client.watch_turn(await client.submit_turn())
            self.turn_seconds[heard.session, heard.turn] = time.monotonic() - began_at
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
    attacking = [
        AttackClient(http=at.service.http, history=history) for _ in itertools.repeat(None, clients)
    ]
    async with run_clients(attacking) as load:
        yield load


@asynccontextmanager
async def run_clients(clients: list[AttackClient]) -> AsyncGenerator[ClientLoad]:
    """Run these clients likewise; the body begins when each has had a turn answered."""
    load = ClientLoad(clients)
    async with asyncio.TaskGroup() as tasks:
        for client in load.clients:
            tasks.create_task(load.run_client(client))
        await load.wait_for_turns()
        yield load
        load.over.set()
