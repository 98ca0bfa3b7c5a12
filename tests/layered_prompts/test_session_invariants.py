"""Phases and prompts keep their rules under any sequence of actions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import Phase, given, settings

from tests.faults.suite_extent import choose_examples
from tests.layered_prompts.crashing_workers import CrashingSession, has_redaction_note
from tests.layered_prompts.session_actions import (
    ACTIONS,
    FORBIDDEN_HERE,
    TIGHT_MATERIAL,
    Action,
    play_actions,
)
from tests.layered_prompts.tutor_sessions import require_phase_graph
from tests.support.generators.reference_assembler import is_kept
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import HistorySource, PromptPart
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.session_events import PhaseEntered
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.audit.record.session_replay import collect_blob_digests
from turnlog.projections.audit.verify.prompt_reproduction import read_verified_request
from turnlog.projections.audit.verify.session_verification import (
    VerificationContext,
    verify_session,
)
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.prompt.assembly_inputs import PromptCall, PromptTexts
from turnlog.projections.prompt.chat_request import ChatMessage, ChatRequest
from turnlog.projections.session.evolve import fold, fold_unbounded
from turnlog.projections.session_views.session_history import HistoryTurn, build_history
from turnlog.services.extensions.plugins import collect_installed

pytestmark = pytest.mark.slow("whole sessions run on a service of their own")

# Shrinking a whole session takes minutes, and a short list of actions is readable as it is.
lessons = settings(
    max_examples=choose_examples(10), phases=[Phase.explicit, Phase.reuse, Phase.generate]
)

GRAPH = require_phase_graph(TIGHT_MATERIAL)


@dataclass(frozen=True, slots=True)
class ReadBackCall:
    """A recorded call with the events before it and the prompt read back from the record."""

    call: ContextAssembled
    before: tuple[RecordedEvent, ...]
    request: ChatRequest

    @property
    def parts(self) -> tuple[PromptPart, ...]:
        return self.call.manifest.parts

    @property
    def turns(self) -> dict[int, HistoryTurn]:
        return {turn.turn: turn for turn in build_history(self.before)}


@dataclass(frozen=True, slots=True)
class FinishedSession:
    """A finished session with its blobs and the digests of what was sent."""

    events: tuple[RecordedEvent, ...]
    blobs: dict[str, str]
    sent: tuple[str, ...]
    """Digests of the requests that reached the model."""

    @property
    def iterate_calls(self) -> Iterator[ReadBackCall]:
        for place, recorded in enumerate(self.events):
            if isinstance(recorded.event, ContextAssembled):
                before = self.events[:place]
                request = read_verified_request(recorded.event, before, self.blobs)
                yield ReadBackCall(recorded.event, before, request)


async def collect_session(play: CrashingSession) -> FinishedSession:
    events = tuple(play.house.list_events())
    digests = collect_blob_digests(events)
    blobs = {digest: (await play.house.blobs.get_blob("t", digest)).decode() for digest in digests}
    sent = tuple(
        _compute_request_digest(play, number) for number in range(len(play.house.model.requests))
    )
    return FinishedSession(events, blobs, sent)


def _compute_request_digest(play: CrashingSession, number: int) -> str:
    request = play.house.model.requests[number]
    messages = tuple(
        ChatMessage(message["role"], message["content"])  # type: ignore[arg-type]
        for message in request.messages
    )
    return ChatRequest(request.model, messages, request.tools, request.parameters).digest  # type: ignore[arg-type]


def play_session(actions: list[Action]) -> FinishedSession:
    async def all_played() -> FinishedSession:
        return await collect_session(await play_actions(actions))

    return asyncio.run(all_played())


@lessons
@given(ACTIONS)
def test_session_moves_only_along_the_edges_of_its_cartridge(actions: list[Action]) -> None:
    phase, exchanges = None, 0
    for recorded in play_session(actions).events:
        match recorded.event:
            case TurnCompleted():
                exchanges += 1
            case ReplyRedacted(withheld=str()):
                exchanges += 1
            case PhaseEntered() as entered:
                assert entered.before == phase
                assert is_edge_open(entered, exchanges)
                phase, exchanges = entered.phase, 0
            case _:
                pass


def is_edge_open(entered: PhaseEntered, exchanges: int) -> bool:
    """Return whether the cartridge has this edge and it was open after so many exchanges."""
    if entered.before is None:
        return entered.phase == GRAPH.start
    left = GRAPH.phases[entered.before]
    match entered.signal:
        case "choice":
            return entered.phase in {choice.next for choice in left.choices.values()}
        case "next":
            return left.kind == "debrief" and entered.phase == left.next
        case _ if entered.forced:
            due = left.max_exchanges is not None and exchanges >= left.max_exchanges
            return due and entered.phase == left.ai_transitions.on_max_exchanges
        case _:
            # The exchange of a signal does not count as one before it.
            earlier_exchanges = exchanges - (entered.turn is not None)
            target = GRAPH.find_next_phase(entered.before, entered.signal or "")
            return earlier_exchanges >= left.min_exchanges and entered.phase == target


@lessons
@given(ACTIONS)
def test_every_call_reads_back_and_reassembles_to_the_recorded_and_sent_prompt(
    actions: list[Action],
) -> None:
    session = play_session(actions)
    assert (
        verify_session(
            session.events, session.blobs, VerificationContext(collect_installed())
        ).findings
        == ()
    )
    recorded = [made.call.manifest.digest for made in session.iterate_calls]
    assert set(session.sent) <= set(recorded)
    for made in session.iterate_calls:
        assert (
            made.request.digest == made.call.manifest.digest == rebuild_digest(made, session.blobs)
        )


def rebuild_digest(made: ReadBackCall, blobs: dict[str, str]) -> str:
    """Assemble a call from the state at its sequence; gives the digest."""
    state = fold_unbounded(made.before)
    assert state is not None
    assert made.call.manifest.sequence == state.head.sequence
    manifest = made.call.manifest
    call = PromptCall(kind=manifest.kind, model=made.call.model, at=manifest.at)
    places = {event.stream_sequence: event.event for event in made.before}
    plan = plan_prompt(TIGHT_MATERIAL, state, call)
    texts = {each: getattr(places[each.place], each.field).text for each in plan.needs.text_refs}
    return assemble(plan, PromptTexts(blobs, texts)).manifest.digest


@lessons
@given(ACTIONS)
def test_every_prompt_keeps_the_rules_of_a_window(actions: list[Action]) -> None:
    session = play_session(actions)
    for made in session.iterate_calls:
        assert_required_layers(made)
        assert_within_budget(made)
        assert_only_visible_turns(made)
        assert_phase_tools(made)
    for earlier, later in zip(calls := list(session.iterate_calls), calls[1:], strict=False):
        assert_common_prefix(earlier, later)


def assert_required_layers(made: ReadBackCall) -> None:
    kept = {part.layer for part in made.parts if part.is_included}
    frame = "reveal" if made.call.manifest.kind == "debrief" else "task"
    assert {frame, "safety_config", "language", "persona", "behaviour", "safety"} <= kept


def assert_within_budget(made: ReadBackCall) -> None:
    manifest = made.call.manifest
    assert manifest.tokens == sum(part.tokens for part in made.parts)
    if manifest.kind == "debrief":
        assert manifest.budget is None
    else:
        assert manifest.budget == 700 >= manifest.tokens


def assert_only_visible_turns(made: ReadBackCall) -> None:
    runs = [
        part.source
        for part in made.parts
        if isinstance(part.source, HistorySource) and part.is_included
    ]
    included = {number for run in runs for number in range(run.first, run.last + 1)}
    usable = {n for n, turn in made.turns.items() if is_kept(turn)}
    usable -= {n for n, turn in made.turns.items() if turn.excluded}
    assert included <= usable
    if made.call.manifest.kind == "debrief":
        # One that began by itself and was answered by a tool alone has nothing to show
        nothing = PlainText(text="")
        assert included == {
            n for n in usable if made.turns[n].text or made.turns[n].reply != nothing
        }
    assert FORBIDDEN_HERE not in str(made.request.encode_plain())


def assert_phase_tools(made: ReadBackCall) -> None:
    state = fold(made.before)
    assert state is not None
    offered = GRAPH.list_signals(state.phase, state.exchanges)
    tools = made.request.tools
    assert bool(tools) == bool(offered)
    assert all(f'"{name}"' in str(tools).replace("'", '"') for name in offered)


def assert_common_prefix(earlier: ReadBackCall, later: ReadBackCall) -> None:
    """Require that parts equal by their manifests are equal in the prompts, up to a change."""
    if earlier.call.manifest.kind != later.call.manifest.kind:
        return
    pairs = zip(earlier.parts, later.parts, strict=False)
    messages = later.request.messages
    changed = (n for n, (old, new) in enumerate(pairs) if not is_continued(old, new, messages))
    first = next(changed, min(len(earlier.parts), len(later.parts)))
    behind = [part.message for part in (*earlier.parts[first:], *later.parts[first:])]
    same = min((message for message in behind if message is not None), default=len(messages))
    assert messages[:same] == earlier.request.messages[:same]


def is_continued(old: PromptPart, new: PromptPart, messages: tuple[ChatMessage, ...]) -> bool:
    """Tell whether a part is the same, or the same run with later turns at its end."""
    if not (isinstance(old.source, HistorySource) and isinstance(new.source, HistorySource)):
        return old == new
    if old.message is None or old.message != new.message or old.source.first != new.source.first:
        return old == new
    starts = (messages[old.message :][:length] for length in range(len(messages) + 1))
    return any(compute_digest(_format_messages(start)) == old.digest for start in starts)


def _format_messages(messages: tuple[ChatMessage, ...]) -> str:
    return "".join(f"{message.role} {compute_digest(message.content)}\n" for message in messages)


@lessons
@given(ACTIONS)
def test_note_is_in_all_calls_of_the_turn_after_a_withheld_reply_and_in_no_other(
    actions: list[Action],
) -> None:
    latest, note_due, noted_turn = 0, False, 0
    for recorded in play_session(actions).events:
        match recorded.event:
            case TurnCompleted(turn=turn):
                latest = turn
            case ReplyRedacted(turn=turn, withheld=withheld):
                latest = turn if withheld else latest
                if turn == latest:
                    note_due, noted_turn = True, 0
            case ContextAssembled(turn=turn) as call:
                assert has_redaction_note(call) == (note_due or turn == noted_turn)
                note_due, noted_turn = False, turn if has_redaction_note(call) else 0
            case _:
                pass


@lessons
@given(ACTIONS)
def test_every_called_tool_returns_and_only_offered_signals_are_accepted(
    actions: list[Action],
) -> None:
    session = play_session(actions)
    offered = {made.call.call: str(made.request.tools) for made in session.iterate_calls}
    events = [recorded.event for recorded in session.events]
    for place, event in enumerate(events):
        if isinstance(event, ToolCalled):
            returned = events[place + 1]
            assert isinstance(returned, ToolReturned)
            assert (returned.call, returned.id) == (event.call, event.id)
            if returned.outcome == "accepted":
                assert event.arguments.partition(": ")[2].strip('"}') in offered[event.call]
