"""Turn programs: which call comes next in a turn. A question to the state, and nothing is kept.

So whoever takes a turn over goes on where the log says it stands. A turn under `chat` is one call.
Under `tools` there is a plan first, then a tactic for each of its steps, and at last the call whose
answer is the reply; the tools that a tactic asked for are run before the next call is made. A step
whose tools have all failed is taken once more.
"""

from __future__ import annotations

from typing import Literal

from turnlog.projections.blueprint.profile import Profile
from turnlog.projections.session.state import OpenTurn, PlannedStep

Stage = Literal["summarise", "plan", "act", "reply"]
"""What the next call of a turn is for; the answer of `reply` alone is shown to anybody."""


def stage(profile: Profile, opened: OpenTurn | None) -> Stage:
    """Say what the next call is for; of a turn that is not open yet, the first one."""
    if opened is not None and opened.summing is not None:
        return "summarise"
    if profile.program == "chat":
        return "reply"
    if opened is None or opened.plan is None:
        return "plan"
    return "act" if number_of_step(opened) <= len(opened.plan) else "reply"


def step_of(opened: OpenTurn | None) -> PlannedStep | None:
    """Give the step that is to be taken; none where there is none."""
    if opened is None or opened.plan is None or number_of_step(opened) > len(opened.plan):
        return None
    return opened.plan[number_of_step(opened) - 1]


def number_of_step(opened: OpenTurn) -> int:
    """Count, from 1, to the step that is to be taken; beyond the last one there is none.

    Those that are done already, by what the turn before was given, are not taken.
    """
    number, steps = opened.acted + (not step_failed(opened)), opened.plan or ()
    while number <= len(steps) and steps[number - 1].given is not None:
        number += 1
    return number


def step_failed(opened: OpenTurn | None) -> bool:
    """Tell whether all tools of the latest tactic failed, and its step is to be taken once more.

    One of which nobody knows whether it was done has not failed.
    """
    if opened is None or opened.plan is None or opened.acted in {0, opened.retaken}:
        return False
    call = f"{opened.turn}.{opened.answered}"
    asked = [use for use in opened.tools if use.call == call]
    return bool(asked) and all(use.failed for use in asked)
