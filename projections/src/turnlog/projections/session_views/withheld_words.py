"""The words of a person that were withheld: which events held them, and what is left of those.

The text, inputs, references and metadata of the turn go, its display form, what was sought for it,
what a resolver read in it, and every summary that covers it. What models wrote, the reply above
all, may repeat the words: it goes with the reply. Digests from which words could be guessed go
where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.content import Content, PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import AttemptEnded, ContextAssembled
from turnlog.events.model.manifest import (
    BlueprintTextSource,
    KnowledgeSource,
    Manifest,
    PromptPart,
    ResolutionSource,
    StoredTextSource,
)
from turnlog.events.model.memory_events import HistorySummarised, SummaryUndone
from turnlog.events.model.redaction_events import ReplyRedacted, TextRedacted
from turnlog.events.model.retrieval_events import KnowledgeRetrieved
from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.model.turn_events import (
    ReferenceUpdated,
    TurnCancelled,
    TurnCompleted,
    TurnDisplayed,
    TurnQueued,
    TurnResolved,
    TurnSubmitted,
)
from turnlog.events.registry import Event, KnownEvent
from turnlog.projections.session.turn_summaries import contains_turn

WITHHELD_DIGEST: Final = "withheld"
"""In place of a digest that an event must have."""

WITHHELD_TEXT: Final = PlainText(text="[withheld]")
"""In place of a text that was made of withheld words."""


@dataclass(frozen=True, slots=True)
class TurnRedaction:
    """The redaction of a turn's reply or text, and its place in the session."""

    sequence: int
    replacement: Content
    results: tuple[int, ...] = ()
    """Of a reply: sequences of the tool results that no rule withholds."""
    is_partial: bool = False
    """Of a text: whether only a part of it was replaced."""


TextRedactions = Mapping[int, Sequence[TurnRedaction]]
"""The redactions of texts in a session by turn, in the order of their events."""


def find_text_redaction(texts: TextRedactions, recorded: RecordedEvent) -> TurnRedaction | None:
    """Return the redaction of a text that an event must not undo, or None."""
    match recorded.event:
        case HistorySummarised(turns=ranges):
            found = [turn for turn in texts if contains_turn(ranges, turn)]
            return find_later(_list_redactions(texts, found), recorded.sequence)
        case ContextAssembled(turn=turn):
            found = [number for number in texts if number <= turn]
            return find_later(_list_redactions(texts, found), recorded.sequence)
        case AttemptEnded(turn=turn) | ToolReturned(turn=turn) | TurnCancelled(turn=turn):
            # The command that submitted the next turn may have ended this one.
            return _find_last(texts, turn + 1) if recorded.envelope.commandhash else None
        case ReplyRedacted(turn=turn) | SummaryUndone(turn=int() as turn):
            return _find_last(texts, turn) if recorded.envelope.commandhash else None
        case (
            TurnSubmitted(turn=turn)
            | TurnQueued(turn=turn)
            | TurnResolved(turn=turn)
            | TurnDisplayed(turn=turn)
            | TurnCompleted(turn=turn)
            | ReferenceUpdated(turn=turn)
            | KnowledgeRetrieved(turn=turn)
            | TextRedacted(turn=turn)
        ):
            return _find_last(texts, turn)
        case _:
            return None


def _find_last(texts: TextRedactions, turn: int) -> TurnRedaction | None:
    found = texts.get(turn)
    return found[-1] if found else None


def _list_redactions(texts: TextRedactions, turns: Iterable[int]) -> list[TurnRedaction]:
    return [each for turn in turns for each in texts[turn]]


def find_later(found: Iterable[TurnRedaction], sequence: int) -> TurnRedaction | None:
    """Return the first redaction after a sequence; what came after it has the replacement."""
    later = [each for each in found if each.sequence > sequence]
    return min(later, key=lambda each: each.sequence, default=None)


def withhold_words(
    event: Event, redaction: TurnRedaction, *, is_standing: bool
) -> KnownEvent | None:
    """Return an event without the withheld words; None if it holds none of them.

    `is_standing` says that it is the event whose replacement stands.
    """
    match event:
        case TurnSubmitted() | TurnQueued():
            return _withhold_submission(event, redaction)
        case TurnResolved():
            return withhold_identifiers(event)
        case TurnDisplayed(text=text) if text is not None:
            return event.model_copy(update={"text": redaction.replacement})
        case TurnCompleted(reference=reference) if reference is not None:
            left = reference.model_copy(update={"identifiers": {}})
            return event.model_copy(update={"reference": left})
        case ReferenceUpdated():
            return event.model_copy(update={"identifiers": {}})
        case KnowledgeRetrieved(origin=origin) if origin != "call":
            queries = tuple(WITHHELD_TEXT for _ in event.more_queries)
            return event.model_copy(update={"query": WITHHELD_TEXT, "more_queries": queries})
        case HistorySummarised():
            return event.model_copy(update={"summary": WITHHELD_TEXT, "inputs": WITHHELD_DIGEST})
        case ContextAssembled():
            return withhold_prompt_digests(event)
        case TextRedacted() if not is_standing:
            return event.model_copy(update={"replacement": redaction.replacement})
        case _:
            return None


def withhold_identifiers(event: TurnResolved) -> TurnResolved:
    """Return a resolution without what the resolver read in the text."""
    return event.model_copy(update={"identifiers": {}, "meta": {}})


def _withhold_submission(
    event: TurnSubmitted | TurnQueued, redaction: TurnRedaction
) -> TurnSubmitted | TurnQueued:
    return event.model_copy(
        update={
            "text": event.text and redaction.replacement,
            "inputs": {},
            "references": {},
            "meta": {},
            "parent_inputs": (),
            "parts": event.parts if redaction.is_partial else (),
        }
    )


def withhold_prompt_digests(event: ContextAssembled) -> ContextAssembled:
    """Return a prompt without the digests of its texts and of all of it, and without literals."""
    update = {"manifest": _withhold_digests(event.manifest), "body_digest": None}
    return event.model_copy(update=update)


def _withhold_digests(manifest: Manifest) -> Manifest:
    """Return a manifest without the digests of texts of the session and of the whole prompt."""
    parts = tuple(map(_withhold_part_digest, manifest.parts))
    return manifest.model_copy(update={"digest": WITHHELD_DIGEST, "parts": parts})


def _withhold_part_digest(part: PromptPart) -> PromptPart:
    match part.source:
        case KnowledgeSource() as source:
            hidden = source.model_copy(update={"digest": WITHHELD_DIGEST})
            # Its title is in the text before it.
            return part.model_copy(update={"source": hidden, "digest": None, "before": ""})
        case ResolutionSource(lines=lines) as source:
            unsaid = source.model_copy(update={"lines": dict.fromkeys(lines, "")})
            return part.model_copy(update={"source": unsaid, "digest": None})
        case BlueprintTextSource(of=of) as source if any(map(_is_of_turn, of)):
            untold = source.model_copy(update={"text": ""})
            return part.model_copy(update={"source": untold, "digest": None})
        case source if isinstance(source, StoredTextSource):
            return part
        case _:
            # The item of a picture or a file is its name, which a tool may have chosen.
            item = part.item if part.at is None else None
            return part.model_copy(update={"digest": None, "item": item})


def _is_of_turn(variable: str) -> bool:
    """Return whether a template variable is an input of the turn."""
    return variable.startswith("inputs.")
