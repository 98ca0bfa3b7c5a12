"""The monitoring pages of nats-servers, whose facts no request over NATS returns.

Each server of a cluster has its own pages. A server that does not answer, or whose JetStream does
not run because the server starts or stops, adds nothing: no query depends on a single server.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, TypeVar, cast

from pydantic import BaseModel, JsonValue, ValidationError

from turnlog.events.errors import Unavailable
from turnlog.services.platform.concurrency import run_in_thread

MONITOR_TIMEOUT: Final = 2.0
"""Seconds that a page may take; readiness, which asks for some, has three."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The facts about a nats-server on its monitoring page."""

    name: str
    """Its name, or its monitoring address if it has none."""
    version: str
    started: datetime | None
    """When it was started, by its own clock; None if the page lacks it."""
    syncs_before_ack: bool | None
    """Whether it acknowledges after fsync; None while its JetStream does not run."""


class _JetStreamPart(BaseModel):
    config: Mapping[str, JsonValue] = {}
    """Empty while JetStream does not run; settings that are off are left out."""


class _ServerPage(BaseModel):
    server_name: str = ""
    version: str = ""
    start: datetime | None = None
    jetstream: _JetStreamPart = _JetStreamPart()


async def fetch_servers(monitors: Sequence[str]) -> dict[str, ServerFacts | Unavailable]:
    """Return the facts of each server, or the error of its query, by monitoring address."""
    return await _query_each(monitors, fetch_server_facts)


async def fetch_store_faults(monitors: Sequence[str]) -> dict[str, str | Unavailable | None]:
    """Return by monitoring address why a server cannot write to its disk; None if it can."""
    return await _query_each(monitors, fetch_store_fault)


async def _query_each(
    monitors: Sequence[str], fetch: Callable[[str], Answer]
) -> dict[str, Answer | Unavailable]:
    async def query_one(monitor: str) -> Answer | Unavailable:
        try:
            return await run_in_thread(partial(fetch, monitor))
        except Unavailable as silent:
            return silent

    return dict(zip(monitors, await asyncio.gather(*map(query_one, monitors)), strict=True))


def fetch_server_facts(monitor: str) -> ServerFacts:
    """Return the facts of a server; raises `Unavailable`. Blocks."""
    try:
        page = _ServerPage.model_validate(fetch_monitor_page(monitor, "varz"))
    except ValidationError as error:
        raise Unavailable("nats-server monitoring", f"{monitor} is none: {error}") from error
    config = page.jetstream.config
    syncs = config.get("sync_always") is True if config else None
    return ServerFacts(page.server_name or monitor, page.version, page.start, syncs)


def fetch_store_fault(monitor: str) -> str | None:
    """Return why the server could not write to its disk, if it could not. Blocks.

    It then answers no append, also when the disk has space again, until it is restarted.
    """
    facts = fetch_monitor_page(monitor, "healthz")
    error = facts.get("error") if isinstance(facts, dict) else None
    return str(error) if error else None


def fetch_monitor_page(monitor: str, page: str) -> JsonValue:
    """Return a page of the server's monitoring address, also one that reports an error. Blocks."""
    try:
        with urllib.request.urlopen(f"{monitor}/{page}", timeout=MONITOR_TIMEOUT) as answer:  # noqa: S310 - an operator's own setting
            return cast("JsonValue", json.load(answer))
    except urllib.error.HTTPError as error:
        return cast("JsonValue", json.loads(error.read()))
    except (OSError, ValueError) as error:
        raise Unavailable("nats-server monitoring", f"{monitor}: {error}") from error
