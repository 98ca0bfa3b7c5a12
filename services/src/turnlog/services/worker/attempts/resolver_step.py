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
from turnlog.projections.blueprint.schema.lookups.resolver_specs import ResolverSpec
from turnlog.projections.prompt.history.memory_access import MemoryAccess
from turnlog.projections.prompt.sources.session_material import find_phase_visibility
from turnlog.projections.session.commands import ResolveTurn
from turnlog.projections.session.open_turn import TurnResolution
from turnlog.projections.session.reference_inheritance import (
    StatedReferences,
    find_last_reference,
    resolve_references,
)
from turnlog.projections.session.text_refs import TextRef
from turnlog.services.extensions.resolver_client import format_resolver_name, request_outcome
from turnlog.services.extensions.resolver_contract import ResolverRequest
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.prompt_inputs import load_memory_messages
from turnlog.services.worker.turn_context import TurnContext, append_command


@dataclass(frozen=True, slots=True)
class ResolverStep:
    """Resolves the turns of a worker."""

    sessions: CommandHandler

    async def resolve_turn(self, context: TurnContext) -> TurnResolution | None:
        """Resolve a turn and return the result.

        Returns None if the blueprint has no resolver or the turn has no text. Raises
        `ResolverFailure`, and `AttemptSuperseded` if the attempt lost its lease.
        """
        spec = context.material.blueprint.resolver
        if spec is None:
            return None
        state = await self.sessions.require_state(context.tenant, context.session)
        context = context.move_to(state)
        opened = context.require_turn()
        text = opened.submission.text
        if opened.resolved or text is None:
            return opened.resolved
        question = await self._build_question(context, text)
        command = await self._build_command(context, spec, question)
        return (await append_command(self.sessions, context, command)).require_turn().resolved

    async def fetch_answer(self, tenant: str, resolved: TurnResolution) -> str:
        """Return the resolver's own answer, which needs no model."""
        texts = await self.sessions.texts.read_texts(tenant, (resolved.answer,))
        return texts[resolved.answer]

    async def _build_command(
        self, context: TurnContext, spec: ResolverSpec, question: ResolverRequest
    ) -> ResolveTurn:
        outcome = await request_outcome(spec, question)
        own = {**question.identifiers, **outcome.identifiers}
        about = StatedReferences(context.attempt.turn, outcome.intent, outcome.entity, own)
        last = find_last_reference(context.state)
        means = resolve_references(context.material.references, last, about)
        if means.is_inherited:
            again = ResolverRequest(question.text, means.identifiers, question.history)
            outcome = await request_outcome(spec, again)
        return ResolveTurn(
            attempt=context.attempt,
            resolver=format_resolver_name(spec),
            references=means,
            results=encode_canonical(outcome.results),
            answer=outcome.answer,
            intent=outcome.intent,
            entity=outcome.entity,
            found=outcome.found,
            meta=outcome.meta,
        )

    async def _build_question(self, context: TurnContext, text_ref: TextRef) -> ResolverRequest:
        (recorded,) = await self.sessions.log.read_events_at(context.tenant, [text_ref.place])
        match recorded.event:
            case (
                TurnSubmitted(text=PlainText(text=text))
                | TurnQueued(text=PlainText(text=text)) as event
            ):
                history = await self._load_history(context)
                return ResolverRequest(text, event.references, history)
            case _:
                raise Corrupt(f"event {recorded.sequence}", "it is not a turn that can be read")

    async def _load_history(self, context: TurnContext) -> tuple[dict[str, JsonValue], ...]:
        material, state = context.material, context.state
        if material.memory is None:
            return ()
        at = format_rfc3339(self.sessions.clock())
        return await load_memory_messages(
            self.sessions,
            state,
            MemoryAccess(
                policy=material.memory, reader="planner", at=at, counts_empty_replies=True
            ),
            find_phase_visibility(material, state),
        )
