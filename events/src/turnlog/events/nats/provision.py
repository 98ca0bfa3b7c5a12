from __future__ import annotations

import asyncio
import json
import time
from typing import Final

from pydantic import BaseModel

from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.ids import TOKENS_STREAM
from turnlog.events.nats.answers import JsApiError, request_json
from turnlog.events.nats.backoff import wait_backoff
from turnlog.events.nats.connection import NatsConnection
from turnlog.events.nats.layout import JetStreamConfig, StreamOptions, build_durable_streams, build_token_stream
from turnlog.events.nats.sizes import MAX_MESSAGE_BYTES

STREAM_NOT_FOUND: Final = 10059


async def provision_streams(connection: NatsConnection, terms: StreamOptions, *, patience: float = 30.0) -> None:
    """Create missing streams and verify all; raises `Corrupt` for an unusable server or stream."""
    if connection.nc.max_payload < MAX_MESSAGE_BYTES:
        actual = connection.nc.max_payload
        raise Corrupt("nats-server, max_payload", f"is {actual}; make it {MAX_MESSAGE_BYTES} or more")
    for wanted in (*build_durable_streams(terms), build_token_stream(terms)):
        await _ensure_stream(connection, wanted, patience)


async def provision_token_stream(connection: NatsConnection, terms: StreamOptions, *, patience: float = 30.0) -> None:
    """Create TOKENS again after a reconnect: a restarted server has lost it."""
    await _ensure_stream(connection, build_token_stream(terms), patience)


def check_config(what: str, wanted: JetStreamConfig, effective: JetStreamConfig) -> None:
    """Refuse settings that differ from `wanted`; a server omits those with their default."""
    for setting, value in wanted.items():
        actual = effective.get(setting, "default" if setting == "persist_mode" else None)
        if actual != value:
            raise Corrupt(
                f"{what}, {setting}",
                f"is {json.dumps(actual)} and must be {json.dumps(value)}: "
                f"edit the {what} with the `nats` tool, or use another NATS",
            )


async def _ensure_stream(connection: NatsConnection, wanted: JetStreamConfig, patience: float) -> None:
    ends = asyncio.get_running_loop().time() + patience
    failures = 0
    while True:
        try:
            effective = await _find_or_create_stream(connection, wanted)
            return check_config(f"stream {wanted['name']}", wanted, effective)
        except Unavailable:
            # Also if another process created the stream meanwhile: the next try finds it.
            if asyncio.get_running_loop().time() > ends:
                raise
            failures += 1
            await wait_backoff(failures)


class _StreamConfigReply(BaseModel):
    config: JetStreamConfig


async def _find_or_create_stream(connection: NatsConnection, wanted: JetStreamConfig) -> JetStreamConfig:
    name = wanted["name"]
    try:
        return (await request_json(connection, f"$JS.API.STREAM.INFO.{name}", _StreamConfigReply)).config
    except JsApiError as denied:
        if denied.code != STREAM_NOT_FOUND:
            raise
    payload = json.dumps(wanted | _choose_first_sequence(wanted)).encode()
    return (await request_json(connection, f"$JS.API.STREAM.CREATE.{name}", _StreamConfigReply, payload)).config


def _choose_first_sequence(wanted: JetStreamConfig) -> JetStreamConfig:
    """Start TOKENS at a sequence that no earlier TOKENS can have reached."""
    return {"first_seq": int(time.time() * 1000)} if wanted["name"] == TOKENS_STREAM else {}
