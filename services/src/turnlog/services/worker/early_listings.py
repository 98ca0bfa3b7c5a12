"""Asks tool servers for their tools when a session is opened, so that its first turn has them.

Every worker hears of an opening, since any of them may get the first turn, and asks in the
background. It is a hint: one that is lost costs the first turn the time that it took before.

Sessions that are never used cost little. A worker has one connection to a server however many
sessions name it, asks it once a minute, and has `MAX_CONNECTIONS` connections at most.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import structlog
from nats.aio.msg import Msg

from turnlog.events.errors import TurnlogError
from turnlog.events.jetstream.nats_connection import NatsConnection, open_subscription
from turnlog.events.model.session_events import SessionOpened
from turnlog.events.subjects import REPUBLISH_PREFIX, SESSION_HISTORY
from turnlog.projections.prompt.sources.tool_sources import has_tools
from turnlog.projections.session.evolve import fold
from turnlog.services.worker.turn_runner import TurnRunner

SEQUENCE_HEADER: Final = "Nats-Sequence"
"""Header of a republished message with the sequence that its stream gave it."""

_log = structlog.get_logger("turnlog.worker")


@asynccontextmanager
async def run_early_listings(
    connection: NatsConnection, tenant: str, answering: TurnRunner
) -> AsyncGenerator[None]:
    """Ask the tool servers of sessions that are opened while the body runs."""

    async def on_message(message: Msg) -> None:
        sequence = (message.headers or {}).get(SEQUENCE_HEADER)
        if sequence is not None:
            await list_tools_early(answering, message.data, int(sequence))

    opened = SESSION_HISTORY.build_leaf_filter(tenant, SessionOpened.leaf)
    async with open_subscription(connection.nc, f"{REPUBLISH_PREFIX}.{opened}", on_message):
        yield


async def list_tools_early(answering: TurnRunner, stored: bytes, sequence: int) -> None:
    """Begin to ask the servers of a session if an event opens one whose first turn needs them."""
    try:
        recorded = await answering.sessions.log.decode_event(stored, sequence)
        state = fold([recorded]) if isinstance(recorded.event, SessionOpened) else None
        if state is None:
            return
        material = await answering.blueprints.load_material(state)
    except TurnlogError as error:
        # The first turn meets the same fault, and records it.
        _log.info("tools-not-listed-early", why=type(error).__name__)
        return
    spec = material.blueprint.tools
    if spec is not None and has_tools(material, state):
        answering.tool_snapshots.list_early(answering.servers, spec)
