from __future__ import annotations

import asyncio
import json
import time
from typing import Final

from pydantic import BaseModel

from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.ids import TOKENS
from turnlog.events.nats.answers import Denied, ask
from turnlog.events.nats.backoff import back_off
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.layout import Settings, Terms, lasting_streams, token_stream
from turnlog.events.nats.sizes import MAX_MESSAGE

NO_STREAM: Final = 10059


async def provision(connection: Connection, terms: Terms, *, patience: float = 30.0) -> None:
    """Create missing streams and verify all; raises `Corrupt` for an unusable server or stream."""
    if connection.nc.max_payload < MAX_MESSAGE:
        actual = connection.nc.max_payload
        raise Corrupt("nats-server, max_payload", f"is {actual}; make it {MAX_MESSAGE} or more")
    for wanted in (*lasting_streams(terms), token_stream(terms)):
        await _provide(connection, wanted, patience)


async def provision_tokens(connection: Connection, terms: Terms, *, patience: float = 30.0) -> None:
    """Create TOKENS again after a reconnect: a restarted server has lost it."""
    await _provide(connection, token_stream(terms), patience)


def check(what: str, wanted: Settings, effective: Settings) -> None:
    """Refuse settings that differ from `wanted`; a server omits those with their default."""
    for setting, value in wanted.items():
        actual = effective.get(setting, "default" if setting == "persist_mode" else None)
        if actual != value:
            raise Corrupt(
                f"{what}, {setting}",
                f"is {json.dumps(actual)} and must be {json.dumps(value)}: "
                f"edit the {what} with the `nats` tool, or use another NATS",
            )


async def _provide(connection: Connection, wanted: Settings, patience: float) -> None:
    ends = asyncio.get_running_loop().time() + patience
    failures = 0
    while True:
        try:
            effective = await _made_or_found(connection, wanted)
            return check(f"stream {wanted['name']}", wanted, effective)
        except Unavailable:
            # Also if another process created the stream meanwhile: the next try finds it.
            if asyncio.get_running_loop().time() > ends:
                raise
            failures += 1
            await back_off(failures)


class _Stream(BaseModel):
    config: Settings


async def _made_or_found(connection: Connection, wanted: Settings) -> Settings:
    name = wanted["name"]
    try:
        return (await ask(connection, f"$JS.API.STREAM.INFO.{name}", _Stream)).config
    except Denied as denied:
        if denied.code != NO_STREAM:
            raise
    payload = json.dumps(wanted | _first(wanted)).encode()
    return (await ask(connection, f"$JS.API.STREAM.CREATE.{name}", _Stream, payload)).config


def _first(wanted: Settings) -> Settings:
    """Start TOKENS at a sequence that no earlier TOKENS can have reached."""
    return {"first_seq": int(time.time() * 1000)} if wanted["name"] == TOKENS else {}
