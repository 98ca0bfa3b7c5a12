"""The what-if report of one session: sums over its calls, and the most affected calls in detail.

Its size is bounded, whatever the number of calls. Sums count only calls that could be assembled
under the change, on both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from turnlog.projections.audit.what_if.reassembled_calls import (
    AlterationKind,
    PromptAlteration,
    PromptSize,
    ReassembledCall,
)

MAX_WORST_CALLS: Final = 20
"""Maximum number of calls that are listed individually."""

_AlterationKey = tuple[str, AlterationKind, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPrice:
    """What prompts cost, in millionths of a dollar, without the answers."""

    micro_dollars: int = 0
    """Without any cache."""
    cached_micro_dollars: int = 0
    """If the provider read from its cache what it could."""
    cached_tokens: int = 0
    """What it could read."""
    lost_tokens: int = 0
    """What it could read besides, had the prompt gone on from the whole earlier one of its kind."""
    lost_micro_dollars: int = 0
    """What these cost more than read from the cache."""
    guessed: bool = False
    """Whether a price in it is a guess."""


ComputePromptPrice = Callable[[PromptSize, PromptSize | None], PromptPrice]
"""Returns what a prompt costs after the earlier one of its kind, if there was one."""


def leave_unpriced(prompt: PromptSize, earlier: PromptSize | None) -> PromptPrice:
    """Return no price, for a reader who asks for none."""
    del prompt, earlier
    return PromptPrice()


@dataclass(frozen=True, slots=True)
class PricedPrompt:
    """A prompt and what it costs."""

    size: PromptSize
    price: PromptPrice


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPrompts:
    """The prompts of one call."""

    call: str
    turn: int
    before: PricedPrompt
    after: PricedPrompt | None
    """None if the call could not have been assembled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTotals:
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
    price: PromptPrice
    """What the prompts cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterationCount:
    """One alteration, and the number of calls it occurs in."""

    layer: str
    """The blueprint's name of the layer; `history` is built in."""
    how: AlterationKind
    """`cut` or `uncut` to fit, `gone`, `added`, or `changed`."""
    rule: str | None
    """The step or condition that caused it."""
    calls: int
    """The number of calls."""
    pieces: int
    """The number of turns, segments or texts in all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalCount:
    """One reason for which calls could not be made, with an example."""

    code: str
    """`over-budget`, or the code of a mismatch with the record."""
    field: str
    """The dotted path of the field at fault."""
    calls: int
    """The number of calls."""
    first: str
    """The first of these calls."""
    detail: str
    """What was wrong with the first call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfReport:
    """What a change would have meant for one session."""

    calls: int
    """Number of recorded calls."""
    again: int
    """Number of those that could be assembled under the change."""
    same: int
    """Number of those whose request would have been identical."""
    before: PromptTotals
    after: PromptTotals
    altered: tuple[AlterationCount, ...]
    refused: tuple[RefusalCount, ...]
    worst: tuple[ReassembledCall, ...]
    """At most `MAX_WORST_CALLS` calls that would differ, the most affected first."""
    compared: tuple[ComparedPrompts, ...]
    """All calls in their order; none in the sum of many sessions."""

    @property
    def severity(self) -> tuple[int, int, int, int]:
        """Sort key for sessions, greatest first: refused calls, cuts, lost prefix, added tokens."""
        cut = sum(each.pieces for each in self.altered if each.how == "cut")
        lost = self.before.prefix - self.after.prefix
        return self.calls - self.again, cut, lost, self.after.tokens - self.before.tokens


def merge_reports(reports: Iterable[WhatIfReport]) -> WhatIfReport:
    """Add up the reports of many sessions, without individual calls."""
    all_reports = tuple(reports)
    return WhatIfReport(
        calls=sum(each.calls for each in all_reports),
        again=sum(each.again for each in all_reports),
        same=sum(each.same for each in all_reports),
        before=_merge_totals([each.before for each in all_reports]),
        after=_merge_totals([each.after for each in all_reports]),
        altered=tuple(_merge_alterations(each.altered for each in all_reports)),
        refused=tuple(_merge_refusals(each.refused for each in all_reports)),
        worst=(),
        compared=(),
    )


def _merge_totals(totals: list[PromptTotals]) -> PromptTotals:
    models = Counter[str]()
    for side in totals:
        models.update(side.models)
    return PromptTotals(
        tokens=sum(side.tokens for side in totals),
        largest=max((side.largest for side in totals), default=0),
        prefix=sum(side.prefix for side in totals),
        models=dict(models),
        counters=tuple(sorted({name for side in totals for name in side.counters})),
        price=_add_prices(side.price for side in totals),
    )


def _add_prices(prices: Iterable[PromptPrice]) -> PromptPrice:
    found = tuple(prices)
    return PromptPrice(
        micro_dollars=sum(each.micro_dollars for each in found),
        cached_micro_dollars=sum(each.cached_micro_dollars for each in found),
        cached_tokens=sum(each.cached_tokens for each in found),
        lost_tokens=sum(each.lost_tokens for each in found),
        lost_micro_dollars=sum(each.lost_micro_dollars for each in found),
        guessed=any(each.guessed for each in found),
    )


