"""Copies of shipped blueprints that guard what people type, and a search of all that is stored."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import httpx

from tests.agent_programs.agent_service import AgentService
from turnlog.events.content import compute_digest

CARD: Final = "5105 1051 0510 5100"
OTHER_CARD: Final = "4012 8888 8888 1881"
EMAIL: Final = "grace@ships.example"

TEXT: Final = f"Charge {CARD} for the boat."

MASKED_TEXT: Final = "Charge [card] for the boat."

SECRETS: Final = (CARD, CARD.replace(" ", ""), OTHER_CARD, OTHER_CARD.replace(" ", ""))

RULES: Final = """
  input_safety:
    - {name: card, check: cards, action: mask}
    - {name: contact, check: emails, action: note}
    - {name: accounts, check: ibans, action: refuse}
    - {name: keys, pattern: 'sk-[a-z]{8}', action: refuse}
"""

GUARDED: Final = "assistant-guarded"

FOUND: Final = {"rule": "card", "action": "mask", "count": 1}


def copy_guarded(platform: AgentService, shipped: str, name: str) -> None:
    """Copy a shipped blueprint under another name, with the rules."""
    platform.copy_shipped_blueprint(shipped, name, {"policies:\n": f"policies:{RULES}"})


async def open_guarded_session(platform: AgentService, **form: object) -> str:
    """Open a session of the shipped assistant with these rules."""
    copy_guarded(platform, "assistant", GUARDED)
    return await platform.open_shipped_session(GUARDED, **form)


async def post_turn(
    platform: AgentService, session: str, key: str | None = None, **form: object
) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    path = f"/v1/sessions/{session}/turns?wait=60"
    return await platform.http.post(path, json={"text": "Hi", **form}, headers=headers)


def iterate_stored(platform: AgentService, events: Iterable[bytes]) -> Iterator[bytes]:
    """Yield everything that is stored: events, blobs, snapshots, tokens and rows."""
    backend = platform.backend
    yield from events
    yield from (raw.stored for raw in backend.library.stored if raw)
    yield from backend.blobs.blobs.values()
    for snapshot in backend.snapshots.snapshots.values():
        yield snapshot
        yield inflate(snapshot)
    yield repr(backend.tokens.events_by_turn).encode()
    rows = list(platform.folder.parent.glob("rows.db*"))
    assert rows
    yield from (Path(file).read_bytes() for file in rows)


def inflate(data: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress(data)
    except zlib.error:
        return b""


async def list_command_digests(platform: AgentService, session: str) -> set[str]:
    stored = [json.loads(each.stored) for each in await platform.load_recorded_events(session)]
    return {each["commandhash"] for each in stored if "commandhash" in each}


async def require_stored_nowhere(platform: AgentService, session: str, *texts: str) -> None:
    """Require that no card and no digest of these texts is stored or published."""
    await platform.list_calls(session)  # Waits until the rows hold the last event.
    events = [each.stored for each in await platform.load_recorded_events(session)]
    stored = list(iterate_stored(platform, events))
    paths = ("history", "events?limit=1000", "window")
    shown = [(await platform.http.get(f"/v1/sessions/{session}/{each}")).content for each in paths]
    for content in (*stored, *shown, json.dumps(platform.bodies).encode()):
        for secret in (*SECRETS, *map(compute_digest, (*SECRETS, *texts))):
            assert secret.encode() not in content, (secret, content[:2_000])
