"""A session of any length in the time its prompts take: every turn decided, assembled, encoded.

Its events equal those of a gateway and a worker, digests included, since the same functions make
them from the same state. Left out are the model, the tokens and the wait for each append: events
are appended some hundreds at a time, with the interval snapshots that the product writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from benchmarks.support.random_prose import RandomProse
from turnlog.events.codec import (
    BatchMessage,
    EventBatch,
    EventDraft,
    decode_event,
    encode_batch,
    format_rfc3339,
)
from turnlog.events.jetstream.jetstream_client import JetStreamClient
from turnlog.events.model.prompt_events import PromptFile
from turnlog.events.store.ports import BatchAppended
from turnlog.events.subjects import SESSION_HISTORY
from turnlog.projections.blueprint.schema.blueprint_model import compute_history_reach
from turnlog.projections.blueprint.schema.layer_specs import FileLayer
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.prompt.assembly_inputs import PromptCall, parse_provider
from turnlog.projections.prompt.sources.session_material import SessionMaterial
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
from turnlog.projections.testing import SAMPLE_SPENT, get_attempt, get_open_turn
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.caches.media_cache import MediaReader
from turnlog.services.caches.session_snapshots import (
    AuthenticatedSnapshotStore,
    CheckedSnapshotStore,
    IntervalSnapshots,
    has_crossed_interval,
)
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.platform.clock import create_id, read_clock
from turnlog.services.platform.gc_control import reduce_collection

TENANT: Final = "default"

SNAPSHOT_KEY: Final = "5e" * 32

BLUEPRINT: Final = "assistant"

MODEL: Final = "scripted/bench"

TURNS_PER_APPEND: Final = 100
"""Turns in one append."""


@dataclass(slots=True, kw_only=True)
class DecidedSession:
    """A session in progress, and its events that are not on the log yet."""

    session: str
    material: SessionMaterial
    files: dict[str, PromptFile]
    texts: TextReader
    prose: RandomProse
    characters: int
    """Of a text and of a reply."""
    state: SessionState | None = None
    messages: list[BatchMessage] = field(default_factory=list[BatchMessage])
    waypoints: list[SessionState] = field(default_factory=list[SessionState])

    def apply_command(self, command: Command) -> SessionState:
        """Decide a command and fold its events."""
        before = self.state
        head = before.head if before else None
        events = decide(before, command, read_clock())
        drafts = [
            EventDraft(
                event=each, id=create_id(), at=read_clock(), source="/turnlog/bench", actor="bench"
            )
            for each in events
        ]
        messages = encode_batch(TENANT, self.session, head, drafts).messages
        place = head.stream_sequence if head else 0
        recorded = [decode_event(each.payload, place + n) for n, each in enumerate(messages, 1)]
        self.texts.cache_events(recorded)
        after = self.state = fold(recorded, before)
        assert after
        self.messages += messages
        if has_crossed_interval(before, after):
            self.waypoints.append(after)
        return after

    async def run_turn(self) -> None:
        """Submit a turn and answer it."""
        policies = self.material.blueprint.policies
        submitted = self.apply_command(
            SubmitTurn(text=self.prose.generate_text(self.characters), policies=policies)
        )
        state = self.apply_command(ClaimTurn(get_open_turn(submitted).turn, "bench", policies))
        attempt, provider = get_attempt(state), parse_provider(MODEL)
        if provider not in state.prompts:
            state = self.apply_command(SnapshotPrompts(attempt, provider, self.files))
        call = PromptCall(kind="reply", model=MODEL, at=format_rfc3339(read_clock()))
        plan = plan_prompt(self.material, state, call)
        made = assemble(plan, await self.texts.fetch_texts(TENANT, plan.needs))
        self.apply_command(
            FixContext(
                attempt=attempt,
                model=MODEL,
                parameters=dict(made.request.parameters),
                manifest=made.manifest,
            )
        )
        self.apply_command(
            CompleteTurn(
                attempt=attempt,
                text=self.prose.generate_text(self.characters),
                finish="stop",
                spent=SAMPLE_SPENT,
            )
        )


async def run_session(
    on: JetStreamClient, session: str, turns: int, characters: int
) -> SessionState:
    """Lead a session by the shipped assistant on a log that holds nothing else; gives its end."""
    life = await _open_decided_session(on, session, characters)
    with reduce_collection():
        for turn in range(1, turns + 1):
            await life.run_turn()
            if turn % TURNS_PER_APPEND == 0 or turn == turns:
                await _append_pending(on, life)
    assert life.state
    return life.state


async def _open_decided_session(
    on: JetStreamClient, session: str, characters: int
) -> DecidedSession:
    library, store = BlueprintFolders(), BlueprintStore(on.blobs)
    blueprint = library.load_blueprint(BLUEPRINT)
    layers = {n: each for n, each in blueprint.layers.items() if isinstance(each, FileLayer)}
    found = library.read_prompt_files(blueprint, layers, parse_provider(MODEL), {})
    files = {
        name: PromptFile(digest=await on.blobs.put_blob(TENANT, text.encode()), path=path)
        for name, (path, text) in found.items()
    }
    texts = TextReader(log=on.log, blobs=on.blobs, media=MediaReader(on.media))
    life = DecidedSession(
        session=session,
        material=SessionMaterial(blueprint=blueprint),
        files=files,
        texts=texts,
        prose=RandomProse(),
        characters=characters,
    )
    ref = await store.store_blueprint(TENANT, blueprint)
    attributes = {"language": "English", "name": "Turnlog"}
    life.apply_command(
        OpenSession(
            blueprint=ref,
            profile=blueprint.default_profile,
            reach=compute_history_reach(blueprint),
            attributes={**attributes},
        )
    )
    return life


async def _append_pending(on: JetStreamClient, life: DecidedSession) -> None:
    """Put onto the log what is not there yet."""
    end = await on.log.read_last_event(TENANT, life.session)
    head, subjects = end.head if end else None, SESSION_HISTORY.build_filter(TENANT, life.session)
    batch = EventBatch(
        tenant=TENANT,
        session=life.session,
        after=head,
        messages=tuple(life.messages),
        subjects=subjects,
    )
    outcome = await on.log.append_batch(batch)
    assert isinstance(outcome, BatchAppended), outcome
    assert life.state
    assert outcome.events[-1].head == life.state.head, "somebody else writes to this log"
    for state in life.waypoints:
        signed = AuthenticatedSnapshotStore(on.snapshots, SNAPSHOT_KEY)
        await IntervalSnapshots(CheckedSnapshotStore(on.log, signed)).save_state(state)
    life.messages.clear()
    life.waypoints.clear()
