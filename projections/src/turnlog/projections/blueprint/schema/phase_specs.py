"""Phase specs: the state machine of a session, from its cartridge or its blueprint.

If a cartridge draws it, the cartridge is the only source of states and transitions; the blueprint
says which call each kind of phase makes and which signal of a model follows which transition. If a
blueprint lists phases in order, each is a dialogue, and the caller moves between them. Both may
restrict visibility, so that the turns of one phase are visible only in the phases that say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, TypeAdapter, model_validator

from turnlog.projections.blueprint.schema.strict_model import Name, StrictModel
from turnlog.projections.blueprint.template_slots import fill_slots

BY_PHASE: Final = "by_phase"
"""The value of a profile's `call` if it depends on the phase."""

TRANSITION_TOOL: Final = "transition_phase"
"""The tool by which a model ends a phase."""

PhaseKind = Literal["static", "freeform", "debrief"]
"""A phase of choices, a dialogue, or a phase that makes one call by itself."""


class PhaseChoiceDefinition(StrictModel):
    """One choice that leads out of a static phase."""

    next: Name
    """The next phase."""
    context_label: str | None = None
    """The text by which later prompts mention the choice."""


class PhaseTransitions(StrictModel):
    """The next phase of a dialogue for each outcome."""

    on_success: Name | None = None
    """The user understood."""
    on_partial: Name | None = None
    """The user understood in part."""
    on_max_exchanges: Name | None = None
    """The dialogue reached its maximum number of exchanges."""


class PhaseDefinition(StrictModel):
    """One state of the state machine."""

    kind: PhaseKind
    """The kind of the phase."""
    choices: dict[Name, PhaseChoiceDefinition] = {}
    """The choices of a static phase."""
    min_exchanges: Annotated[int, Field(ge=0)] = 0
    """Number of exchanges before a model may end the phase."""
    max_exchanges: Annotated[int, Field(ge=1)] | None = None
    """Number of exchanges after which the phase ends by itself."""
    ai_transitions: PhaseTransitions = PhaseTransitions()
    """The transitions of a freeform phase."""
    meanings: dict[Name, str] = {}
    """Maps a signal to what the model is told that it means in this phase."""
    next: Name | None = None
    """The phase after a debrief."""


PHASES_ADAPTER: TypeAdapter[dict[Name, PhaseDefinition]] = TypeAdapter(dict[Name, PhaseDefinition])


class CarrySpec(StrictModel):
    """What a caller may carry from one phase to the next."""

    forward: Literal["summary", "none"] = "none"
    """When moving to a later phase."""
    backward: Literal["none"] = "none"
    """When moving to an earlier phase: never anything."""


class PhasesSpec(StrictModel):
    """How a blueprint runs phases."""

    from_: Annotated[Literal["cartridge.phases"] | None, Field(alias="from")] = None
    """The place in the cartridge where the phases are drawn."""
    order: tuple[Name, ...] = ()
    """Phase names in order, if the blueprint lists them."""
    can_see: dict[Name, tuple[Name, ...]] = {}
    """Maps a phase to the phases whose turns it sees, which must include itself. If it is given, a
    drawn phase that is missing here sees nothing.
    """
    carry: CarrySpec = CarrySpec()
    """What may be carried to the next phase."""
    profiles: dict[Name, Name] = {}
    """Maps a phase to the profile that the session switches to when it enters the phase."""
    calls: dict[Literal["freeform", "debrief"], Name] = {}
    """Maps a kind of phase to the call it makes."""
    signals: dict[Name, Literal["on_success", "on_partial", "on_max_exchanges"]] = {}
    """Maps a signal of the model to the transition it follows."""
    meanings: dict[Name, str] = {}
    """Maps a signal to what the model is told that it means, unless the phase says otherwise."""

    @model_validator(mode="after")
    def _check_one_source(self) -> PhasesSpec:
        if (self.from_ is None) == (not self.order):
            message = "phases are either drawn (`from`) or named (`order`)"
            raise ValueError(message)
        return self


