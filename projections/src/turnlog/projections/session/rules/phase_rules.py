"""Rules for phases and profiles: what a phase accepts, and how a session moves to the next one.

The phases come from the cartridge, as a graph with edges, or from the blueprint's `order`, as a
list of names. In a graph, a model, a choice or a caller can move a session only along an edge, and
only once the phase may be left. Under `order`, a caller enters any phase by name and may carry a
text forward to it, never backward; only the prompts of that phase contain the text. A profile
changes between turns, so one profile answers a whole turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, assert_never

from turnlog.events.content import PlainText
from turnlog.events.errors import Refused
from turnlog.events.model.session_events import PhaseEntered, ProfileSwitched
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import (
    ChoiceRecorded,
    PhaseExchange,
    TurnCancelled,
    TurnSubmitted,
)
from turnlog.events.registry import KnownEvent
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.bounded_json import parse_tool_arguments
from turnlog.projections.blueprint.schema.phase_specs import TRANSITION_TOOL, PhaseGraph
from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.projections.blueprint.validation.blueprint_faults import suggest_word
from turnlog.projections.session.commands import (
    CompleteTurn,
    EnterPhase,
    PhaseCommand,
    RecordChoice,
    SendSignal,
    SubmitTurn,
    SwitchProfile,
)
from turnlog.projections.session.rules.admission_rules import (
    require_no_open_turn,
    require_open_session,
)
from turnlog.projections.session.rules.attempt_events import NewEvents
from turnlog.projections.session.state import SessionState

PHASE_LEFT: Final = "phase-left"
"""Reason for cancelling a turn that was waiting when the session left an isolated phase."""

FORCED_SIGNAL = "max_reached"
"""Signal of the move out of a phase that reached its maximum number of exchanges."""


@dataclass(frozen=True, slots=True)
class PhaseTransition:
    """A move of a session from its phase to another."""

    phase: str
    signal: str
    forced: bool = False


def enter_start_phase(graph: PhaseGraph | None) -> NewEvents:
    """Enter the start phase of a session."""
    if graph is None:
        return ()
    shared = tuple(sorted(graph.get_visible_phases(graph.start) or ()))
    return (PhaseEntered(phase=graph.start, shared=shared),)


def enter_phase(
    state: SessionState,
    graph: PhaseGraph,
    step: PhaseTransition,
    turn: int | None = None,
    carried: str | None = None,
) -> NewEvents:
    """Enter a phase and switch to the profile it names; a debrief phase gets its turn at once.

    Where phases are isolated, the waiting turns belong to the phase that is left and are cancelled.
    """
    shared = graph.get_visible_phases(step.phase)
    waiting = state.waiting if graph.hides_phases else ()
    left = tuple(TurnCancelled(turn=each.turn, reason=PHASE_LEFT) for each in waiting)
    before = (*left, *switch_profile_for_phase(state, graph.spec.profiles.get(step.phase)))
    arrived = PhaseEntered(
        phase=step.phase,
        before=state.phase,
        signal=step.signal,
        forced=step.forced,
        turn=turn,
        carried=PlainText(text=carried) if carried else None,
        shared=tuple(sorted(shared or ())),
        hidden=() if shared is None else tuple(p for p in state.visited if p not in shared),
    )
    if graph.phases[step.phase].kind != "debrief":
        return (*before, arrived)
    return (*before, arrived, TurnSubmitted(turn=state.submitted + 1))


def decide_phase(state: SessionState, command: PhaseCommand) -> NewEvents:
    """Return the events of a client's command on the phase or the profile."""
    match command:
        case RecordChoice():
            return record_choice(state, command)
        case SendSignal():
            return send_signal(state, command)
        case EnterPhase():
            return enter_named_phase(state, command)
        case SwitchProfile():
            return switch_profile(state, command)
        case _ as never:
            assert_never(never)


def record_choice(state: SessionState, command: RecordChoice) -> NewEvents:
    """Record a choice in a static phase, and enter the phase it leads to."""
    require_open_session(state)
    phase = command.phases.phases.get(state.phase or "")
    if phase is None or command.choice not in phase.choices:
        offered = ", ".join(phase.choices) if phase else ""
        raise Refused(
            "choice-not-offered",
            f"phase {state.phase} has no choice {quote_sent_name(command.choice)}",
            field="choice",
            fix=f"choose one of: {offered}" if offered else "this phase offers no choices",
        )
    chosen = phase.choices[command.choice]
    recorded = ChoiceRecorded(
        phase=state.phase or "", choice=command.choice, label=chosen.context_label
    )
    step = PhaseTransition(chosen.next, "choice")
    return (recorded, *enter_phase(state, command.phases, step))


