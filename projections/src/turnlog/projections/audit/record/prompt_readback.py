"""Rebuild a prompt from its manifest, without assembling anything.

This is the second, independent way to the exact prompt. It knows no budget, no conditions and no
ladder, only which part is where and where its text is stored. The result must have the recorded
digest. The independence is on purpose.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Final, assert_never

from pydantic import JsonValue

from turnlog.events.content import Digest, PlainText, compute_digest, has_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.call_events import CallCompleted
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.manifest import (
    BlobSource,
    BlueprintTextSource,
    EventTextSource,
    HistorySource,
    KnowledgeSource,
    Manifest,
    ParentInputSource,
    PromptPart,
    ResolutionSource,
    SegmentSource,
    StoredTextSource,
)
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import TurnQueued, TurnResolved, TurnSubmitted
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.template_slots import format_prompt_value
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.projections.prompt.history.history_condenser import condense_run
from turnlog.projections.prompt.history.turn_messages import TurnMessages, compute_run_digest
from turnlog.projections.prompt.message_media import MessageMedia, format_media_note
from turnlog.projections.prompt.message_order import send_as_user
from turnlog.projections.prompt.planned_media import split_omissions
from turnlog.projections.prompt.sources.offered_tools import (
    ToolSchema,
    parse_tool,
    rename_tool,
)
from turnlog.projections.prompt.sources.resolved_references import (
    format_resolved_text,
    read_results,
)
from turnlog.projections.session_views.session_history import HistoryTurn, build_history
from turnlog.projections.tools.argument_condensation import condense_arguments
from turnlog.projections.tools.inlined_references import inline_references

_ROUND_ROLES: Final = frozenset({"tool", "tool_call", "reasoning"})
"""Roles of the parts of tool rounds, which are more than the text of a message."""


def read_prompt(
    manifest: Manifest, events: Sequence[RecordedEvent], blobs: Mapping[Digest, str]
) -> tuple[ChatMessage, ...]:
    """Rebuild the messages of a call from the events up to it and the blobs it names.

    The events are in order and may have gaps, as long as those that the manifest refers to are
    there. Raises `Corrupt` naming the first part whose text does not match its recorded digest.
    """
    known = [event for event in events if event.sequence <= manifest.sequence]
    return read_parts(manifest, known, {turn.turn: turn for turn in build_history(known)}, blobs)


def read_parts(
    manifest: Manifest,
    known: Sequence[RecordedEvent],
    turns: Mapping[int, HistoryTurn],
    blobs: Mapping[Digest, str],
) -> tuple[ChatMessage, ...]:
    """Rebuild the messages where the events up to the call and their turns are loaded already."""
    messages: list[ChatMessage] = []
    for part in chain.from_iterable(map(split_omissions, manifest.parts)):
        if part.message is None or part.source is None:
            continue
        if isinstance(part.source, HistorySource):
            _join_run(messages, part, _read_run(part, part.source, turns))
        elif part.at is not None:
            _add_media(messages, part, part.at, known)
        elif part.is_reply_reasoning:
            text = _restore_text(part, _read_source(part.source, known, blobs))
            _add_reasoning(messages, part, text)
        elif isinstance(part.source, EventTextSource) and part.role in _ROUND_ROLES:
            _join_tool_message(messages, part, part.source, known)
        elif isinstance(part.source, BlueprintTextSource) and part.role == "reasoning":
            _add_blank_reasoning(messages, part, part.source.text)
        else:
            text = _restore_text(part, _read_source(part.source, known, blobs))
            _join_message(messages, part, part.before + text + part.after)
    return _add_cache_marks(messages, manifest)


def _add_cache_marks(messages: list[ChatMessage], manifest: Manifest) -> tuple[ChatMessage, ...]:
    for place in manifest.cache_marks:
        if not 0 <= place < len(messages):
            raise Corrupt("cache marks", f"there is no message {place}")
        messages[place] = replace(messages[place], ends_cached=True)
    return tuple(messages)


def _add_media(
    messages: list[ChatMessage], part: PromptPart, at: int, known: Sequence[RecordedEvent]
) -> None:
    """Add a picture, a recording or a file to its message, or the line in its place."""
    media = _read_media(part, known)
    if part.digest not in {None, media.digest}:
        raise _build_mismatch(part)
    if part.message == len(messages):
        _join_message(messages, part, "")
    place = part.message
    if place is None or place >= len(messages):
        raise Corrupt(f"part {part.layer}", "it names no place among the messages")
    is_left_out = part.treatment == "dropped"
    placed = MessageMedia(
        kind=media.kind,
        digest=media.digest,
        media_type=media.media_type,
        at=at,
        name=media.name,
        note=format_media_note(media.kind, media.name) if is_left_out else None,
    )
    messages[place] = replace(messages[place], media=(*messages[place].media, placed))


def _add_reasoning(messages: list[ChatMessage], part: PromptPart, text: str) -> None:
    """Add what a model reasoned to the message with its reply, which is in a run of history."""
    place = part.message or 0
    if part.role != "reasoning" or place >= len(messages) or messages[place].role != "assistant":
        raise Corrupt(f"part {part.layer}", "it names no reply among the messages")
    messages[place] = replace(messages[place], reasoning=text)


def _add_blank_reasoning(messages: list[ChatMessage], part: PromptPart, text: str) -> None:
    """Begin a message with tool calls by what stands in place of reasoning."""
    if part.message != len(messages):
        raise Corrupt(f"part {part.layer}", "it does not begin a message")
    messages.append(ChatMessage("assistant", "", reasoning=text))


def _read_media(part: PromptPart, known: Sequence[RecordedEvent]) -> MediaPart:
    if isinstance(part.source, EventTextSource):
        match _find_event(known, part.source.sequence).event:
            case (
                TurnSubmitted(parts=recorded)
                | TurnQueued(parts=recorded)
                | ToolReturned(parts=recorded)
            ):
                for index, each in enumerate(recorded):
                    if part.source.field == f"parts.{index}":
                        return each
            case _:
                pass
    raise Corrupt(f"part {part.layer}", "no picture, recording or file comes from there")


def read_tools(manifest: Manifest, blobs: Mapping[Digest, str]) -> tuple[dict[str, JsonValue], ...]:
    """Rebuild the tools that were offered with the messages."""
    offered = (part for part in manifest.parts if part.role == "tools")
    tools = tuple(_name_tool(part, parse_tool(_read_tool(part, blobs))) for part in offered)
    if manifest.dialect and manifest.dialect.tool_refs == "inline":
        return tuple(map(inline_references, tools))
    return tools


def _name_tool(part: PromptPart, tool: ToolSchema) -> ToolSchema:
    return tool if part.name is None else rename_tool(tool, part.name)


def _read_tool(part: PromptPart, blobs: Mapping[Digest, str]) -> str:
    match part.source:
        case BlueprintTextSource() | BlobSource() as source:
            return _restore_text(part, _read_source(source, (), blobs))
        case _:
            raise Corrupt(f"part {part.layer}", "no tool comes from there")


def list_referenced_blobs(manifest: Manifest) -> tuple[Digest, ...]:
    """Return the digests of the blobs that rebuilding needs."""
    sources = (part.source for part in manifest.parts if part.is_included)
    return tuple(each.digest for each in sources if isinstance(each, StoredTextSource))


def _join_message(messages: list[ChatMessage], part: PromptPart, text: str) -> None:
    role, message = part.role, part.message
    if message is None or message > len(messages):
        raise Corrupt(f"part {part.layer}", "it names no place among the messages")
    match role:
        case None | "tools" | "tool_call" | "reasoning" | "response_format":
            raise Corrupt(f"part {part.layer}", "it is no text of a message")
        case _:
            pass
    if message == len(messages):
        messages.append(ChatMessage(role, text))
    else:
        before = messages[message]
        messages[message] = replace(before, role=role, content=before.content + text)


def _join_run(messages: list[ChatMessage], part: PromptPart, run: Sequence[ChatMessage]) -> None:
    """Add the messages of a run, of which the first may join the message before it."""
    if part.message == len(messages) - 1 and run:
        _join_message(messages, part, part.before + run[0].content)
        run = run[1:]
    messages += run


def _join_tool_message(
    messages: list[ChatMessage],
    part: PromptPart,
    source: EventTextSource,
    known: Sequence[RecordedEvent],
) -> None:
    """Add a tool call to its message, what was reasoned before it, or its result as a message."""
    text = _restore_text(part, _read_source(source, known, {}))
    places = {len(messages) - 1, len(messages)}
    match _find_event(known, source.sequence).event:
        case CallCompleted() if part.role == "reasoning" and part.message == len(messages):
            messages.append(ChatMessage("assistant", "", reasoning=text))
        case ToolCalled() if part.role == "reasoning" and messages and messages[-1].tool_calls:
            *before, last = messages[-1].tool_calls
            signed = last.model_copy(update={"signature": text})
            messages[-1] = replace(messages[-1], tool_calls=(*before, signed))
        case ToolReturned(id=id) if part.role == "tool" and part.message == len(messages):
            messages.append(ChatMessage("tool", text, tool_call_id=id))
        case ToolCalled() as called if part.role == "tool_call" and part.message in places:
            if part.message == len(messages):
                messages.append(ChatMessage("assistant", ""))
            name = part.name or called.alias or called.tool
            request = ToolRequest(id=called.id, tool=name, arguments=text or "{}")
            calls = (*messages[-1].tool_calls, request)
            messages[-1] = replace(messages[-1], tool_calls=calls)
        case _:
            raise Corrupt(f"part {part.layer}", "no tool call or result comes from there")


def _restore_text(part: PromptPart, text: str) -> str:
    """Apply the recorded changes to a text; raises `Corrupt` if its digest does not match."""
    source = part.source
    if isinstance(source, StoredTextSource) and not has_digest(text, source.digest):
        raise _build_mismatch(part)
    text = text[part.excerpt.begin : part.excerpt.end] if part.excerpt else text
    if part.condensed_to:
        text = condense_arguments(text, part.condensed_to)
    left = text[: part.cut.to] if part.cut else text
    ends = (*part.indented, len(left))
    lines = [left[begin:end] for begin, end in pairwise((0, *ends))]
    restored = " ".join(lines)
    if part.digest and compute_digest(restored) != part.digest:
        raise _build_mismatch(part)
    return restored


def _build_mismatch(part: PromptPart) -> Corrupt:
    return Corrupt(f"part {part.layer}", "its text does not match the recorded digest")


def _read_source(
    source: StoredTextSource | EventTextSource | BlueprintTextSource | ResolutionSource,
    events: Sequence[RecordedEvent],
    blobs: Mapping[Digest, str],
) -> str:
    match source:
        case BlueprintTextSource(text=text):
            return text
        case (
            BlobSource(digest=digest)
            | SegmentSource(digest=digest)
            | KnowledgeSource(digest=digest)
            | ParentInputSource(digest=digest)
        ):
            if digest not in blobs:
                raise Corrupt(f"blob {digest}", "it was not fetched")
            return blobs[digest]
        case EventTextSource(sequence=sequence, field=field):
            return _read_event_field(events, sequence, field)
        case ResolutionSource(resolution=sequence, lines=lines, heading=heading):
            event = _find_event(events, sequence).event
            if not isinstance(event, TurnResolved):
                raise Corrupt(f"event {sequence}", "no resolver said anything in it")
            return format_resolved_text(heading, lines, event, read_results(event.results))
        case _ as never:
            assert_never(never)


def _find_event(events: Sequence[RecordedEvent], sequence: int) -> RecordedEvent:
    at = bisect_left(events, sequence, key=lambda event: event.sequence)
    if at == len(events) or events[at].sequence != sequence:
        raise Corrupt(f"event {sequence}", "it is not among the events of the session")
    return events[at]


def _read_event_field(events: Sequence[RecordedEvent], sequence: int, field: str) -> str:
    recorded = _find_event(events, sequence)
    content: object = recorded.event
    for name in field.split("."):
        content = getattr(content, name, None)
    if isinstance(content, PlainText):
        return content.text
    value: JsonValue = recorded.load_data()
    for step in field.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return format_prompt_value(value)


def _read_run(
    part: PromptPart, source: HistorySource, turns: Mapping[int, HistoryTurn]
) -> Sequence[ChatMessage]:
    numbers = range(source.first, source.last + 1)
    try:
        included_turns = [turns[number] for number in numbers]
    except KeyError as missing:
        raise Corrupt(f"turn {missing}", "it is not in the session's history") from None
    run = [_get_turn_messages(turn, source) for turn in included_turns]
    if source.condensed:
        run = [condense_run(source.condensed, source.again, run)]
    if compute_run_digest(run) != part.digest:
        what = f"turns {source.first} to {source.last}"
        raise Corrupt(what, "their texts do not match the recorded digest")
    messages = [each for turn_messages in run for each in turn_messages.messages]
    return send_as_user(messages) if source.system_as_user else messages


def _get_turn_messages(turn: HistoryTurn, source: HistorySource) -> TurnMessages:
    if source.condensed == "results-1":
        return turn.messages_without_results
    return turn.messages_with_work if source.work else turn.messages
