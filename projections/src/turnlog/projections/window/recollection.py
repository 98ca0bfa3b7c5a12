from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pydantic import JsonValue

from turnlog.projections.blueprint.schema import History
from turnlog.projections.session.state import Said, SessionState, TurnRef
from turnlog.projections.window.history import chosen, reaches_further
from turnlog.projections.window.memory import Recall, messages_in
from turnlog.projections.window.visibility import Sight

Message = dict[str, JsonValue]
"""An object of `role`, `content`, `created_at` and `meta`, which holds the turn number."""


def told(recall: Recall, state: SessionState, sight: Sight) -> tuple[TurnRef, ...]:
    """Return the turns that a reader of the memory may see, oldest first."""
    return chosen(History(), state, sight, recall)[0]


def lies_further_back(recall: Recall, state: SessionState, sight: Sight) -> bool:
    """Return whether a reader might see turns that the state keeps only as runs."""
    return reaches_further(History(), state, sight, None, recall)


def wire(turns: Iterable[TurnRef], texts: Mapping[Said, str]) -> tuple[Message, ...]:
    """Return the messages of turns, in order."""
    return tuple(message for ref in turns for message in _messages(ref, texts))


def _messages(ref: TurnRef, texts: Mapping[Said, str]) -> Iterator[Message]:
    for said in messages_in(ref):
        yield {
            "role": "user" if said is ref.text else "assistant",
            "content": texts[said],
            "created_at": said.at,
            "meta": {"turn": ref.turn},
        }
