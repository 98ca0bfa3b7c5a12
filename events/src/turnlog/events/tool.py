"""Events of the tool family: what a model asked to be done, and what came of it.

A tool that may not run twice is never run twice: that it is about to be run is recorded before it
is, and what was begun and never came back is called lost. Every tool asked for comes back once.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from turnlog.events.content import Content, Digest
from turnlog.events.fact import Fact


class ToolPin(Fact):
    """A tool as it was described when the session took it up."""

    digest: Digest
    """Digest of the blob that holds how a model is told of it."""
    server: str
    """The blueprint's name for the server that has it."""
    tool: str
    """What that server calls it."""
    idempotent: bool = False
    """Whether it may be run again when nobody knows what came of it."""


class ToolsSnapshotted(Fact):
    """The tools of a profile are fixed; what servers offer later reaches new sessions only."""

    type: ClassVar[str] = "turnlog.tools-snapshotted.v1"
    leaf: ClassVar[str] = "prompt"

    profile: str
    """The profile they were discovered for."""
    digest: Digest
    """Digest of all of it, so that the same offer is known again."""
    tools: dict[str, ToolPin]
    """By the name a model knows each by."""
    full: Digest
    """Blob of the text that tells of all of them in full."""
    names: Digest
    """Blob of the text that only names them."""
    left_out: dict[str, str] = {}
    """Tools and prompts that servers have and that are not offered, each with the reason."""
    prompts: tuple[str, ...] = ()
    """The prompts that servers have, by the name a model knows each by."""
    prompts_text: Digest | None = None
    """Blob of the text that tells of them; none where there are none."""


class SchemasRequested(Fact):
    """Tools are to be told in full again: from the next call on, until a turn is completed."""

    type: ClassVar[str] = "turnlog.schemas-requested.v1"
    leaf: ClassVar[str] = "prompt"

    profile: str
    """The profile whose tools they are."""


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
    step: int | None = None
    """The step of the plan it is for, where there is one."""


class ToolStarted(Fact):
    """A worker is about to run a tool; from here on it may have been run."""

    type: ClassVar[str] = "turnlog.tool-started.v1"
    leaf: ClassVar[str] = "tool"

    turn: int
    """The turn."""
    call: str
    """The call whose answer asked for it."""
    id: str
    """The provider's name for this request."""
    tool: str
    """The tool."""
    attempt: int
    """The attempt under which it is run."""


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
    outcome: Literal["accepted", "refused", "answered", "failed", "lost"]
    """`accepted` and `refused` are the session's own word. A server `answered` or `failed`; of what
    is `lost` nobody knows whether it was done, and it is not done again."""
    detail: str = ""
    """Why it was refused, failed or was lost."""
    text: Content | None = None
    """What prompts say of it: what was called, and what it gave, as one text."""
    summary: Content | None = None
    """What later turns are told of it, where that is less."""
    result: Digest | None = None
    """Blob of the whole result."""
    characters: int = 0
    """Length of the whole result in code points."""
    treatment: Literal["kept", "condensed"] = "kept"
    """Whether prompts hold the whole result, or what is told of one that is too long."""
    milliseconds: int | None = None
    """How long the server took; none where it was not asked."""
