"""The resolver step: ask what a turn is about, and record the answer before anything else.

The resolver is first asked with the turn's own text. If its policy lets the turn inherit what the
text does not say, the resolver is asked once more with that. A turn that has been resolved is never
resolved again, whichever worker takes it over.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from turnlog.events.codec import format_rfc3339
from turnlog.events.content import PlainText, encode_canonical
from turnlog.events.errors import Corrupt
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted
from turnlog.projections.blueprint.schema.lookups.resolver_specs import ReferencesSpec, ResolverSpec
from turnlog.projections.prompt.history.memory_access import MemoryAccess
from turnlog.projections.prompt.sources.session_material import (
    SessionMaterial,
    find_phase_visibility,
)
from turnlog.projections.session.commands import AttemptRef, ResolveTurn
from turnlog.projections.session.open_turn import OpenTurn, TurnResolution
from turnlog.projections.session.reference_inheritance import StatedReferences, resolve_references
from turnlog.projections.session.rules.attempt_events import find_claimed_turn
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef
from turnlog.services.extensions.resolver_client import format_resolver_name, request_outcome
from turnlog.services.extensions.resolver_contract import ResolverRequest
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.idempotent_commands import CommandMetadata
from turnlog.services.sessions.prompt_inputs import load_memory_messages
from turnlog.services.worker.turn_claim import AttemptSuperseded


@dataclass(frozen=True, slots=True)
class ResolverStep:
    """Resolves the turns of a worker."""

    sessions: CommandHandler

    async def resolve_turn(
        self,
        state: SessionState,
        attempt: AttemptRef,
        material: SessionMaterial,
        by: CommandMetadata,
    ) -> TurnResolution | None:
        """Resolve a turn and return the result.

        Returns None if the blueprint has no resolver or the turn has no text. Raises
        `ResolverFailure`, and `AttemptSuperseded` if the attempt lost its lease.
        """
        spec = material.blueprint.resolver
        if spec is None:
            return None
        state = await self.sessions.require_state(state.tenant, state.session)
        opened = _require_current(state, attempt)
        text = opened.submission.text
        if opened.resolved or text is None:
            return opened.resolved
        question = await self._build_question(state, text, material)
        command = await self._build_command(state, attempt, material.references, spec, question)
        done = await self.sessions.handle(state.tenant, state.session, command, by)
        return _require_current(done.state, attempt).resolved

    async def fetch_answer(self, tenant: str, resolved: TurnResolution) -> str:
        """Return the resolver's own answer, which needs no model."""
        texts = await self.sessions.texts.read_texts(tenant, (resolved.answer,))
        return texts[resolved.answer]

    async def _build_command(
        self,
        state: SessionState,
        attempt: AttemptRef,
        references: ReferencesSpec | None,
        spec: ResolverSpec,
        question: ResolverRequest,
    ) -> ResolveTurn:
        outcome = await request_outcome(spec, question)
        own = {**question.identifiers, **outcome.identifiers}
        about = StatedReferences(attempt.turn, outcome.intent, outcome.entity, own)
        means = resolve_references(references, state.reference, about)
        if means.is_inherited:
            again = ResolverRequest(question.text, means.identifiers, question.history)
            outcome = await request_outcome(spec, again)
        return ResolveTurn(
            attempt,
            format_resolver_name(spec),
            means,
            encode_canonical(outcome.results),
            outcome.answer,
            outcome.intent,
            outcome.entity,
            outcome.meta,
        )

    async def _build_question(
        self, state: SessionState, text_ref: TextRef, material: SessionMaterial
    ) -> ResolverRequest:
        (recorded,) = await self.sessions.log.read_events_at(state.tenant, [text_ref.place])
        match recorded.event:
            case (
                TurnSubmitted(text=PlainText(text=text))
                | TurnQueued(text=PlainText(text=text)) as event
            ):
                history = await self._load_history(state, material)
                return ResolverRequest(text, event.references, history)
            case _:
                raise Corrupt(f"event {recorded.sequence}", "it is not a turn that can be read")

    async def _load_history(
        self, state: SessionState, material: SessionMaterial
    ) -> tuple[dict[str, JsonValue], ...]:
        if material.memory is None:
            return ()
        at = format_rfc3339(self.sessions.clock())
        return await load_memory_messages(
            self.sessions,
            state,
            MemoryAccess(material.memory, "planner", at, counts_empty_replies=True),
            find_phase_visibility(material, state),
        )


def _require_current(state: SessionState, attempt: AttemptRef) -> OpenTurn:
    opened = find_claimed_turn(state, attempt)
    if opened is None:
        raise AttemptSuperseded
    return opened
