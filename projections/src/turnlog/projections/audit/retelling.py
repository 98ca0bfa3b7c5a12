from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from pydantic import JsonValue

from turnlog.events.call import ContextAssembled
from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.manifest import FromBlob, FromSegment, Manifest
from turnlog.events.prompt import PromptsSnapshotted
from turnlog.events.session import BlueprintMoved, SessionOpened
from turnlog.events.tool import ToolReturned, ToolsSnapshotted
from turnlog.events.turn import TurnQueued, TurnSubmitted
from turnlog.projections.audit.heard import Heard
from turnlog.projections.audit.picking import of_kinds
from turnlog.projections.session.evolve import evolve, fold, fold_whole
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.telling import texts_of
from turnlog.projections.window.assemble import reaches_back, segments_wanted
from turnlog.projections.window.call import Call, Earlier, Texts, provider_of
from turnlog.projections.window.material import Material
from turnlog.projections.window.pinned import Installed, Pins, pinned, pins_of
from turnlog.projections.window.segments import recalled

MATERIALS: Final = 64
"""Maximum number of cached materials; sessions close together in the log share few."""


@dataclass(frozen=True, slots=True)
class Made:
    """A recorded call with everything that `assemble` was given for it.

    `assemble(material, state, call_request, texts)` returns its prompt again.
    """

    recorded: Recorded
    """The event that fixed the prompt."""
    call: ContextAssembled
    """The payload of that event."""
    state: SessionState
    """The session state at the manifest's sequence."""
    material: Material
    asked: Call
    texts: Texts


NAMING: Final = (
    *(SessionOpened, BlueprintMoved, PromptsSnapshotted),
    *(ToolsSnapshotted, ToolReturned, ContextAssembled),
)
"""All event types that name blobs."""


def blobs_named(events: Iterable[Recorded]) -> tuple[Digest, ...]:
    """Return the digest of every blob that replaying and reading back these events needs."""
    return tuple(dict.fromkeys(chain.from_iterable(map(blobs_in, of_kinds(events, *NAMING)))))


def blobs_in(recorded: Recorded) -> Iterable[Digest]:
    """Return the digests of the blobs that one event names, possibly with repeats."""
    match recorded.event:
        case SessionOpened() | BlueprintMoved() as made:
            return Pins(made.blueprint.digest, made.cartridge, made.memory).digests
        case PromptsSnapshotted(layers=layers):
            return (file.digest for file in layers.values())
        case ToolsSnapshotted() as pinned:
            return texts_of(pinned)
        case ToolReturned(result=result):
            return (result,) if result else ()
        case ContextAssembled(manifest=manifest):
            return _texts_of(manifest)
        case _:
            return ()


def _texts_of(manifest: Manifest) -> Iterable[Digest]:
    sources = (part.source for part in manifest.parts)
    return (each.digest for each in sources if isinstance(each, FromBlob | FromSegment))


def asked_again(
    material: Material,
    state: SessionState,
    call: ContextAssembled,
    inputs: Mapping[str, JsonValue],
    blobs: Mapping[Digest, str],
) -> Call:
    """Rebuild the request for a call from its record."""
    kind, model, at = call.manifest.kind, call.model, call.manifest.at
    bare = Call(kind, model, provider_of(model), at, inputs)
    wanted = segments_wanted(material, state, bare)
    given = recalled(wanted, call.manifest, blobs)
    return Call(kind, model, bare.provider, at, inputs, given)


@dataclass(slots=True)
class Retelling:
    """Replays one session event by event; `apply_event` adds the next event."""

    blobs: Mapping[Digest, str]
    installed: Installed
    state: SessionState | None = None
    known: list[Recorded] = field(default_factory=list[Recorded])
    """The events applied so far."""
    materials: dict[Pins, Material] = field(default_factory=dict[Pins, Material])
    """Material by its pins; sessions that are replayed together share the cache."""
    bare: bool = False
    """Whether call inputs come without texts, for callers that change the call and load texts
    later.
    """
    _whole: SessionState | None = None
    _heard: Heard = field(init=False)

    def __post_init__(self) -> None:
        self._heard = Heard(self.known)

    def told(self, recorded: Recorded) -> None:
        """Apply the next event to the state."""
        self.state = evolve(self.state, recorded)
        self.known.append(recorded)

    def made(self, recorded: Recorded) -> Made | None:
        """Return the inputs of the call if the next event fixes a prompt, otherwise None.

        Raises `Corrupt` if something that the call used is no longer there.
        """
        match recorded.event:
            case ContextAssembled() as call:
                return self._made(recorded, call)
            case _:
                return None

    def _made(self, recorded: Recorded, call: ContextAssembled) -> Made:
        state = self.state
        if state is None or state.head.sequence != call.manifest.sequence:
            detail = f"it was not assembled from event {call.manifest.sequence}"
            raise Corrupt(f"event {recorded.sequence}", detail)
        material = self._made_from(pins_of(state))
        asked = asked_again(material, state, call, self._inputs(state), self.blobs)
        if self.bare:
            return Made(recorded, call, state, material, asked, Texts())
        if reaches_back(material, state, asked):
            state = self.reaching_back()
        return Made(recorded, call, state, material, asked, self.texts(state, asked))

    def _made_from(self, pins: Pins) -> Material:
        if pins not in self.materials:
            while len(self.materials) >= MATERIALS:
                del self.materials[next(iter(self.materials))]
            self.materials[pins] = pinned(pins, self.blobs, self.installed)
        return self.materials[pins]

    def reaching_back(self) -> SessionState:
        """Return the state so far with every turn kept individually."""
        if self._whole is None:
            self._whole = fold_whole(self.known)
        else:
            told = self._whole.head.sequence + 1 - self.known[0].sequence
            self._whole = fold(self.known[told:], self._whole)
        if self._whole is None:
            raise Corrupt("event 1", "it does not open a session")
        return self._whole

    def _inputs(self, state: SessionState) -> Mapping[str, JsonValue]:
        brought = state.open.inputs if state.open else None
        if brought is None:
            return {}
        said = self._heard.event(brought.sequence).event
        if not isinstance(said, TurnSubmitted | TurnQueued):
            raise Corrupt(f"event {brought.sequence}", "it submits no turn")
        return said.inputs

    def texts(self, state: SessionState, asked: Call) -> Texts:
        """Return the texts a call may refer to: those of the events so far, and the blobs."""
        return Texts(self.blobs, self._heard, self._earlier(state.called.get(asked.kind)))

    def _earlier(self, place: int | None) -> Earlier | None:
        if place is None:
            return None
        at = bisect_left(self.known, place, key=lambda each: each.stream_sequence)
        said = self.known[at].event if at < len(self.known) else None
        if not isinstance(said, ContextAssembled):
            raise Corrupt(f"stream sequence {place}", "it is not the context of a call")
        return Earlier(said.call, said.manifest)