def send_signal(state: SessionState, command: SendSignal) -> NewEvents:
    """End a phase by a signal from a caller, under the same rules as a signal from the model."""
    require_open_session(state)
    require_no_open_turn(state)
    offered = command.phases.list_signals(state.phase, state.exchanges)
    if command.signal not in offered:
        raise Refused(
            "signal-not-offered",
            f"phase {state.phase} does not offer {quote_sent_name(command.signal)} now",
            field="signal",
            fix=f"send one of: {', '.join(offered)}"
            if offered
            else "submit a turn; no signal is offered now",
        )
    target = command.phases.find_next_phase(state.phase or "", command.signal) or ""
    return enter_phase(state, command.phases, PhaseTransition(target, command.signal))


def find_transition(state: SessionState, command: CompleteTurn) -> PhaseTransition | None:
    """Return where a completed turn leads: by the model's signal, by force, or None.

    A child session is in the phase of its parent, and leads nowhere by itself.
    """
    graph = command.phases
    phase = graph.phases.get(state.phase or "") if graph else None
    if graph is None or phase is None or state.is_child:
        return None
    if phase.kind == "debrief":
        is_over = phase.next is not None and command.withheld is None
        return PhaseTransition(phase.next or "", "next") if is_over else None
    if command.withheld is None:
        for request in command.tools:
            name = parse_signal(request)
            if find_refusal(state, graph, request) is None and (
                target := graph.find_next_phase(_get_phase(state), name)
            ):
                return PhaseTransition(target, name)
    target = phase.ai_transitions.on_max_exchanges
    if phase.max_exchanges and state.exchanges + 1 >= phase.max_exchanges and target:
        return PhaseTransition(target, FORCED_SIGNAL, forced=True)
    return None


def _get_phase(state: SessionState) -> str:
    return state.phase or ""


def build_exchange(
    state: SessionState, graph: PhaseGraph | None, step: PhaseTransition | None
) -> PhaseExchange | None:
    """Describe a completed turn as an exchange of its phase; None where the phase has none."""
    phase = graph.phases.get(_get_phase(state)) if graph else None
    if phase is None or phase.kind == "static":
        return None
    return PhaseExchange(
        phase=_get_phase(state),
        kind=phase.kind,
        count=state.exchanges + 1,
        signal=step.signal if step else None,
        next=step.phase if step else None,
    )


def find_refusal(state: SessionState, graph: PhaseGraph | None, request: ToolRequest) -> str | None:
    """Return why a tool call is refused, or None when it is accepted."""
    if request.tool != TRANSITION_TOOL or graph is None:
        return f"no tool {request.tool[:80]!r} was offered"
    offered = graph.list_signals(state.phase, state.exchanges)
    if not offered:
        return f"phase {state.phase} cannot be left after {state.exchanges} exchanges"
    name = parse_signal(request)
    return None if name in offered else f"{name[:80]!r} is none of: {', '.join(offered)}"


def parse_signal(request: ToolRequest) -> str:
    """Return the signal in a tool call's arguments, or an empty string."""
    arguments = parse_tool_arguments(request.arguments)
    found = arguments.get("signal") if arguments else None
    return found if isinstance(found, str) else ""


def record_signal_tools(state: SessionState, command: CompleteTurn) -> NewEvents:
    """Record the tool calls of an answer and their outcomes; only the first valid signal counts."""
    events: list[KnownEvent] = []
    done = command.withheld is not None
    for request in command.tools:
        refusal = find_refusal(state, command.phases, request)
        if refusal is None and done:
            refusal = (
                "the reply was withheld" if command.withheld else "the phase was ended already"
            )
        done = done or refusal is None
        turn, call = command.attempt.turn, command.attempt.call
        events += [
            ToolCalled(
                turn=turn, call=call, id=request.id, tool=request.tool, arguments=request.arguments
            ),
            ToolReturned(
                turn=turn,
                call=call,
                id=request.id,
                tool=request.tool,
                outcome="refused" if refusal else "accepted",
                detail=refusal or "",
            ),
        ]
    return tuple(events)


