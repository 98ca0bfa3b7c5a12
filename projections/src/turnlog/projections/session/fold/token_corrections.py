"""How the ends of attempts correct the token counts of later prompts.

Only the latest attempt counts, at the call whose prompt is the recorded one.
"""

from __future__ import annotations

from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.events.model.call_events import AttemptEnded, CallCompleted
from turnlog.projections.session.frozen_copies import replace
from turnlog.projections.session.open_turn import PromptedCall
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.token_counts import (
    OVERFLOW_CODE,
    CountedPrompt,
    correct_by_overflow,
    correct_by_usage,
)


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
    before = state.corrections.get(prompt.kind)
    after = correct_by_overflow(before, prompt, event.fault.overflow)
    corrections = {**state.corrections, prompt.kind: after}
    return replace(state, open=replace(opened, has_overflowed=True), corrections=corrections)


def correct_counts_by_usage(state: SessionState, call: str, usage: TokenUsage) -> SessionState:
    """Return the state after a provider reported the usage of a call of the open turn."""
    prompt = _find_counted_prompt(state, call)
    if prompt is None:
        return state
    before = state.corrections.get(prompt.kind)
    after = correct_by_usage(before, prompt, usage)
    if after is None or after == before:
        return state
    return replace(state, corrections={**state.corrections, prompt.kind: after})


def _find_counted_prompt(state: SessionState, call: str) -> CountedPrompt | None:
    """Return how the prompt of the current call was counted; None if this is another call."""
    opened = state.open
    if opened is None or opened.call_id != call or not isinstance(opened.call, PromptedCall):
        return None
    return opened.call.counted
