"""What a provider's own counts say of our token counts: the correction of a kind of call.

A provider reports how many tokens a prompt had, or names it when it refuses one as too long. The
next prompt of that kind of call for that model is counted with the factor between its count and
ours, so that a budget is one of the provider's tokens in every language. Counts are never made
smaller. A factor is rounded up to a multiple of 0.05 and stays while the next ones are close below
it: a factor that moved with each call would move the place where the history begins, and with it
the prefix that a provider caches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.events.model.call_events import ContextAssembled, ContextOverflow
from turnlog.projections.blueprint.token_counters import FACTOR_STEPS

OVERFLOW_CODE: Final = "context_overflow"
"""The code of a failed attempt whose prompt the provider refused as too long."""

MEASURED_SHARE: Final = 4
"""A prompt measures the counter if it fills a fourth of its budget.

What a provider adds to each prompt, such as the tags of its template, would else weigh as much as
the text.
"""

MEASURED_FACTOR: Final = 4
"""The most that a provider is taken to count beyond ours where that tells how full a prompt is.

A few words that are reported as thousands of tokens show what a server added, not how it counts.
"""

LEAST_REPORTED_SHARE: Final = 1 / 2
"""Share of our uncorrected count below which a report says nothing.

Some servers leave out what they had cached.
"""

TOLERATED_STEPS: Final = 1
"""Steps by which a provider may count more before its counts correct ours."""

LEAST_LIMIT: Final = 16
"""The fewest tokens that a provider is believed to take; with less no prompt would fit."""

KEPT_STEPS: Final = 3
"""Steps by which a later factor may be smaller while the one before stays."""

MAX_FACTOR: Final = 32
"""The largest factor: a token of four characters whose bytes are two tokens each.

