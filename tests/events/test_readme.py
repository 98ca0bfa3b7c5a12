"""The examples of events/README.md, run as written."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.events.log_sessions import append_texts, build_batch, take_items
from turnlog.events.jetstream.event_consumer import subscribe_events
from turnlog.events.jetstream.jetstream_client import JetStreamClient
from turnlog.events.tokens import Token

README = Path(__file__).parents[2] / "events/README.md"


@pytest.fixture(scope="module")
def examples() -> dict[str, Any]:
    """The definitions of the README's code."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL):
        exec(compile(block, str(README), "exec"), names)  # noqa: S102 -- our own words
    return names


async def test_listener_prints_tokens_and_events_as_they_arrive(
    examples: dict[str, Any],
    jetstream: JetStreamClient,
    nats_url: str,
    fresh_tenant: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    session = fresh_tenant  # of the tenant `default`, which the example means
    await append_texts(jetstream.log, "default", session, "hello")
    listening = asyncio.create_task(examples["listen"](nats_url, session))
    printed = ""
    try:
        word = Token(call="1.1", attempt=1, offset=0, text="a word")
        await jetstream.tokens.publish_token("default", session, 1, word)
        async with asyncio.timeout(30):
            while "a word" not in printed:
                await asyncio.sleep(0.01)
                printed += capsys.readouterr().out
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    assert re.search(r"1 TurnSubmitted \(cursor [0-9a-f]{8}\.1\.1\.0\.0\)\na word$", printed)


async def test_writer_returns_the_outcome_of_its_append(
    examples: dict[str, Any], jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    await append_texts(jetstream.log, "default", fresh_tenant, "hello")
    assert await examples["exclude"](nats_url, fresh_tenant, 1) == "stored as 2"
    async with subscribe_events(nats_url, session=fresh_tenant, types=("turn-excluded",)) as stream:
        (event,) = await take_items(stream, 1)
    assert event == await jetstream.log.read_last_event("default", fresh_tenant)
    outcome = await jetstream.log.append_batch(build_batch("default", fresh_tenant, None, "again"))
    assert "actual=2" in repr(outcome)