NAMED_PHASE_SIGNAL: Final = "asked"
"""Signal of a phase change by a caller who names the phase."""


def enter_named_phase(state: SessionState, command: EnterPhase) -> NewEvents:
    """Move to a named phase, with a text carried over where the blueprint allows it.

    Only phases that the blueprint lists in `order` can be entered by name. Entering the current
    phase without a text changes nothing, so a repeated request is harmless.
    """
    require_open_session(state)
    graph, phase = command.phases, command.phase
    if not graph.spec.order:
        fix = "send a signal that the phase offers"
        raise Refused(
            "phase-not-free", "the cartridge defines which phase follows", field="to", fix=fix
        )
    if phase not in graph.phases:
        known = ", ".join(graph.phases)
        detail = f"there is no phase {quote_sent_name(phase)}"
        raise Refused("unknown-phase", detail, field="to", fix=f"one of: {known}")
    if phase == state.phase and command.carry is None:
        return ()
    require_no_open_turn(state)
    return enter_phase(
        state,
        graph,
        PhaseTransition(phase, NAMED_PHASE_SIGNAL),
        carried=_prepare_carry(state, command),
    )


def _prepare_carry(state: SessionState, command: EnterPhase) -> str | None:
    if command.carry is None:
        return None
    graph = command.phases
    if graph.spec.carry.forward == "none":
        detail = "the blueprint does not carry texts from phase to phase"
        raise Refused("carry-not-allowed", detail, field="carry", fix="leave it out")
    if not graph.is_forward_move(state.phase, command.phase):
        detail = f"{command.phase} does not follow {state.phase}; texts are carried forward only"
        raise Refused("carry-backward", detail, field="carry", fix="leave it out")
    return graph.format_carried_summary(state.phase, command.carry)


def switch_profile(state: SessionState, command: SwitchProfile) -> NewEvents:
    """Switch to the profile and model a caller requests; nothing where they are in use already."""
    require_open_session(state)
    if command.profile not in command.profiles:
        detail = f"there is no profile {quote_sent_name(command.profile)}"
        fix = suggest_word(command.profile[:80], command.profiles)
        raise Refused("unknown-profile", detail, field="profile", fix=fix)
    if command.model is not None and command.model not in command.allowed_models:
        detail = f"the blueprint does not allow model {quote_sent_name(command.model)}"
        listed = ", ".join(command.allowed_models)
        fix = f"use one of: {listed}; the blueprint adds others by `models: {{allow: [...]}}`"
        raise Refused("model-not-allowed", detail, field="model", fix=fix)
    if (state.profile, state.model) == (command.profile, command.model):
        return ()
    require_no_open_turn(state)
    return (
        ProfileSwitched(
            profile=command.profile, before=state.profile, reason="asked", model=command.model
        ),
    )


def switch_profile_for_phase(state: SessionState, profile: str | None) -> NewEvents:
    """Switch to the profile that a phase names; this also drops a model chosen by the caller."""
    if profile is None or profile == state.profile:
        return ()
    return (ProfileSwitched(profile=profile, before=state.profile, reason="phase"),)


def require_turn_allowed(state: SessionState, command: SubmitTurn) -> None:
    """Refuse a turn that the phase does not accept, and one without a text where it needs one."""
    phase = command.phases.phases.get(_get_phase(state)) if command.phases else None
    if phase is None or phase.kind == "freeform":
        if command.text is None:
            raise Refused("text-missing", "the turn has no text", field="text", fix="send a text")
        return
    # A failed, cancelled or withheld debrief is held again by a turn without a text.
    owed = phase.kind == "debrief" and state.open is None and _is_debrief_owed(state)
    if owed and command.text is None:
        return
    choices = ", ".join(phase.choices)
    again = "leave out the text to repeat the debrief" if owed else None
    raise Refused(
        "phase-takes-no-turns",
        f"phase {state.phase} is {phase.kind}",
        field="text",
        fix=again or (f"choose one of: {choices}" if choices else "open another session"),
    )


def _is_debrief_owed(state: SessionState) -> bool:
    """Return whether no debrief of this phase visit was both completed and shown."""
    here = [turn for turn in state.turns if turn.phase == state.phase]
    completed = [turn for turn in here if turn.status == "completed"]
    return all(turn.redacted for turn in completed[len(completed) - state.exchanges :])
