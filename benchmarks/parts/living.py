"""A session of any length in the time its prompts take: every turn decided, assembled, encoded.

Its events equal those of a gateway and a worker, digests included, since the same functions make
them from the same state. Left out are the model, the tokens and the wait for each append: events
are appended some hundreds at a time, with the interval snapshots that the product writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from benchmarks.parts.prose import Prose
from turnlog.events.codec import Batch, Draft, Message, read, rfc3339, write
from turnlog.events.ids import session_subjects
from turnlog.events.log.outcomes import Appended
from turnlog.events.nats.opening import JetStream
from turnlog.events.prompt import PromptFile
from turnlog.projections.blueprint.layer import FileLayer
from turnlog.projections.blueprint.schema import reach
from turnlog.projections.session.commands import (
    ClaimTurn,
    Command,
    CompleteTurn,
    FixContext,
    OpenSession,
    SnapshotPrompts,
    SubmitTurn,
)
from turnlog.projections.session.decide import decide
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import SessionState
from turnlog.projections.testing import SPENT, attempt_of, open_turn
from turnlog.projections.window.assemble import assemble, needs
from turnlog.projections.window.call import Call, provider_of
from turnlog.projections.window.material import Material
from turnlog.services.runtime.blueprints import BlueprintStore
from turnlog.services.runtime.bulk import seldom_collected
from turnlog.services.runtime.clock import new_id, now
from turnlog.services.runtime.library import Library
from turnlog.services.runtime.snapshots import CheckedSnapshots
from turnlog.services.runtime.texts import TextReader
from turnlog.services.runtime.waypoints import Waypoints, passed

TENANT: Final = "default"
BLUEPRINT: Final = "assistant"
MODEL: Final = "scripted/bench"
AT_ONCE: Final = 100
"""Turns in one append."""


@dataclass(slots=True)
class Life:
    """A session in progress, and its events that are not on the log yet."""

    session: str
    material: Material
    files: dict[str, PromptFile]
    texts: TextReader
    prose: Prose
    characters: int
    """Of a text and of a reply."""
    state: SessionState | None = None
    messages: list[Message] = field(default_factory=list[Message])
    waypoints: list[SessionState] = field(default_factory=list[SessionState])

    def does(self, command: Command) -> SessionState:
        """Decide a command and fold its events."""
        before = self.state
        head = before.head if before else None
        events = decide(before, command, now())
        drafts = [Draft(each, new_id(), now(), "/turnlog/bench", "bench") for each in events]
        messages = write(TENANT, self.session, head, drafts).messages
        place = head.stream_sequence if head else 0
        recorded = [read(each.payload, place + n) for n, each in enumerate(messages, 1)]
        self.texts.note(recorded)
        after = self.state = fold(recorded, before)
        assert after
        self.messages += messages
        if passed(before, after):
            self.waypoints.append(after)
        return after

    async def turn(self) -> None:
        """Submit a turn and answer it."""
        policies = self.material.blueprint.policies
        asked = self.does(SubmitTurn(self.prose.say(self.characters), policies))
        state = self.does(ClaimTurn(open_turn(asked).turn, "bench", policies))
        attempt, provider = attempt_of(state), provider_of(MODEL)
        if provider not in state.prompts:
            state = self.does(SnapshotPrompts(attempt, provider, self.files))
        call = Call("reply", MODEL, provider, rfc3339(now()))
        texts = await self.texts.fetch(TENANT, needs(self.material, state, call))
        made = assemble(self.material, state, call, texts)
        self.does(FixContext(attempt, MODEL, dict(made.request.parameters), made.manifest))
        self.does(CompleteTurn(attempt, self.prose.say(self.characters), "stop", SPENT))


async def lived(on: JetStream, session: str, turns: int, characters: int) -> SessionState:
    """Run a session of the shipped assistant on an empty log, and return its last state."""
    life = await _begun(on, session, characters)
    with seldom_collected():
        for turn in range(1, turns + 1):
            await life.turn()
            if turn % AT_ONCE == 0 or turn == turns:
                await _put(on, life)
    assert life.state
    return life.state


async def _begun(on: JetStream, session: str, characters: int) -> Life:
    library, store = Library(), BlueprintStore(on.blobs)
    blueprint = library.get(BLUEPRINT)
    layers = {n: each for n, each in blueprint.layers.items() if isinstance(each, FileLayer)}
    found = library.prompt_files(blueprint, layers, provider_of(MODEL), {})
    files = {
        name: PromptFile(digest=await on.blobs.put(TENANT, text.encode()), path=path)
        for name, (path, text) in found.items()
    }
    texts = TextReader(on.log, on.blobs)
    life = Life(session, Material(blueprint), files, texts, Prose(), characters)
    ref = await store.pin(TENANT, blueprint)
    attributes = {"language": "English", "name": "Turnlog"}
    life.does(OpenSession(ref, blueprint.default_profile, reach(blueprint), {**attributes}))
    return life


async def _put(on: JetStream, life: Life) -> None:
    """Append the events that are not on the log yet."""
    end = await on.log.last(TENANT, life.session)
    head, subjects = end.head if end else None, session_subjects(TENANT, life.session)
    batch = Batch(TENANT, life.session, head, tuple(life.messages), subjects)
    outcome = await on.log.append(batch)
    assert isinstance(outcome, Appended), outcome
    assert life.state
    assert outcome.events[-1].head == life.state.head, "somebody else writes to this log"
    for state in life.waypoints:
        await Waypoints(CheckedSnapshots(on.log, on.snapshots)).keep(state)
    life.messages.clear()
    life.waypoints.clear()
