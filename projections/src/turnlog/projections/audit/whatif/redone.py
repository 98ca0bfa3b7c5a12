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
    """The size of a prompt, and what it was counted and limited by."""

    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    tokens: int
    counter: Counter
    budget: int | None
    prefix: int | None
    """Tokens in common with the call of its kind before; None for the first of its kind."""
    digest: Digest
    """Digest of the request."""


@dataclass(frozen=True, slots=True)
class Redone:
    """A recorded call, and what it would have been."""

    call: str
    turn: int
    sequence: int
    """Sequence of the event that fixed its prompt."""
    before: Prompt
    after: Prompt | None
    """None if it could not have been made."""
    altered: tuple[Altered, ...] = ()
    refused: Refused | None = None
    """Why it could not have been made; `OverBudget` if its prompt cannot be made to fit."""


def what_if(
    events: Iterable[Recorded],
    blobs: Mapping[Digest, str],
    installed: Installed,
    change: Change,
) -> Iterator[Redone]:
    """Assemble the calls of one session again under a change.

    The events are given in stored order from the first. Raises `Corrupt` if the record lacks
    something that a call used.
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
    request = assembled.request
    changed = {
        "model": request.model,
        "parameters": request.parameters,
        "manifest": assembled.manifest,
    }
    return replace(made.recorded, event=made.call.model_copy(update=changed))


def _reaching(recorded: Recorded, change: Change) -> Recorded:
    """Return the event with a reach that keeps every turn the change may need."""
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
