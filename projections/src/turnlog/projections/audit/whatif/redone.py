"""Recorded calls once more, each under the change: what its prompt would have been.

It is exact for context and not for behaviour: the model said what it said under the prompt it
had, and every later call is told that. Each call goes on from the one before it as that would
have been, so that what a provider's cache could reuse is told rightly. Nothing is written, and
no model is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.manifest import Counter, Manifest
from turnlog.events.session import BlueprintMoved, SessionOpened
from turnlog.projections.audit.retelling import Made, Retelling
from turnlog.projections.audit.whatif.change import Change, Supposed, Supposing
from turnlog.projections.audit.whatif.standing import Altered, altered
from turnlog.projections.blueprint.schema import reach
from turnlog.projections.session.evolve import fold_whole
from turnlog.projections.window.assemble import assemble, reaches_back
from turnlog.projections.window.call import Assembled
from turnlog.projections.window.pinned import Installed


@dataclass(frozen=True, slots=True)
class Prompt:
    """The size of a prompt, and how it came to it."""

    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    tokens: int
    counter: Counter
    budget: int | None
    prefix: int | None
    """Tokens that begin as the call of its kind before began; none for the first of its kind."""
    digest: Digest
    """Of the request."""


@dataclass(frozen=True, slots=True)
class Redone:
    """A recorded call, and what it would have been."""

    call: str
    turn: int
    sequence: int
    """Of the event that fixed its prompt."""
    before: Prompt
    after: Prompt | None
    """None where it could not have been made."""
    altered: tuple[Altered, ...] = ()
    refused: Refused | None = None
    """Why not; `OverBudget` where its prompt cannot be made to fit."""


def what_if(
    events: Iterable[Recorded],
    blobs: Mapping[Digest, str],
    installed: Installed,
    change: Change,
) -> Iterator[Redone]:
    """Assemble the calls of one session again under a change.

    The events come in stored order from the first. Raises `Corrupt` where the record lacks
    something that was there when a call was made.
    """
    texts = dict(blobs)
    retelling, supposing = Retelling(texts, installed, bare=True), Supposing(change, texts)
    for recorded in events:
        told = _reaching(recorded, change)
        if made := retelling.made(told):
            redone, assembled = _redone(retelling, supposing, made)
            told = _instead(made, assembled) if assembled else told
            yield redone
        retelling.told(told)


def _redone(
    retelling: Retelling, supposing: Supposing, made: Made
) -> tuple[Redone, Assembled | None]:
    call = made.call
    before = _prompt(call.model, call.manifest)
    named = (call.call, call.turn, made.recorded.sequence, before)
    try:
        assembled = _assembled(retelling, supposing.supposed(made))
    except Refused as refused:
        return Redone(*named, None, refused=refused), None
    except Corrupt as error:
        raise Corrupt(f"call {call.call}", str(error)) from error
    after = _prompt(assembled.request.model, assembled.manifest)
    changes = altered(call.manifest, assembled.manifest)
    return Redone(*named, after, changes), assembled


def _assembled(retelling: Retelling, supposed: Supposed) -> Assembled:
    material, state, asked = supposed.material, supposed.state, supposed.asked
    further = reaches_back(material, state, asked)
    if further and (whole := fold_whole(retelling.known)):
        state = replace(state, turns=whole.turns, earlier=whole.earlier, reach=whole.reach)
    return assemble(material, state, asked, retelling.texts(state, asked))


def _prompt(model: str, manifest: Manifest) -> Prompt:
    return Prompt(
        kind=manifest.kind,
        model=model,
        tokens=manifest.tokens,
        counter=manifest.counter,
        budget=manifest.budget,
        prefix=manifest.prefix.tokens if manifest.prefix else None,
        digest=manifest.digest,
    )


def _instead(made: Made, assembled: Assembled) -> Recorded:
    """Give the event that would have fixed the prompt."""
    request = assembled.request
    changed = {
        "model": request.model,
        "parameters": request.parameters,
        "manifest": assembled.manifest,
    }
    return replace(made.recorded, event=made.call.model_copy(update=changed))


def _reaching(recorded: Recorded, change: Change) -> Recorded:
    """Let the state keep as many turns one by one as may be asked for under the change."""
    if not isinstance(recorded.event, SessionOpened | BlueprintMoved):
        return recorded
    both = (recorded.event.reach, _reach(change, recorded.event.reach))
    wider = max(both) if all(both) else 0
    return replace(recorded, event=recorded.event.model_copy(update={"reach": wider}))


def _reach(change: Change, recorded: int) -> int:
    if change.budget is not None:
        return 0
    if change.blueprint is None:
        return recorded
    everything = any(view.all for view in change.blueprint.history.values())
    return 0 if everything else reach(change.blueprint)
