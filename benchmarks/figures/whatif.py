"""What-if: recorded calls of 4,000 tokens, reassembled with another blueprint or budget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.figure import Figure, Terms, at_least
from benchmarks.parts.prose import Prose
from tests.parts.house import TENANT, House
from tests.services.whatif.twice import FIRST, NAME, SECOND, Said, folder_of, led
from turnlog.projections.audit.what_if.hypothetical_change import WhatIfChange
from turnlog.projections.audit.what_if.reassembled_calls import rebuild_calls
from turnlog.projections.audit.what_if.what_if_report import build_what_if_report
from turnlog.services.auditing.session_record import SessionRecord, SessionRecordLoader
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.plugins import collect_installed

TOKENS: Final = 4_000
TURNS: Final = 60
CHARACTERS: Final = 400
"""Of a text, and of its reply."""
PERSONA: Final = "You are a clerk, and brief."


async def measure(terms: Terms) -> Sequence[Figure]:
    """Apply two changes to the same sessions."""
    first = folder_of(terms.folder / "first", _wide(FIRST, 200), persona_md=PERSONA)
    second = folder_of(terms.folder / "second", _wide(SECOND, 90), persona_md=PERSONA * 2)
    records = await _recorded(first, 50 if terms.long else 10)
    changes = {
        "blueprint": WhatIfChange(
            BlueprintFolders((second,)), BlueprintFolders((second,)).load_blueprint(NAME)
        ),
        "budget": WhatIfChange(BlueprintFolders((first,)), budget=TOKENS // 2),
    }
    return [
        Figure(
            f"what if another {name}",
            f"recorded calls of {TOKENS:,} tokens assembled again a second of processor time, "
            "compared with what was recorded and added up",
            "calls/s",
            tuple(_rate(records, change) for _ in range(terms.runs)),
            at_least(1_000),
        )
        for name, change in changes.items()
    ]


def _wide(text: str, tokens: int) -> str:
    return text.replace(f"tokens: {tokens}", f"tokens: {TOKENS}").replace("max_turns: 4", "")


async def _recorded(folder: Path, sessions: int) -> list[SessionRecord]:
    house, prose = House(), Prose()
    said = [Said(prose.say(CHARACTERS), prose.say(CHARACTERS)) for _ in range(TURNS)]
    for number in range(sessions):
        await led(house, folder, f"s-{number}", said)
    records = SessionRecordLoader(house.sessions)
    return [await records.load_record(TENANT, f"s-{number}") for number in range(sessions)]


def _rate(records: Sequence[SessionRecord], change: WhatIfChange) -> float:
    began, calls = time.process_time(), 0
    for record in records:
        calls += build_what_if_report(
            rebuild_calls(record.events, record.blobs, collect_installed(), change)
        ).calls
    return calls / (time.process_time() - began)
