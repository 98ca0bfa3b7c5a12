"""The resolver step: ask what a turn is about, and record the answer before anything else.

The resolver is first asked with the turn's own text. If its policy lets the turn inherit what the
text does not say, the resolver is asked once more with that. A turn that has been resolved is never
resolved again, whichever worker takes it over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from turnlog.events.call import Cost, Usage
from turnlog.events.codec import rfc3339
from turnlog.events.content import Plain
from turnlog.events.errors import Corrupt
from turnlog.events.turn import TurnQueued, TurnSubmitted
from turnlog.projections.blueprint.asking import ReferencesSpec, ResolverSpec
from turnlog.projections.session.attempts import current
from turnlog.projections.session.commands import Attempt, ResolveTurn, Spent
from turnlog.projections.session.references import Asked, meant
from turnlog.projections.session.state import OpenTurn, Resolved, Said, SessionState
from turnlog.projections.window.call import Needs
from turnlog.projections.window.material import Material
from turnlog.projections.window.memory import Recall
from turnlog.projections.window.request import canonical
from turnlog.projections.window.visibility import sight
from turnlog.services.runtime.asking import asked, name_of
from turnlog.services.runtime.recollecting import recollected
from turnlog.services.runtime.resolver import Question
from turnlog.services.runtime.sessions import By, Sessions
from turnlog.services.worker.context import Superseded

FREE: Final = Spent(
    Usage(known="reported", input_tokens=0, output_tokens=0),
    Cost(micro_dollars=0, price="exact", table="none"),
)
"""The cost of a claim without a model call: known to be nothing."""


@dataclass(frozen=True, slots=True)
class Unroutable:
    """The resolver found nothing that the turn could be answered from."""


@dataclass(frozen=True, slots=True)
class Resolving:
    """Resolves the turns of a worker."""

    sessions: Sessions

    async def resolved(
        self, state: SessionState, attempt: Attempt, material: Material, by: By
    ) -> Resolved | None:
        """Resolve a turn and return the result.

        Returns None if the blueprint has no resolver or the turn has no text. Raises
        `ResolverFailure`, and `AttemptSuperseded` if the attempt lost its lease.
        """
        spec = material.blueprint.resolver
        if spec is None:
            return None
        state = await self.sessions.load_open(state.tenant, state.session)
        opened = _still(state, attempt)
        if opened.resolved or opened.text is None:
            return opened.resolved
        question = await self._question(state, opened.text, material)
        command = await self._command(state, attempt, material.references, spec, question)
        done = await self.sessions.act(state.tenant, state.session, command, by)
        return _still(done.state, attempt).resolved

    async def answer(self, tenant: str, resolved: Resolved) -> str:
        """Return the resolver's own answer, which needs no model."""
        needs = Needs(blobs=(), said=(resolved.answer,), older=False)
        return (await self.sessions.texts.fetch(tenant, needs)).said[resolved.answer]

    async def _command(
        self,
        state: SessionState,
        attempt: Attempt,
        references: ReferencesSpec | None,
        spec: ResolverSpec,
        question: Question,
    ) -> ResolveTurn:
        outcome = await asked(spec, question)
        own = {**question.identifiers, **outcome.identifiers}
        about = Asked(attempt.turn, outcome.intent, outcome.entity, own)
        means = meant(references, state.reference, about)
        if means.used:
            again = Question(question.text, means.identifiers, question.history)
            outcome = await asked(spec, again)
        return ResolveTurn(
            attempt,
            name_of(spec),
            means,
            canonical(outcome.results),
            outcome.answer,
            outcome.intent,
            outcome.entity,
            outcome.meta,
        )

    async def _question(self, state: SessionState, said: Said, material: Material) -> Question:
        (recorded,) = await self.sessions.log.at(state.tenant, [said.place])
        match recorded.event:
            case TurnSubmitted(text=Plain(text=text)) | TurnQueued(text=Plain(text=text)) as event:
                history = await self._history(state, material)
                return Question(text, event.references, history)
            case _:
                raise Corrupt(f"event {recorded.sequence}", "it is not a turn that can be read")

    async def _history(
        self, state: SessionState, material: Material
    ) -> tuple[dict[str, JsonValue], ...]:
        if material.memory is None:
            return ()
        at = rfc3339(self.sessions.clock())
        return await recollected(
            self.sessions, state, Recall(material.memory, "planner", at), sight(material, state)
        )


def _still(state: SessionState, attempt: Attempt) -> OpenTurn:
    opened = current(state, attempt)
    if opened is None:
        raise Superseded
    return opened
