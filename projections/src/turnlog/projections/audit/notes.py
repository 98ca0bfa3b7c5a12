"""Redaction notes: which calls were told, once, that the latest reply had been withheld.

Only the calls of one turn carry a note: the first turn that does. A later note replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.redaction import ReplyRedacted
from turnlog.projections.audit.fates import was_latest
from turnlog.projections.audit.known import Known
from turnlog.projections.session.under_way import NOTE_RULE


def noting(known: Known, after: int = 0) -> Iterator[Recorded]:
    """Yield the redactions after a sequence that call for a note, the latest first.

    Of a turn that was redacted more than once, the last redaction counts.
    """
    said = set[int]()
    for recorded in reversed(known.events):
        match recorded.event:
            case ReplyRedacted(turn=turn) if recorded.sequence > after and turn not in said:
                said.add(turn)
                if was_latest(recorded, known):
                    yield recorded
            case _:
                pass


def carrying(withheld: Recorded, known: Known) -> Iterator[Recorded]:
    """Yield the calls that carried the note of a redaction, all of them of one turn."""
    told: int | None = None
    for recorded in known.onward(withheld.sequence):
        match recorded.event:
            case ContextAssembled(turn=turn) if told is not None and turn != told:
                return
            case ContextAssembled(turn=turn, manifest=manifest):
                if any(part.rule == NOTE_RULE and part.kept for part in manifest.parts):
                    told = turn
                    yield recorded
            case _:
                pass


def told_of(withheld: Recorded, record: Known) -> Recorded | None:
    """Return the first call that carried the note of a redaction, or None.

    None also means that a later redaction had replaced the note by then.
    """
    latest = record.states.get(record.end)
    note = latest.note if latest else None
    waits = note is not None and note.told is None and _of(note.turn, withheld)
    call = None if waits else next(carrying(withheld, record), None)
    if call is None:
        return None
    before = (each for each in noting(record, withheld.sequence) if each.sequence < call.sequence)
    return None if next(before, None) else call


def _of(turn: int, withheld: Recorded) -> bool:
    return isinstance(withheld.event, ReplyRedacted) and withheld.event.turn == turn
