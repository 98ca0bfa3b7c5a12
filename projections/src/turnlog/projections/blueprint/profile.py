from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from turnlog.projections.blueprint.strict import Name, StrictModel


class ProfileSpec(StrictModel):
    """A named way to run a session."""

    default: bool = False
    """True if sessions start with this profile."""
    program: Literal["chat", "tools"] = "chat"
    """The program that runs a turn."""
    call: Name
    """The call that produces the reply; with `by_phase` the phase of the session decides."""
    plan: Name | None = None
    """The call that plans a turn, for the program `tools`."""
    act: Name | None = None
    """The call that executes one step of a plan, for the program `tools`."""
    tools: Literal["none"] | None = None
    """`none` if no call may offer or describe tools of a server."""
    model: str = "default"
    """A model name of litellm; `default` is the model the service was started with."""
    deadline_seconds: Annotated[float, Field(gt=0)] | None = None
    """How long a turn may be open, in seconds; without it the policies decide."""

    @model_validator(mode="after")
    def _check_program_calls(self) -> ProfileSpec:
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
        """The calls it names, by their role."""
        named = {"call": self.call, "plan": self.plan, "act": self.act}
        return {word: call for word, call in named.items() if call is not None}
