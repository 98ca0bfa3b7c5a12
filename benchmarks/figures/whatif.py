"""What-if: recorded calls of 4,000 tokens, reassembled with another blueprint or budget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_least
from benchmarks.support.random_prose import RandomProse
from tests.services.what_if.two_versions import (
    FIRST_VERSION,
    NAME,
    SECOND_VERSION,
    ScriptedTurn,
    run_conversation,
    write_blueprint_folder,
)
from tests.support.sessions.session_harness import TENANT, SessionHarness
from turnlog.projections.audit.what_if.hypothetical_change import WhatIfChange
from turnlog.projections.audit.what_if.reassembled_calls import rebuild_calls
from turnlog.projections.audit.what_if.what_if_report import build_what_if_report, leave_unpriced
from turnlog.services.audit.session_record import SessionRecord, SessionRecordLoader
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.extensions.plugins import collect_installed

TOKENS: Final = 4_000
TURNS: Final = 60
CHARACTERS: Final = 400
"""Of a text, and of its reply."""
PERSONA: Final = "You are a clerk, and brief."


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Apply two changes to the same sessions."""
    first = write_blueprint_folder(
        terms.folder / "first", _extend_budget(FIRST_VERSION, 200), persona_md=PERSONA
    )
    second = write_blueprint_folder(
        terms.folder / "second", _extend_budget(SECOND_VERSION, 90), persona_md=PERSONA * 2
    )
    records = await _record_sessions(first, 50 if terms.long else 10)
    changes = {
        "blueprint": WhatIfChange(
            folder=BlueprintFolders((second,)),
            blueprint=BlueprintFolders((second,)).load_blueprint(NAME),
        ),
        "budget": WhatIfChange(folder=BlueprintFolders((first,)), budget=TOKENS // 2),
    }
    return [
        Figure(
            name=f"what if another {name}",
            measured=f"recorded calls of {TOKENS:,} tokens assembled again a second of"
            " processor time, "
            "compared with what was recorded and added up",
            unit="calls/s",
            runs=tuple(_measure_rate(records, change) for _ in range(terms.runs)),
            target=require_at_least(1_000),
        )
        for name, change in changes.items()
    ]


def _extend_budget(text: str, tokens: int) -> str:
    return text.replace(f"tokens: {tokens}", f"tokens: {TOKENS}").replace("max_turns: 4", "")


async def _record_sessions(folder: Path, sessions: int) -> list[SessionRecord]:
    house, prose = SessionHarness(), RandomProse()
    turns = [
        ScriptedTurn(prose.generate_text(CHARACTERS), prose.generate_text(CHARACTERS))
        for _ in range(TURNS)
    ]
    for number in range(sessions):
        await run_conversation(house, folder, f"s-{number}", turns)
    records = SessionRecordLoader(house.sessions)
    return [await records.load_record(TENANT, f"s-{number}") for number in range(sessions)]


def _measure_rate(records: Sequence[SessionRecord], change: WhatIfChange) -> float:
    began, calls = time.process_time(), 0
    for record in records:
        calls += build_what_if_report(
            rebuild_calls(record.events, record.blobs, collect_installed(), change),
            leave_unpriced,
        ).calls
    return calls / (time.process_time() - began)
