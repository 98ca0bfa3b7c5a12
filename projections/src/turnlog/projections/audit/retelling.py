"""Retelling: everything that `assemble` was given for each call of a session, had again.

A session is folded from its first event, and just before each call that fixed a prompt the fold
stands where it stood then. What was redacted, excluded or erased afterwards plays no part. No
digest is looked at here: whether the prompt is the recorded one is for whoever assembles it.
"""

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
"""Materials held at a time; sessions that lie side by side are made from few."""


@dataclass(frozen=True, slots=True)
class Made:
    """A call that was made; `assemble(material, state, asked, texts)` gives its prompt again."""

    recorded: Recorded
    """The event that fixed its prompt."""
    call: ContextAssembled
    """The same, as what it says."""
    state: SessionState
    """The session at the manifest's sequence."""
    material: Material
    asked: Call
    texts: Texts


NAMING: Final = (
    *(SessionOpened, BlueprintMoved, PromptsSnapshotted),
    *(ToolsSnapshotted, ToolReturned, ContextAssembled),
)
"""The kinds of event that name blobs, all of them."""


def blobs_named(events: Iterable[Recorded]) -> tuple[Digest, ...]:
    """Name every blob that retelling and reading back these events will ask for."""
    return tuple(dict.fromkeys(chain.from_iterable(map(blobs_in, of_kinds(events, *NAMING)))))


def blobs_in(recorded: Recorded) -> Iterable[Digest]:
    """Name those of one event, some of them more than once."""
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
    """Ask for a call as it was asked for then, by its record."""
    kind, model, at = call.manifest.kind, call.model, call.manifest.at
    bare = Call(kind, model, provider_of(model), at, inputs)
    wanted = segments_wanted(material, state, bare)
    given = recalled(wanted, call.manifest, blobs)
    return Call(kind, model, bare.provider, at, inputs, given)


@dataclass(slots=True)
class Retelling:
    """One session, as far as it was told; the next event is added by `told`."""

    blobs: Mapping[Digest, str]
    installed: Installed
    state: SessionState | None = None
    known: list[Recorded] = field(default_factory=list[Recorded])
    """The events told so far."""
    materials: dict[Pins, Material] = field(default_factory=dict[Pins, Material])
    """What was read before, by what it is pinned by; sessions that are told together share it."""
    bare: bool = False
    """Whether calls are told without texts, for whoever supposes a change and asks for others."""
    _whole: SessionState | None = None
    _heard: Heard = field(init=False)

    def __post_init__(self) -> None:
        self._heard = Heard(self.known)

    def told(self, recorded: Recorded) -> None:
        """Take in an event."""
        self.state = evolve(self.state, recorded)
        self.known.append(recorded)

    def made(self, recorded: Recorded) -> Made | None:
        """Give the call where the event that comes next fixes a prompt.

        Raises `Corrupt` where something that was there then is there no more.
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
        """Give the state so far with every turn kept."""
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
        """Give what a call may refer to: the events told so far, and the blobs."""
        return Texts(self.blobs, self._heard, self._earlier(state.called.get(asked.kind)))

    def _earlier(self, place: int | None) -> Earlier | None:
        if place is None:
            return None
        at = bisect_left(self.known, place, key=lambda each: each.stream_sequence)
        said = self.known[at].event if at < len(self.known) else None
        if not isinstance(said, ContextAssembled):
            raise Corrupt(f"stream sequence {place}", "it is not the context of a call")
        return Earlier(said.call, said.manifest)
