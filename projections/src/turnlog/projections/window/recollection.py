from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pydantic import JsonValue

from turnlog.projections.blueprint.schema import HistoryViewSpec
from turnlog.projections.session.state import TextRef, SessionState, SettledTurnRef
from turnlog.projections.window.history import select_turns, has_reachable_runs
from turnlog.projections.window.memory import MemoryAccess, list_message_refs
from turnlog.projections.window.visibility import PhaseVisibility

MemoryMessage = dict[str, JsonValue]
"""An object of `role`, `content`, `created_at` and `meta`, which holds the turn number."""


def select_memory_turns(recall: MemoryAccess, state: SessionState, sight: PhaseVisibility) -> tuple[SettledTurnRef, ...]:
    """Return the turns that a reader of the memory may see, oldest first."""
    return select_turns(HistoryViewSpec(), state, sight, recall)[0]


def can_reach_older_turns(recall: MemoryAccess, state: SessionState, sight: PhaseVisibility) -> bool:
    """Return whether a reader might see turns that the state keeps only as runs."""
    return has_reachable_runs(HistoryViewSpec(), state, sight, None, recall)


def format_memory_messages(turns: Iterable[SettledTurnRef], texts: Mapping[TextRef, str]) -> tuple[MemoryMessage, ...]:
    """Return the messages of turns, in order."""
    return tuple(message for ref in turns for message in _format_turn_messages(ref, texts))


def _format_turn_messages(ref: SettledTurnRef, texts: Mapping[TextRef, str]) -> Iterator[MemoryMessage]:
    for said in list_message_refs(ref):
        yield {
            "role": "user" if said is ref.text else "assistant",
            "content": texts[said],
            "created_at": said.at,
            "meta": {"turn": ref.turn},
        }