def _merge_alterations(all_of: Iterable[tuple[AlterationCount, ...]]) -> Iterable[AlterationCount]:
    calls, size = Counter[_AlterationKey](), Counter[_AlterationKey]()
    for each in (one for some in all_of for one in some):
        calls[each.layer, each.how, each.rule] += each.calls
        size[each.layer, each.how, each.rule] += each.pieces
    for what, pieces in size.most_common():
        yield _build_count(what, calls[what], pieces)


def _merge_refusals(all_of: Iterable[tuple[RefusalCount, ...]]) -> Iterable[RefusalCount]:
    found: dict[tuple[str, str], RefusalCount] = {}
    for each in (one for some in all_of for one in some):
        before = found.get((each.code, each.field), replace(each, calls=0))
        found[each.code, each.field] = replace(before, calls=before.calls + each.calls)
    yield from sorted(found.values(), key=lambda each: -each.calls)


def build_what_if_report(
    reassembled: Iterable[ReassembledCall], compute_price: ComputePromptPrice
) -> WhatIfReport:
    """Build the report of one session from its calls, in their order."""
    calls = tuple(reassembled)
    compared = _compare_prompts(calls, compute_price)
    pairs = [(each.before, each.after) for each in compared if each.after]
    otherwise = [
        each for each in calls if each.after is None or each.altered or _is_different(each)
    ]
    return WhatIfReport(
        calls=len(calls),
        again=len(pairs),
        same=sum(before.size.digest == after.size.digest for before, after in pairs),
        before=_sum_prompts(before for before, _ in pairs),
        after=_sum_prompts(after for _, after in pairs),
        altered=tuple(_merge_alterations(_count_alterations(each.altered) for each in calls)),
        refused=tuple(_merge_refusals(map(_describe_refusal, calls))),
        worst=tuple(sorted(otherwise, key=_rank_call, reverse=True)[:MAX_WORST_CALLS]),
        compared=compared,
    )


def _compare_prompts(
    calls: Sequence[ReassembledCall], compute_price: ComputePromptPrice
) -> tuple[ComparedPrompts, ...]:
    """Price the prompts of each side after those before them on the same side."""
    before: dict[str, PromptSize] = {}
    after: dict[str, PromptSize] = {}

    def price(prompt: PromptSize, earlier: dict[str, PromptSize]) -> PricedPrompt:
        priced = PricedPrompt(prompt, compute_price(prompt, earlier.get(prompt.kind)))
        earlier[prompt.kind] = prompt
        return priced

    return tuple(
        ComparedPrompts(
            call=each.call,
            turn=each.turn,
            before=price(each.before, before),
            after=price(each.after, after) if each.after else None,
        )
        for each in calls
    )


def _is_different(each: ReassembledCall) -> bool:
    return each.after is not None and each.after.digest != each.before.digest


def _rank_call(each: ReassembledCall) -> tuple[bool, int, int, int]:
    before, after = each.before, each.after
    if after is None:
        return True, 0, 0, before.tokens
    cut = sum(count_pieces(one) for one in each.altered if one.how == "cut")
    lost = (before.prefix or 0) - (after.prefix or 0)
    return False, cut, lost, after.tokens - before.tokens


def count_pieces(altered: PromptAlteration) -> int:
    """Return the number of turns of an altered run, or 1 for any other item."""
    if altered.first is None or altered.last is None:
        return 1
    return altered.last - altered.first + 1


def _sum_prompts(prompts: Iterable[PricedPrompt]) -> PromptTotals:
    return _merge_totals(
        [
            PromptTotals(
                tokens=each.size.tokens,
                largest=each.size.tokens,
                prefix=each.size.prefix or 0,
                models={each.size.model: each.size.tokens},
                counters=(each.size.counter.name,),
                price=each.price,
            )
            for each in prompts
        ]
    )


def _count_alterations(altered: Iterable[PromptAlteration]) -> tuple[AlterationCount, ...]:
    pieces = Counter[_AlterationKey]()
    for each in altered:
        pieces[each.layer, each.how, each.rule] += count_pieces(each)
    return tuple(_build_count(what, calls=1, pieces=size) for what, size in pieces.items())


def _build_count(what: _AlterationKey, calls: int, pieces: int) -> AlterationCount:
    layer, how, rule = what
    return AlterationCount(layer=layer, how=how, rule=rule, calls=calls, pieces=pieces)


def _describe_refusal(each: ReassembledCall) -> tuple[RefusalCount, ...]:
    refused = each.refused
    if refused is None:
        return ()
    return (
        RefusalCount(
            code=refused.code,
            field=refused.field or "",
            calls=1,
            first=each.call,
            detail=refused.detail,
        ),
    )
