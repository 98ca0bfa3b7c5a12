"""The what-if report of one session: sums over its calls, and the most affected calls in detail.

Its size is bounded, whatever the number of calls. Sums count only calls that could be assembled
under the change, on both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from turnlog.projections.audit.whatif.redone import Prompt, Redone
from turnlog.projections.audit.whatif.standing import Altered, How

WORST: Final = 20
"""Maximum number of calls that are listed individually."""
_What = tuple[str, How, str | None]


@dataclass(frozen=True, slots=True)
class Side:
    """The prompts of a session added up, as recorded or under the change."""

    tokens: int
    """Tokens of all prompts."""
    largest: int
    """Tokens of the largest prompt."""
    prefix: int
    """Tokens in common with the call before, which a provider's cache could reuse."""
    models: Mapping[str, int]
    """Tokens by model."""
    counters: tuple[str, ...]
    """The counters used; figures of different counters are not comparable."""


@dataclass(frozen=True, slots=True)
class AlteredOften:
    """One alteration, and the number of calls it occurs in."""

    layer: str
    how: How
    rule: str | None
    calls: int
    pieces: int
    """Number of turns, segments or texts over all these calls."""


@dataclass(frozen=True, slots=True)
class RefusedOften:
    """One reason for which calls could not be made, with an example."""

    code: str
    field: str
    """The field at fault, dotted; empty if there is none."""
    calls: int
    first: str
    """The first of these calls."""
    detail: str
    """The detail of that call's refusal."""


@dataclass(frozen=True, slots=True)
class Account:
    """What a change would have meant for one session."""

    calls: int
    """Number of recorded calls."""
    again: int
    """Number of those that could be assembled under the change."""
    same: int
    """Number of those whose request would have been identical."""
    before: Side
    after: Side
    altered: tuple[AlteredOften, ...]
    refused: tuple[RefusedOften, ...]
    worst: tuple[Redone, ...]
    """At most `MAX_WORST_CALLS` calls that would differ, the most affected first."""

    @property
    def badness(self) -> tuple[int, int, int, int]:
        """Sort key for sessions, greatest first: refused calls, cuts, lost prefix, added tokens."""
        cut = sum(each.pieces for each in self.altered if each.how == "cut")
        lost = self.before.prefix - self.after.prefix
        return self.calls - self.again, cut, lost, self.after.tokens - self.before.tokens


def together(accounts: Iterable[Account]) -> Account:
    """Add up the reports of many sessions, without individual calls."""
    held = tuple(accounts)
    return Account(
        calls=sum(each.calls for each in held),
        again=sum(each.again for each in held),
        same=sum(each.same for each in held),
        before=_sides([each.before for each in held]),
        after=_sides([each.after for each in held]),
        altered=tuple(_altered_in_all(each.altered for each in held)),
        refused=tuple(_refused_in_all(each.refused for each in held)),
        worst=(),
    )


def _sides(sides: list[Side]) -> Side:
    models = Counter[str]()
    for side in sides:
        models.update(side.models)
    return Side(
        tokens=sum(side.tokens for side in sides),
        largest=max((side.largest for side in sides), default=0),
        prefix=sum(side.prefix for side in sides),
        models=dict(models),
        counters=tuple(sorted({name for side in sides for name in side.counters})),
    )


def _altered_in_all(all_of: Iterable[tuple[AlteredOften, ...]]) -> Iterable[AlteredOften]:
    calls, size = Counter[_What](), Counter[_What]()
    for each in (one for some in all_of for one in some):
        calls[each.layer, each.how, each.rule] += each.calls
        size[each.layer, each.how, each.rule] += each.pieces
    for what, number in size.most_common():
        yield AlteredOften(*what, calls[what], number)


def _refused_in_all(all_of: Iterable[tuple[RefusedOften, ...]]) -> Iterable[RefusedOften]:
    found: dict[tuple[str, str], RefusedOften] = {}
    for each in (one for some in all_of for one in some):
        before = found.get((each.code, each.field), replace(each, calls=0))
        found[each.code, each.field] = replace(before, calls=before.calls + each.calls)
    yield from sorted(found.values(), key=lambda each: -each.calls)


def account(redone: Iterable[Redone]) -> Account:
    """Build the report of one session from its calls."""
    calls = tuple(redone)
    pairs = [(each.before, each.after) for each in calls if each.after]
    otherwise = [each for each in calls if each.after is None or each.altered or _moved(each)]
    return Account(
        calls=len(calls),
        again=len(pairs),
        same=sum(before.digest == after.digest for before, after in pairs),
        before=_side([before for before, _ in pairs]),
        after=_side([after for _, after in pairs]),
        altered=tuple(_altered(calls)),
        refused=tuple(_refused(calls)),
        worst=tuple(sorted(otherwise, key=_badness, reverse=True)[:WORST]),
    )


def _moved(each: Redone) -> bool:
    return each.after is not None and each.after.digest != each.before.digest


def _badness(each: Redone) -> tuple[bool, int, int, int]:
    before, after = each.before, each.after
    if after is None:
        return True, 0, 0, before.tokens
    cut = sum(pieces(one) for one in each.altered if one.how == "cut")
    lost = (before.prefix or 0) - (after.prefix or 0)
    return False, cut, lost, after.tokens - before.tokens


def pieces(altered: Altered) -> int:
    """Return the number of turns of an altered run, or 1 for any other item."""
    if altered.first is None or altered.last is None:
        return 1
    return altered.last - altered.first + 1


def _side(prompts: list[Prompt]) -> Side:
    models = Counter[str]()
    for prompt in prompts:
        models[prompt.model] += prompt.tokens
    return Side(
        tokens=sum(prompt.tokens for prompt in prompts),
        largest=max((prompt.tokens for prompt in prompts), default=0),
        prefix=sum(prompt.prefix or 0 for prompt in prompts),
        models=dict(models),
        counters=tuple(sorted({prompt.counter.name for prompt in prompts})),
    )


def _altered(calls: Iterable[Redone]) -> Iterable[AlteredOften]:
    held, size = Counter[_What](), Counter[_What]()
    for each in calls:
        found = Counter[_What]()
        for one in each.altered:
            found[one.layer, one.how, one.rule] += pieces(one)
        held.update(found.keys())
        size.update(found)
    for what, number in size.most_common():
        yield AlteredOften(*what, held[what], number)


def _refused(calls: Iterable[Redone]) -> Iterable[RefusedOften]:
    refused = [(each.call, each.refused) for each in calls if each.refused]
    often = Counter((why.code, why.field or "") for _, why in refused)
    for (code, field), number in often.most_common():
        call, why = next(p for p in refused if (p[1].code, p[1].field or "") == (code, field))
        yield RefusedOften(code, field, number, call, why.detail)
