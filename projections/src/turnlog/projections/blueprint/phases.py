"""Phases: the state machine of a session, as its cartridge draws it or its blueprint names it.

Where a cartridge draws it, that is the only source of states and transitions; the blueprint says
which kind of call a kind of phase makes, and which of a model's signals follows which transition.
Where a blueprint names phases in order, each is a dialogue, and a caller moves between them. Either
may keep them apart: what was said in one is seen only in those that say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, TypeAdapter, model_validator

from turnlog.projections.blueprint.slots import filled_slots
from turnlog.projections.blueprint.strict import Name, Strict

BY_PHASE: Final = "by_phase"
"""A profile's call when it depends on the phase."""
TRANSITION: Final = "transition_phase"
"""The one tool a model is offered to end a phase."""
Kind = Literal["static", "freeform", "debrief"]
"""A phase of choices, of dialogue, or one that speaks once by itself."""


class Choice(Strict):
    """One way on from a static phase."""

    next: Name
    """The phase it leads to."""
    context_label: str | None = None
    """What prompts may say of it later."""


class Transitions(Strict):
    """Where a dialogue goes on, by how it went."""

    on_success: Name | None = None
    """The student understood."""
    on_partial: Name | None = None
    """The student understood in part."""
    on_max_exchanges: Name | None = None
    """The dialogue has become too long."""


class Phase(Strict):
    """One state."""

    kind: Kind
    """What happens in it."""
    choices: dict[Name, Choice] = {}
    """Of a static phase."""
    min_exchanges: Annotated[int, Field(ge=0)] = 0
    """Exchanges before a model may end the phase."""
    max_exchanges: Annotated[int, Field(ge=1)] | None = None
    """Exchanges after which the phase ends by itself."""
    ai_transitions: Transitions = Transitions()
    """Of a freeform phase."""
    next: Name | None = None
    """What follows a debrief."""


PHASES: TypeAdapter[dict[Name, Phase]] = TypeAdapter(dict[Name, Phase])


class Carry(Strict):
    """What a caller may tell the next phase of the one left."""

    forward: Literal["summary", "none"] = "none"
    """To a later phase."""
    backward: Literal["none"] = "none"
    """To an earlier one: nothing ever goes there."""


class PhasesSpec(Strict):
    """How a blueprint runs the phases of its cartridge."""

    from_: Annotated[Literal["cartridge.phases"] | None, Field(alias="from")] = None
    """Where they are drawn, if a cartridge draws them."""
    order: tuple[Name, ...] = ()
    """Their names from the first to the last, if the blueprint has them."""
    can_see: dict[Name, tuple[Name, ...]] = {}
    """Phase to those whose turns it may see, itself among them; where it is given, a drawn phase
    that is not in it sees nothing."""
    carry: Carry = Carry()
    """What may be told of the phase left."""
    profiles: dict[Name, Name] = {}
    """Phase to the profile that a session runs by from entering it."""
    calls: dict[Literal["freeform", "debrief"], Name] = {}
    """Kind of phase to kind of call."""
    signals: dict[Name, Literal["on_success", "on_partial", "on_max_exchanges"]] = {}
    """A model's signal to the transition it follows."""

    @model_validator(mode="after")
    def _drawn_once(self) -> PhasesSpec:
        if (self.from_ is None) == (not self.order):
            message = "phases are either drawn (`from`) or named (`order`)"
            raise ValueError(message)
        return self


@dataclass(frozen=True, slots=True)
class PhaseGraph:
    """The state machine of one session."""

    start: str
    phases: Mapping[str, Phase]
    spec: PhasesSpec
    words: str = "{summary}"
    """How what is carried is said."""

    def leads(self, phase: str, signal: str) -> str | None:
        """Say where a signal leads from a phase; none when it leads nowhere."""
        transition = self.spec.signals.get(signal)
        found = self.phases.get(phase)
        if found is None or transition is None:
            return None
        target: str | None = getattr(found.ai_transitions, transition)
        return target

    def sees(self, phase: str | None) -> frozenset[str] | None:
        """Name the phases whose turns a phase may see; none where all see everything."""
        return frozenset(self.spec.can_see.get(phase or "", ())) if self.spec.can_see else None

    @property
    def keeps_apart(self) -> bool:
        """Whether what is said in one phase is hidden from others."""
        return bool(self.spec.can_see)

    def carried(self, before: str | None, summary: str) -> str:
        """Put what is told of a phase into the words that the next one reads."""
        return filled_slots(self.words, {"from": before, "summary": summary})

    def goes_forward(self, before: str | None, phase: str) -> bool:
        """Tell whether a phase lies behind another in their order."""
        order = self.spec.order
        there = before in order and phase in order
        return there and order.index(before or "") < order.index(phase)

    def offered(self, phase: str | None, exchanges: int) -> tuple[str, ...]:
        """Name the signals a model may send in a phase after so many exchanges."""
        found = self.phases.get(phase or "")
        if found is None or found.kind != "freeform" or exchanges < found.min_exchanges:
            return ()
        return tuple(signal for signal in self.spec.signals if self.leads(phase or "", signal))


def graph_of(spec: PhasesSpec, drawn: JsonValue, words: str) -> PhaseGraph:
    """Read the state machine out of a cartridge that was checked before."""
    if spec.order:
        named = {name: Phase(kind="freeform") for name in spec.order}
        return PhaseGraph(spec.order[0], named, spec, words)
    if not isinstance(drawn, dict):
        message = "phases must be a mapping"
        raise TypeError(message)
    states = {name: state for name, state in drawn.items() if name != "start"}
    return PhaseGraph(str(drawn.get("start")), PHASES.validate_python(states), spec, words)


def remarks_on(graph: PhaseGraph) -> Iterator[tuple[tuple[str, ...], str]]:
    """Give what is wrong with a state machine: where, and what."""
    if graph.start not in graph.phases:
        yield ("start",), f"there is no phase `{graph.start}`"
    for name, phase in graph.phases.items():
        for path, target in _targets(phase):
            if target not in graph.phases:
                yield (name, *path), f"there is no phase `{target}`"
        if phase.max_exchanges is not None and phase.max_exchanges < phase.min_exchanges:
            yield (name, "max_exchanges"), f"it is less than min_exchanges {phase.min_exchanges}"
        if phase.max_exchanges is not None and phase.ai_transitions.on_max_exchanges is None:
            yield (name, "ai_transitions"), "`max_exchanges` needs `on_max_exchanges`"


def _targets(phase: Phase) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, choice in phase.choices.items():
        yield ("choices", name, "next"), choice.next
    for name, target in phase.ai_transitions:
        if target is not None:
            yield ("ai_transitions", name), target
    if phase.next is not None:
        yield ("next",), phase.next
