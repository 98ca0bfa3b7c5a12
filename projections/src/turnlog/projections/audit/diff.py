from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.manifest import Counter, Part
from turnlog.projections.audit.agreeing import Agreeing, agreeing
from turnlog.projections.audit.causes import because
from turnlog.projections.audit.comparing import Pair, What, differing, paired
from turnlog.projections.audit.entries import Entry, entries
from turnlog.projections.audit.facing import Compared
from turnlog.projections.audit.origins import Cause, cause
from turnlog.projections.audit.reasons import Because, Reason
from turnlog.projections.audit.sides import Side
from turnlog.projections.audit.trying import tried


@dataclass(frozen=True, slots=True)
class CallFacts:
    """One of the two calls."""

    session: str
    call: str
    turn: int
    kind: str
    model: str
    parameters: dict[str, JsonValue]
    at: str
    """The time it was assembled with, RFC 3339."""
    fixed: Cause
    """The event that fixed its prompt."""
    digest: Digest
    """Digest of the canonical request."""
    tokens: int
    """Tokens of the prompt, by its counter."""
    budget: int | None
    counter: Counter
    micro_dollars: int | None
    """Cost of all its attempts in millionths of a dollar; None if unknown."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, or one difference of several consecutive turns."""

    what: What
    layer: str
    component: str
    item: str | None
    first: int | None
    """The first turn of a history run that changed; None for other parts."""
    last: int | None
    before: Part | None
    """The part in the first call; None if its manifest does not name it, and for turns."""
    after: Part | None
    """The part in the second call; None if its manifest does not name it, and for turns."""
    tokens: int | None
    """Difference in tokens; None for turns, which are counted with their run."""
    characters: int
    """Difference in characters."""
    rule: str | None
    """The condition, limit or step that decided."""
    because: tuple[Because, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """Tokens of a component in either prompt."""

    component: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the two prompts have in common at their beginning, and what ends it."""

    messages: int
    tokens: int
    ended_by: str | None
    """The first layer that differs; None if the second prompt contains all of the first."""
    change: int | None
    """Index of that change in `changes`, from 0."""


@dataclass(frozen=True, slots=True)
class Diff:
    """Everything that differs between two calls."""

    before: CallFacts
    after: CallFacts
    same: bool
    """Whether both sent the same request."""
    tokens: int
    """Difference in tokens, each call by its own counter."""
    micro_dollars: int | None
    """Difference in millionths of a dollar; None if either cost is unknown."""
    components: tuple[Share, ...]
    changes: tuple[Change, ...]
    """In the order of the second prompt."""
    prefix: Agreement


def diff(left: Side, right: Side) -> Diff:
    """Compare two calls."""
    was, now = entries(left, right), entries(right, left)
    compared = Compared(left, right, paired(was, now))
    each = [(pair, _change(what, pair, compared)) for what, pair in differing(was, now)]
    changes = joined(change for _, change in each)
    before, after = _facts(left), _facts(right)
    return Diff(
        before=before,
        after=after,
        same=before.digest == after.digest,
        tokens=after.tokens - before.tokens,
        micro_dollars=_less(after.micro_dollars, before.micro_dollars),
        components=_components(left, right),
        changes=changes,
        prefix=_agreement(agreeing(was, now), changes),
    )


def _facts(side: Side) -> CallFacts:
    call, manifest = side.call, side.manifest
    costs = [ended.cost.micro_dollars for ended in tried(side).values()]
    known = [cost for cost in costs if cost is not None]
    return CallFacts(
        session=side.recorded.session,
        call=call.call,
        turn=call.turn,
        kind=manifest.kind,
        model=call.model,
        parameters=call.parameters,
        at=manifest.at,
        fixed=cause(side.recorded),
        digest=manifest.digest,
        tokens=manifest.tokens,
        budget=manifest.budget,
        counter=manifest.counter,
        micro_dollars=sum(known) if costs and len(known) == len(costs) else None,
    )


def _less(more: int | None, less: int | None) -> int | None:
    return None if more is None or less is None else more - less


def _components(left: Side, right: Side) -> tuple[Share, ...]:
    was, now = _by_component(left), _by_component(right)
    return tuple(Share(name, was.get(name, 0), now.get(name, 0)) for name in {**was, **now})


def _by_component(side: Side) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in side.manifest.parts:
        if part.kept:
            found[part.component] = found.get(part.component, 0) + part.tokens
    return found


def _change(what: What, pair: Pair, compared: Compared) -> Change:
    was, now, entry = pair.before, pair.after, pair.either
    part, run = entry.part, entry.turn is not None
    return Change(
        what=what,
        layer=part.layer,
        component=part.component,
        item=part.item,
        first=entry.turn,
        last=entry.turn,
        before=was.part if was and not run else None,
        after=now.part if now and not run else None,
        tokens=None if run else _tokens(now) - _tokens(was),
        characters=(now.characters if now else 0) - (was.characters if was else 0),
        rule=_rule(pair),
        because=because(pair, compared),
    )


def _tokens(entry: Entry | None) -> int:
    return entry.part.tokens if entry else 0


def _rule(pair: Pair) -> str | None:
    """Return the rule of the side that left the entry out or shortened it, or else any rule."""
    sides = [each for each in (pair.after, pair.before) if each]
    out = [each.part.rule for each in sides if not each.stands]
    cut = [each.part.rule for each in sides if each.step]
    return next((rule for rule in (*out, *cut, *(e.part.rule for e in sides)) if rule), None)


def joined(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Join consecutive turns that changed in the same way and for the same reasons."""
    found: list[Change] = []
    for change in changes:
        before = found[-1] if found else None
        if before and _goes_on(before, change):
            found[-1] = replace(
                before,
                last=change.last,
                characters=before.characters + change.characters,
                because=_merged((*before.because, *change.because)),
            )
        else:
            found.append(change)
    return tuple(found)


def _goes_on(before: Change, change: Change) -> bool:
    if before.last is None or change.first != before.last + 1:
        return False
    reasons = [{each.what for each in one.because} for one in (before, change)]
    return (before.what, before.rule, reasons[0]) == (change.what, change.rule, reasons[1])


def _merged(reasons: Iterable[Because]) -> tuple[Because, ...]:
    by: dict[Reason, dict[Cause, None]] = {}
    for each in reasons:
        by.setdefault(each.what, {}).update(dict.fromkeys(each.by))
    return tuple(Because(what, tuple(events)) for what, events in by.items())


def _agreement(found: Agreeing, changes: tuple[Change, ...]) -> Agreement:
    if found.ended_by is None:
        return Agreement(found.messages, found.tokens, None, None)
    ends = [each for each in (found.ended_by, found.beside) if each]
    numbered = list(enumerate(changes))
    hits = (place for end in ends for place, change in numbered if _of(change, end))
    return Agreement(found.messages, found.tokens, found.ended_by.part.layer, next(hits, None))


def _of(change: Change, entry: Entry) -> bool:
    if change.layer != entry.part.layer:
        return False
    if entry.turn is None or change.first is None or change.last is None:
        return entry.part in (change.before, change.after)
    return change.first <= entry.turn <= change.last
