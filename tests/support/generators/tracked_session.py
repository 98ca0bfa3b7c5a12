"""Sessions whose generator tracks the facts behind each prompt as it creates them.

Every turn makes a call with a blueprint that has one layer for every possible cause of a prompt
change. The facts at each call are stored beside it; nothing is read from a manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from tests.support.sessions.prompt_assembly import (
    REPLY_CALL,
    fetch_prompt_texts,
    open_with_blueprint,
)
from turnlog.events import codec
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.manifest import SegmentSource
from turnlog.events.model.prompt_events import PromptFile, PromptsSnapshotted
from turnlog.events.model.segment_events import (
    SEGMENT_FAMILY,
    NewSegment,
    NewSegmentVersion,
    SegmentsActivated,
    SegmentsAdded,
    SegmentsDeactivated,
    SegmentsEdited,
    SegmentText,
)
from turnlog.events.model.session_events import BlueprintRef, PhaseEntered, SessionOpened
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.events.registry import LibraryEvent
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.blueprint.schema.history_specs import MemoryPolicy
from turnlog.projections.blueprint.schema.phase_specs import PhaseGraph
from turnlog.projections.library.segment_selection import (
    CallSegments,
    SegmentRequest,
    SelectedSegment,
)
from turnlog.projections.prompt.assemble import assemble, find_missing_turns, plan_prompt
from turnlog.projections.prompt.assembly_inputs import PromptCall
from turnlog.projections.prompt.sources.segment_layers import list_segment_requests
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import (
    ExcludeTurn,
    FixContext,
    MoveBlueprint,
    RecordChoice,
    RestoreTurn,
    SendSignal,
    SubmitTurn,
)
from turnlog.projections.session.evolve import fold_unbounded
from turnlog.projections.session.turn_commands import RedactReply, RedactText
from turnlog.projections.testing import (
    DEFAULT_POLICIES,
    TENANT,
    SessionScenario,
    claim_turn,
    complete_turn,
    get_attempt,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedTurn:
    """A turn, and the sequences of the events that concern it."""

    text: str
    reply: str
    completed: int | None = None
    excluded: bool = False
    marked: int | None = None
    redacted: int | None = None
    text_redacted: int | None = None
    asked: int = 0


@dataclass(frozen=True, slots=True)
class TrackedSubmission:
    """A submitted turn that is not answered yet."""

    text: str
    inputs: Mapping[str, JsonValue]
    asked: tuple[int, ...]
    """The event that submitted it, or those that queued and released it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedSegment:
    """A segment, and the library's sequences of the events that concern it."""

    ref: str | None
    tier: int
    text: str
    active: bool = True
    version: int = 1
    written: int = 0
    switched: int = 0

    @property
    def scope(self) -> str:
        """Its scope."""
        return "npc" if self.ref else "lore"

    def matches_request(self, want: SegmentRequest) -> bool:
        """Tell whether a call asks for it."""
        return (self.scope, self.ref) == (want.scope, want.ref)

    def build_selected_segment(self, number: int) -> SelectedSegment:
        """Give it as a call is given it."""
        source = SegmentSource(
            segment=number,
            version=self.version,
            digest=compute_digest(self.text),
            scope=self.scope,
            ref=self.ref,
            tier=self.tier,
        )
        return SelectedSegment(source, self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedFacts:
    """Everything the next call depends on, as the generator knows it."""

    turns: Mapping[int, TrackedTurn] = field(default_factory=dict[int, TrackedTurn])
    shelf: Mapping[int, TrackedSegment] = field(default_factory=dict[int, TrackedSegment])
    phase: tuple[str, int] = ("talk", 2)
    choices: tuple[tuple[str, int], ...] = ()
    pinned: int = 3
    """The event that pinned its prompt file."""
    note: int | None = None
    """The redaction that the next prompt mentions."""
    text_note: int | None = None
    """The redaction of a text that the next prompt mentions."""
    told: int | None = None
    """The last call whose prompt mentioned a redaction."""
    asked: tuple[int, ...] = ()
    """The events of its own turn: the submission, or queueing and release."""
    fixed: int = 0
    """The last event before its prompt was fixed."""
    text: str = ""
    mood: str | None = None
    people: Mapping[str, int] = field(default_factory=dict[str, int])
    room: int | None = None


NPC_REFS = ("npc.a", "npc.b")

TRACKED_LAYERS: dict[str, JsonValue] = {
    "persona": {"file": "persona.md"},
    "greeting": {"text": "You serve {name}."},
    "opening": {"text": "Greet them.", "when": "first_turn"},
    "lore": {"segments": {"scope": "lore"}, "component": "lore"},
    "people": {
        "each": "inputs.people",
        "heading": "NPC: {npc}",
        "segments": {"scope": "npc", "ref": "item.npc", "tier": "item.tier"},
        "component": "npc",
    },
    "mood": {"input": "mood", "component": "state"},
    "where": {"heading": "Now", "fields": {"Phase": "session.phase"}, "component": "task"},
    "path": {"each": "session.choices", "heading": "Chosen", "component": "path"},
    "note": {"text": "It was withheld.", "when": "reply_redacted", "component": "note"},
    "text_note": {"text": "They took it back.", "when": "text_redacted", "component": "note"},
}

TRACKED_PHASES: dict[str, JsonValue] = {
    "start": "talk",
    "talk": {"kind": "freeform", "ai_transitions": {"on_success": "pick"}},
    "pick": {
        "kind": "static",
        "choices": {
            "red": {"next": "talk", "context_label": "They chose red."},
            "blue": {"next": "walk", "context_label": "They chose blue."},
        },
    },
    "walk": {"kind": "freeform", "ai_transitions": {"on_success": "pick"}},
}


def build_tracked_blueprint(**changed: JsonValue) -> Blueprint:
    """Build the blueprint, with parts of it replaced."""
    return Blueprint.model_validate(
        {
            "blueprint": "led",
            "version": 1,
            "attributes": {"name": {"type": "text"}},
            "inputs": {
                "mood": {"type": "text"},
                "people": {"type": "list", "of": {"npc": "id", "tier": {"type": "int"}}},
                "room": {"type": "int"},
            },
            "cartridge": {"file": "cartridge.yaml"},
            "layers": TRACKED_LAYERS,
            "calls": {
                "reply": {
                    "messages": [
                        {"system": [*TRACKED_LAYERS]},
                        {"history": "recent"},
                        {"user": ["input"]},
                    ],
                }
            },
            "history": {"recent": {}},
            "phases": {
                "from": "cartridge.phases",
                "calls": {"freeform": "reply", "debrief": "reply"},
                "signals": {"understood": "on_success"},
            },
            "profiles": {"chat": {"default": True, "call": "reply"}},
        }
        | changed
    )


@dataclass(slots=True, kw_only=True)
class TrackedSession:
    """A session together with the facts that its generator knows about it."""

    blueprint: Blueprint
    persona: str = "Be kind."
    name: str = "Ann"
    memory: MemoryPolicy | None = None
    session: SessionScenario = field(init=False)
    world: TrackedFacts = field(default_factory=TrackedFacts)
    library: list[RecordedEvent] = field(default_factory=list[RecordedEvent])
    calls: dict[str, TrackedFacts] = field(default_factory=dict[str, TrackedFacts])
    waiting: list[TrackedSubmission] = field(default_factory=list[TrackedSubmission])
    gives: Callable[[SegmentRequest], tuple[SelectedSegment, ...]] | None = None
    """Another library than the one it leads."""

    def __post_init__(self) -> None:
        opened = open_with_blueprint(self.blueprint, {"persona": self.persona}, name=self.name)
        first, pinned = (each.event for each in opened.events)
        assert isinstance(first, SessionOpened)
        assert isinstance(pinned, PromptsSnapshotted)
        made = first.model_copy(update={"blueprint": self.ref})
        self.session = SessionScenario().apply_steps(
            made, PhaseEntered(phase=self.graph.start), pinned
        )

    @property
    def ref(self) -> BlueprintRef:
        """What its blueprint is known by."""
        digest = compute_digest(self.blueprint.model_dump_json())
        return BlueprintRef(name="led", version=1, digest=digest)

    @property
    def graph(self) -> PhaseGraph:
        """Its phase graph."""
        found = self.material.phases
        assert found
        return found

    @property
    def material(self) -> SessionMaterial:
        """What it is made from."""
        return SessionMaterial(
            blueprint=self.blueprint, cartridge={"phases": TRACKED_PHASES}, memory=self.memory
        )

    @property
    def last_sequence(self) -> int:
        """The sequence of its last event."""
        return self.session.events[-1].sequence

    def update_facts(self, **now: object) -> None:
        """Replace facts, from here on."""
        self.world = replace(self.world, **now)  # type: ignore[arg-type]

    # Changes to the segment library

    def add_segment(self, number: int, text: str, ref: str | None = None, tier: int = 0) -> None:
        """Add a segment."""
        scope = "npc" if ref else "lore"
        new = NewSegment(id=number, scope=scope, ref=ref, text=build_segment_text(text, tier))
        at = self.record_library_event(SegmentsAdded(segments=(new,)))
        segment = TrackedSegment(ref=ref, tier=tier, text=text, written=at, switched=at)
        self.update_facts(shelf={**self.world.shelf, number: segment})

    def edit_segment(self, number: int, text: str, variant: str = "a") -> None:
        """Replace the text of a segment."""
        segment = self.world.shelf[number]
        segment_text = build_segment_text(text, segment.tier)
        version = NewSegmentVersion(
            id=number, version=segment.version + 1, variant=variant, text=segment_text
        )
        at = self.record_library_event(SegmentsEdited(versions=(version,)))
        segment = replace(segment, text=text, version=segment.version + 1, written=at)
        self.update_facts(shelf={**self.world.shelf, number: segment})

    def toggle_segment(self, number: int) -> None:
        """Deactivate a segment, or activate it again."""
        segment = self.world.shelf[number]
        kind = SegmentsDeactivated if segment.active else SegmentsActivated
        at = self.record_library_event(kind(segments=(number,)))
        segment = replace(segment, active=not segment.active, switched=at)
        self.update_facts(shelf={**self.world.shelf, number: segment})

    def record_library_event(self, event: LibraryEvent) -> int:
        """Record an event of the library and return its sequence."""
        sequence = len(self.library) + 1
        draft = codec.EventDraft(
            event=event,
            id=f"library-{sequence}",
            at=self.session.now,
            source="/test",
            actor="author",
        )
        head = self.library[-1].head if self.library else None
        batch = codec.encode_batch(
            tenant=TENANT, session=SEGMENT_FAMILY, after=head, drafts=[draft], kind=LIBRARY_HISTORY
        )
        self.library.append(codec.decode_event(batch.messages[0].payload, sequence))
        return sequence

    # Changes to the session

    def submit_turn(self, text: str, **inputs: JsonValue) -> str:
        """Submit a turn, fix the prompt of its call, and return the call's name."""
        self.queue_turn(text, **inputs)
        return self.start_turn()

    def queue_turn(self, text: str, **inputs: JsonValue) -> None:
        """Put a turn to the session; it waits behind the one that is open."""
        self.session = self.session.apply_steps(
            SubmitTurn(text=text, policies=DEFAULT_POLICIES, phases=self.graph, inputs=inputs)
        )
        self.waiting.append(TrackedSubmission(text, inputs, (self.last_sequence,)))

    def start_turn(self) -> str:
        """Start the next waiting turn, fix its prompt, and return the call's name."""
        put = self.waiting.pop(0)
        people = put.inputs.get("people")
        tiers = {str(p["npc"]): int(str(p["tier"])) for p in people or () if isinstance(p, dict)}  # type: ignore[union-attr]
        mood, room = put.inputs.get("mood"), put.inputs.get("room")
        self.update_facts(asked=put.asked, text=put.text, mood=mood, people=tiers, room=room)
        self.session = self.session.apply_steps(claim_turn())
        if not self.session.opened_state.prompts:
            file = PromptFile(digest=compute_digest(self.persona), path="persona.md")
            pinned = PromptsSnapshotted(provider="openai", layers={"persona": file})
            self.session = self.session.apply_steps(pinned)
            self.update_facts(pinned=self.last_sequence)
        return self.fix_prompt()

    def fix_prompt(self) -> str:
        """Record the prompt that the open turn's call has now."""
        state = self.session.opened_state
        bare_call = PromptCall(
            kind="reply", model=REPLY_CALL.model, at=codec.format_rfc3339(self.session.now)
        )
        call = replace(bare_call, inputs=self.inputs)
        found = list_segment_requests(self.material, state, call)
        call = replace(
            call, gathered=CallSegments({each: self.select_segments(each) for each in found})
        )
        if find_missing_turns(self.material, state, call):
            state = fold_unbounded(self.session.events) or state
        plan = plan_prompt(self.material, state, call)
        texts = fetch_prompt_texts(plan.needs, self.session.events, {"persona": self.persona})
        made = assemble(plan, texts)
        attempt = get_attempt(self.session.opened_state)
        fixing = FixContext(
            attempt=attempt, model=call.model, parameters={}, manifest=made.manifest
        )
        self.update_facts(fixed=self.last_sequence)
        self.calls[attempt.call] = self.world
        self.session = self.session.apply_steps(fixing)
        if self.world.note is not None or self.world.text_note is not None:
            self.update_facts(note=None, text_note=None, told=self.last_sequence)
        return attempt.call

    @property
    def inputs(self) -> dict[str, JsonValue]:
        """The inputs of the open turn."""
        event = self.session.events[self.world.asked[0] - 1].event
        return dict(getattr(event, "inputs", {}))

    def select_segments(self, want: SegmentRequest) -> tuple[SelectedSegment, ...]:
        """Give what the library has of what a call wants."""
        if self.gives:
            return self.gives(want)
        segments = sorted(self.world.shelf.items())
        return tuple(
            segment.build_selected_segment(n)
            for n, segment in segments
            if segment.active and segment.matches_request(want)
        )

    def answer_turn(self, reply: str) -> None:
        """Answer the open turn."""
        turn = get_attempt(self.session.opened_state).turn
        self.session = self.session.apply_steps(complete_turn(reply))
        settled = [each.sequence for each in self.session.events if _is_turn_completed(each)]
        tracked = TrackedTurn(
            text=self.world.text, reply=reply, completed=settled[-1], asked=self.world.asked[0]
        )
        self.update_facts(turns={**self.world.turns, turn: tracked})
        if self.waiting:
            put = self.waiting[0]
            self.waiting[0] = replace(put, asked=(*put.asked, self.last_sequence))

    def toggle_exclusion(self, turn: int) -> None:
        """Exclude a turn, or restore it."""
        tracked = self.world.turns[turn]
        self.session = self.session.apply_steps(
            RestoreTurn(turn) if tracked.excluded else ExcludeTurn(turn)
        )
        tracked = replace(tracked, excluded=not tracked.excluded, marked=self.last_sequence)
        self.update_facts(turns={**self.world.turns, turn: tracked})

    def redact_reply(self, turn: int, replacement: str) -> None:
        """Redact a reply, unless it is redacted already."""
        tracked = self.world.turns[turn]
        if tracked.redacted:
            return
        self.session = self.session.apply_steps(
            RedactReply(turn, "because", "operator", replacement)
        )
        tracked = replace(tracked, reply=replacement, redacted=self.last_sequence)
        self.update_facts(turns={**self.world.turns, turn: tracked})
        if turn == max(self.world.turns):
            self.update_facts(note=self.last_sequence)

    def redact_text(self, turn: int, replacement: str) -> None:
        """Redact the text of a turn, unless it is redacted already."""
        tracked = self.world.turns[turn]
        if tracked.text_redacted:
            return
        self.session = self.session.apply_steps(
            RedactText(turn=turn, reason="so", rule="operator", replacement=replacement)
        )
        tracked = replace(tracked, text=replacement, text_redacted=self.last_sequence)
        self.update_facts(turns={**self.world.turns, turn: tracked})
        if turn == max(self.world.turns):
            self.update_facts(text_note=self.last_sequence)

    def upgrade_blueprint(self, blueprint: Blueprint, persona: str, name: str) -> None:
        """Move the session to another blueprint, in a phase entered for that purpose."""
        self.choose_path("red")
        self.blueprint, self.persona, self.name = blueprint, persona, name
        move = MoveBlueprint(
            blueprint=self.ref,
            reach=compute_history_reach(blueprint),
            attributes={"name": name},
            profiles={"chat"},
            allowed_models=blueprint.allowed_models,
            current_phases=self.graph,
            phases=self.graph,
            stale=True,
        )
        self.session = self.session.apply_steps(move)

    def choose_path(self, choice: str) -> None:
        """End the dialogue and choose how to go on."""
        self.session = self.session.apply_steps(SendSignal("understood", self.graph))
        self.session = self.session.apply_steps(RecordChoice(choice, self.graph))
        chosen, arrived = self.last_sequence - 1, self.last_sequence
        phase = {"red": "talk", "blue": "walk"}[choice]
        self.update_facts(phase=(phase, arrived), choices=(*self.world.choices, (choice, chosen)))


def build_segment_text(text: str, tier: int) -> SegmentText:
    """Say what an event of the library says of a text."""
    return SegmentText(digest=compute_digest(text), characters=len(text), tier=tier)


def _is_turn_completed(recorded: RecordedEvent) -> bool:
    return isinstance(recorded.event, TurnCompleted)