A report beyond it is not of this prompt, and says nothing.
"""

FITTED_SHARE: Final = 7 / 8
"""Share of the model's context that prompts are fitted to once one was refused; the rest is left
to the answer, and to texts that need more tokens than the average.
"""

RETRIED_SHARE: Final = 0.7
"""The same for the prompt that follows a refused one at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedPrompt:
    """How the recorded prompt of the current call was counted."""

    call: str
    """The id of the call."""
    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    counter: str
    """The counter's name: `chars/4`."""
    factor: float
    """What its counts were multiplied by."""
    tokens: int
    budget: int | None

    @property
    def factor_steps(self) -> int:
        """The factor in steps of 0.05."""
        return round(self.factor * FACTOR_STEPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountCorrection:
    """How the next prompt of a kind of call is counted, and the most it may have."""

    model: str
    """The model whose provider counted."""
    counter: str
    """The counter whose counts are corrected."""
    factor: float = 1.0
    measured_in: str | None = None
    """The call that measured the factor; None if it is 1."""
    context_tokens: int | None = None
    """Most tokens of a prompt, as the provider named them when it refused one; None if it did not.
    """
    refused_tokens: int | None = None
    """The tokens, by the uncorrected counter, of a prompt that it refused without naming both its
    size and the limit.
    """

    refused_in: str | None = None
    """The call whose prompt was refused last; None if none was."""

    def find_model_limit(self, *, is_retry: bool) -> ModelLimit | None:
        """Return what prompts are limited to; None if none was refused as too long.

        `is_retry` is true for the prompt that follows a refused one at once.
        """
        limits: list[ModelLimit] = []
        if (named := self.context_tokens) is not None:
            share = RETRIED_SHARE if is_retry else FITTED_SHARE
            limits.append(ModelLimit(max(1, int(named * share)), named))
        if self.refused_tokens is not None:
            refused = int(self.refused_tokens * self.factor)
            limits.append(ModelLimit(max(1, int(refused * RETRIED_SHARE)), max(1, refused - 1)))
        return find_smaller_limit(*limits)


@dataclass(frozen=True, slots=True)
class ModelLimit:
    """What prompts are limited to: what the provider or a file of dialects says."""

    tokens: int
    """The tokens that the ladder shortens them to, where it can."""
    largest: int
    """The tokens that they may have if it cannot."""


def find_smaller_limit(*limits: ModelLimit | None) -> ModelLimit | None:
    """Return the limit that keeps to all of several; None if there is none."""
    known = [each for each in limits if each is not None]
    if not known:
        return None
    return ModelLimit(min(each.tokens for each in known), min(each.largest for each in known))


def build_counted_prompt(event: ContextAssembled) -> CountedPrompt:
    """Return how a prompt was counted."""
    manifest = event.manifest
    return CountedPrompt(
        call=event.call,
        kind=manifest.kind,
        model=event.model,
        counter=manifest.counter.name,
        factor=manifest.counter.factor,
        tokens=manifest.tokens,
        budget=manifest.budget,
    )


def correct_by_usage(
    before: CountCorrection | None, prompt: CountedPrompt, usage: TokenUsage
) -> CountCorrection | None:
    """Return the correction after an attempt, from the tokens that its provider reported."""
    reported = usage.input_tokens if usage.known == "reported" else None
    if not reported or not prompt.tokens or prompt.budget is None:
        return before
    if not _is_possible(prompt, reported):
        return before
    before = _forget_disproved_limits(before, prompt, reported)
    plausible = min(reported, round(prompt.tokens / prompt.factor) * MEASURED_FACTOR)
    if max(plausible, prompt.tokens) * MEASURED_SHARE < prompt.budget:
        return before
    if reported * prompt.factor < prompt.tokens * LEAST_REPORTED_SHARE:
        return before
    correction = _find_own_correction(before, prompt)
    current = round(correction.factor * FACTOR_STEPS)
    measured = _measure_factor_steps(prompt, reported)
    if current - KEPT_STEPS <= measured <= current:
        return correction
    return _set_factor(correction, prompt, measured)


def correct_by_overflow(
    before: CountCorrection | None, prompt: CountedPrompt, overflow: ContextOverflow | None
) -> CountCorrection:
    """Return the correction after a provider refused a prompt as too long."""
    correction = _find_own_correction(before, prompt)
    counted, limit = (overflow.tokens, overflow.limit) if overflow else (None, None)
    if limit is not None and limit < LEAST_LIMIT:
        limit = None
    if counted and not _is_possible(prompt, counted):
        counted = None
    if counted and prompt.tokens:
        steps = _measure_factor_steps(prompt, counted)
        correction = _set_factor(correction, prompt, steps)
    is_named = counted is not None and limit is not None
    return replace(
        correction,
        context_tokens=correction.context_tokens if limit is None else limit,
        refused_tokens=None if is_named else int(prompt.tokens / prompt.factor),
        refused_in=prompt.call,
    )


def _is_possible(prompt: CountedPrompt, counted: int) -> bool:
    """Return whether a provider can have counted so many tokens in a prompt."""
    return counted * prompt.factor <= prompt.tokens * MAX_FACTOR


def _forget_disproved_limits(
    correction: CountCorrection | None, prompt: CountedPrompt, accepted: int
) -> CountCorrection | None:
    """Return the correction without limits that a prompt exceeded which was accepted."""
    if correction is None or (correction.model, correction.counter) != (
        prompt.model,
        prompt.counter,
    ):
        return correction
    named, refused = correction.context_tokens, correction.refused_tokens
    if named is not None and accepted > named:
        named = None
    if refused is not None and prompt.tokens >= refused * prompt.factor:
        refused = None
    if (named, refused) == (correction.context_tokens, correction.refused_tokens):
        return correction
    is_limited = named is not None or refused is not None
    return replace(
        correction,
        context_tokens=named,
        refused_tokens=refused,
        refused_in=correction.refused_in if is_limited else None,
    )


def _find_own_correction(before: CountCorrection | None, prompt: CountedPrompt) -> CountCorrection:
    """Return the correction so far, or a new one if it is of another model or counter."""
    if before and (before.model, before.counter) == (prompt.model, prompt.counter):
        return before
    return CountCorrection(model=prompt.model, counter=prompt.counter)


def _set_factor(
    correction: CountCorrection, prompt: CountedPrompt, factor_steps: int
) -> CountCorrection:
    measured_in = None if factor_steps == FACTOR_STEPS else prompt.call
    return replace(correction, factor=factor_steps / FACTOR_STEPS, measured_in=measured_in)


def _measure_factor_steps(prompt: CountedPrompt, counted: int) -> int:
    """Return the factor of a provider's count to our uncorrected one, in steps rounded up."""
    steps = -(-counted * prompt.factor_steps // prompt.tokens)
    if steps <= FACTOR_STEPS + TOLERATED_STEPS:
        return FACTOR_STEPS
    return steps
