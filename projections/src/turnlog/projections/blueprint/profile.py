"""Profiles as an author writes them: the ways a session can run, and what a turn is under each.

A program is a fixed sequence of calls. `chat` is one; `tools` plans first, takes the plan step by
step, each with a tactic and the tools it asks for, and then says what came of it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from turnlog.projections.blueprint.strict import Name, Strict


class Profile(Strict):
    """A named way to run a session."""

    default: bool = False
    """Whether sessions start with it."""
    program: Literal["chat", "tools"] = "chat"
    """How a turn runs."""
    call: Name
    """The call that gives a turn its reply; `by_phase` leaves it to the phase the session is in."""
    plan: Name | None = None
    """The call that plans a turn, under `tools`."""
    act: Name | None = None
    """The call that takes one step of a plan, under `tools`."""
    tools: Literal["none"] | None = None
    """`none` where no call is to offer or tell of any tool of a server."""
    model: str = "default"
    """A model as litellm names it; `default` is the one the service was started with."""
    deadline_seconds: Annotated[float, Field(gt=0)] | None = None
    """How long a turn may be open under it; without it, as long as the policies say."""

    @model_validator(mode="after")
    def _whole(self) -> Profile:
        named = (self.plan is not None, self.act is not None)
        if named != (self.program == "tools",) * 2:
            message = "the program `tools`, and no other, has the calls `plan` and `act`"
            raise ValueError(message)
        if self.tools == "none" and self.program == "tools":
            message = "the program `tools` takes tools, so it cannot say `tools: none`"
            raise ValueError(message)
        return self

    @property
    def calls(self) -> dict[str, Name]:
        """The calls it names, by what they are for."""
        named = {"call": self.call, "plan": self.plan, "act": self.act}
        return {word: call for word, call in named.items() if call is not None}
