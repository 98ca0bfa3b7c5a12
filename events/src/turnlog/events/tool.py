"""Events of the tool family: what a model asked to be done, and what came of it."""

from __future__ import annotations

from typing import ClassVar, Literal

from turnlog.events.fact import Fact


class ToolCalled(Fact):
    """A model wants a tool called."""

    type: ClassVar[str] = "turnlog.tool-called.v1"
    leaf: ClassVar[str] = "tool"

    turn: int
    """The turn."""
    call: str
    """The call whose answer asked for it."""
    id: str
    """The provider's name for this request."""
    tool: str
    """The tool it named, offered or not."""
    arguments: str
    """Its arguments as the model wrote them."""


class ToolReturned(Fact):
    """A tool was called, or refused to be."""

    type: ClassVar[str] = "turnlog.tool-returned.v1"
    leaf: ClassVar[str] = "tool"

    turn: int
    """The turn."""
    call: str
    """The call whose answer asked for it."""
    id: str
    """The provider's name for this request."""
    tool: str
    """The tool."""
    outcome: Literal["accepted", "refused"]
    """Whether anything was done."""
    detail: str = ""
    """Why it was refused."""
