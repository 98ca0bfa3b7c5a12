"""How the ends of attempts correct the token counts of later prompts.

Only the latest attempt counts, at the call whose prompt is the recorded one. Each model of a
session has corrections of its own: two that take turns would else be measured anew each time.
"""

from __future__ import annotations

from typing import Final

from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.events.model.call_events import AttemptEnded, CallCompleted
from turnlog.projections.session.frozen_copies import replace
from turnlog.projections.session.open_turn import PromptedCall
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.token_counts import (
    OVERFLOW_CODE,
    CountCorrection,
    CountedPrompt,
    correct_by_overflow,
    correct_by_usage,
)

MAX_CORRECTED_MODELS: Final = 8
"""Models of a kind of call whose corrections are kept; those measured last."""


def correct_counts_by_end(state: SessionState, event: AttemptEnded | CallCompleted) -> SessionState:
    """Return the state after what the end of the latest attempt says of our token counts.

    A prompt that could not be shortened after a refusal fails with the same code and no numbers,
    and was not sent again.
    """
    if isinstance(event, CallCompleted):
        return (
            correct_counts_by_usage(state, event.call, event.spent.usage) if event.spent else state
        )
    if event.fault is None or event.fault.code != OVERFLOW_CODE:
        return correct_counts_by_usage(state, event.call, event.usage)
    opened, prompt = state.open, _find_counted_prompt(state, event.call)
    if opened is None or prompt is None:
        return state
    if opened.has_overflowed and event.fault.overflow is None:
        return state
    after = correct_by_overflow(_find_correction(state, prompt), prompt, event.fault.overflow)
    corrected = _put_correction(state, prompt.kind, after)
    return replace(corrected, open=replace(opened, has_overflowed=True))


def correct_counts_by_usage(state: SessionState, call: str, usage: TokenUsage) -> SessionState:
    """Return the state after a provider reported the usage of a call of the open turn."""
    prompt = _find_counted_prompt(state, call)
    if prompt is None:
        return state
    before = _find_correction(state, prompt)
    after = correct_by_usage(before, prompt, usage)
    if after is None or after == before:
        return state
    return _put_correction(state, prompt.kind, after)


def _find_correction(state: SessionState, prompt: CountedPrompt) -> CountCorrection | None:
    return state.corrections.get(prompt.kind, {}).get(prompt.model)


def _put_correction(state: SessionState, kind: str, correction: CountCorrection) -> SessionState:
    """Return the state with the correction of a model as the latest of a kind of call."""
    by_model = {**state.corrections.get(kind, {})}
    by_model.pop(correction.model, None)
    by_model[correction.model] = correction
    while len(by_model) > MAX_CORRECTED_MODELS:
        del by_model[next(iter(by_model))]
    return replace(state, corrections={**state.corrections, kind: by_model})


def _find_counted_prompt(state: SessionState, call: str) -> CountedPrompt | None:
    """Return how the prompt of the current call was counted; None if this is another call."""
    opened = state.open
    if opened is None or opened.call_id != call or not isinstance(opened.call, PromptedCall):
        return None
    return opened.call.counted
