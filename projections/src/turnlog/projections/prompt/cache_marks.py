"""The messages up to whose end a provider is asked to cache a prompt.

A cache is of use where the next prompt begins the same: after the system messages, after a history
that only grows, and in tool rounds after the last result. What is put into a cache costs more than
what is not, so the end of a history whose oldest turns fall out of its window is not marked, unless
they go in cuts that last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from turnlog.events.model.manifest import AppliedTrimStep, HistorySource, PromptPart
from turnlog.projections.blueprint.schema.call_specs import CallSpec
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.projections.prompt.history.excluded_turns import DROP_TURNS_RULE, LAST_MESSAGES_RULE

MAX_CACHE_MARKS: Final = 4
"""The most marks that Anthropic takes in a request."""


def find_cache_marks(
    spec: CallSpec,
    messages: Sequence[ChatMessage],
    parts: Sequence[PromptPart],
    steps: Sequence[AppliedTrimStep],
) -> tuple[int, ...]:
    """Return the indexes of the messages at whose ends the marks of a call are."""
    if spec.cache == "off":
        return ()
    if spec.cache == "auto":
        found = _iterate_stable_ends(messages, parts, steps)
    else:
        layers = frozenset(spec.cache)
        found = (part.message for part in parts if part.layer in layers and part.is_included)
    places = {each for each in found if each is not None and _can_mark(messages[each])}
    return tuple(sorted(places)[-MAX_CACHE_MARKS:])


def mark_messages(
    messages: Sequence[ChatMessage], places: Iterable[int]
) -> tuple[ChatMessage, ...]:
    """Return the messages with marks at the ends of those at these places."""
    marked = list(messages)
    for place in places:
        marked[place] = replace(marked[place], ends_cached=True)
    return tuple(marked)


def _can_mark(message: ChatMessage) -> bool:
    """Return whether a message is a text alone; a mark beside other parts has no effect."""
    return not (message.media or message.reasoning or message.tool_calls) and bool(message.content)


def _iterate_stable_ends(
    messages: Sequence[ChatMessage], parts: Sequence[PromptPart], steps: Sequence[AppliedTrimStep]
) -> Iterator[int | None]:
    systems = [place for place, each in enumerate(messages) if each.role == "system"]
    leading = [place for at, place in enumerate(systems) if at == place]
    yield leading[-1] if leading else None
    yield _find_history_end(messages, parts, _find_lasting_views(steps))
    if messages and messages[-1].role == "tool":
        yield len(messages) - 1


def _find_lasting_views(steps: Sequence[AppliedTrimStep]) -> frozenset[str]:
    """Return the views whose oldest turns were dropped by lasting cuts alone."""
    drops = [step for step in steps if step.step == DROP_TURNS_RULE]
    sliding = {step.on for step in drops if step.through is None}
    return frozenset(step.on for step in drops) - sliding


def _find_history_end(
    messages: Sequence[ChatMessage], parts: Sequence[PromptPart], lasting: frozenset[str]
) -> int | None:
    """Return the last message of nothing but history; None if none is, or its window slides."""
    runs = [(part, part.source) for part in parts if isinstance(part.source, HistorySource)]
    starts = [part.message for part, _ in runs if part.message is not None]
    is_sliding = any(
        part.rule == LAST_MESSAGES_RULE
        or (part.treatment == "dropped" and source.view not in lasting)
        for part, source in runs
    )
    if not starts or is_sliding:
        return None
    others = (
        part.message
        for part in parts
        if part.message is not None
        and part.at is None
        and not part.is_reply_reasoning
        and part.message >= max(starts)
        and not isinstance(part.source, HistorySource)
    )
    end = min(others, default=len(messages)) - 1
    # Beside reasoning a mark has no effect, so that the question is the last that can have it.
    end -= end > 0 and bool(messages[end].reasoning)
    return end if end >= 0 else None