@dataclass(frozen=True, slots=True)
class PhaseGraph:
    """The state machine of one session."""

    start: str
    phases: Mapping[str, PhaseDefinition]
    spec: PhasesSpec
    carry_template: str = "{summary}"
    """Template of the carried text, with the slots `{from}` and `{summary}`."""

    def find_next_phase(self, phase: str, signal: str) -> str | None:
        """Return the phase that a signal leads to, or None."""
        transition = self.spec.signals.get(signal)
        found = self.phases.get(phase)
        if found is None or transition is None:
            return None
        target: str | None = getattr(found.ai_transitions, transition)
        return target

    def get_signal_meaning(self, phase: str | None, signal: str) -> str:
        """Return what a signal means in a phase, or an empty string."""
        found = self.phases.get(phase or "")
        own = found.meanings if found else {}
        return own.get(signal, self.spec.meanings.get(signal, ""))

    def get_visible_phases(self, phase: str | None) -> frozenset[str] | None:
        """Return the phases whose turns a phase sees; None if all phases see everything."""
        return frozenset(self.spec.can_see.get(phase or "", ())) if self.spec.can_see else None

    @property
    def hides_phases(self) -> bool:
        """Whether the turns of one phase are hidden from others."""
        return bool(self.spec.can_see)

    def format_carried_summary(self, before: str | None, summary: str) -> str:
        """Return the text that the next phase gets about the phase `before`."""
        return fill_slots(self.carry_template, {"from": before, "summary": summary})

    def is_forward_move(self, before: str | None, phase: str) -> bool:
        """Return whether `phase` comes after `before` in the blueprint's order."""
        order = self.spec.order
        are_ordered = before in order and phase in order
        return are_ordered and order.index(before or "") < order.index(phase)

    def list_signals(self, phase: str | None, exchanges: int) -> tuple[str, ...]:
        """Return the signals that a model may send in a phase after this many exchanges."""
        found = self.phases.get(phase or "")
        if found is None or found.kind != "freeform" or exchanges < found.min_exchanges:
            return ()
        return tuple(
            signal for signal in self.spec.signals if self.find_next_phase(phase or "", signal)
        )


def build_phase_graph(spec: PhasesSpec, definitions: JsonValue, carry_template: str) -> PhaseGraph:
    """Build the state machine of a session from a cartridge that has been validated."""
    if spec.order:
        named = {name: PhaseDefinition(kind="freeform") for name in spec.order}
        return PhaseGraph(spec.order[0], named, spec, carry_template)
    if not isinstance(definitions, dict):
        message = "phases must be a mapping"
        raise TypeError(message)
    states = {name: state for name, state in definitions.items() if name != "start"}
    return PhaseGraph(
        str(definitions.get("start")), PHASES_ADAPTER.validate_python(states), spec, carry_template
    )


def find_graph_faults(graph: PhaseGraph) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and description of every inconsistency of a state machine."""
    if graph.start not in graph.phases:
        yield ("start",), f"there is no phase `{graph.start}`"
    for name, phase in graph.phases.items():
        for path, target in _iterate_targets(phase):
            if target not in graph.phases:
                yield (name, *path), f"there is no phase `{target}`"
        for signal in phase.meanings.keys() - graph.spec.signals.keys():
            yield (name, "meanings", signal), f"there is no signal `{signal}`"
        if phase.max_exchanges is not None and phase.max_exchanges < phase.min_exchanges:
            yield (name, "max_exchanges"), f"it is less than min_exchanges {phase.min_exchanges}"
        if phase.max_exchanges is not None and phase.ai_transitions.on_max_exchanges is None:
            yield (name, "ai_transitions"), "`max_exchanges` needs `on_max_exchanges`"


def _iterate_targets(phase: PhaseDefinition) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, choice in phase.choices.items():
        yield ("choices", name, "next"), choice.next
    for name, target in phase.ai_transitions:
        if target is not None:
            yield ("ai_transitions", name), target
    if phase.next is not None:
        yield ("next",), phase.next
