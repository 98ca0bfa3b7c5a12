"""Call specs: the messages of a call, their format, the form of the answer, and profiles.

A message format says how the layers of one message are joined. With delimiters a reader can tell
where each layer begins and ends, so a text line that looks like a delimiter is indented by one
space; every other text is included byte for byte. A profile names the calls of a program, which is
a fixed sequence of calls: `chat` makes one; `tools` plans first, executes the plan step by step
with tools, and then replies.
"""

from __future__ import annotations

from pydantic import Field

from turnlog.projections.blueprint.strict import StrictModel

LAYER_SEPARATOR = "\n\n"
"""The default text between two layers."""


class MessageFormat(StrictModel):
    """How the layers of a message are joined and delimited."""

    open: str = Field(default="", pattern=r"^[^\n]*$")
    """The line above a layer; `{LAYER}` or `{layer}` is its name."""
    close: str = Field(default="", pattern=r"^[^\n]*$")
    """The line below a layer."""
    between: str = LAYER_SEPARATOR
    """The text between two layers."""
    segments_between: str = "\n"
    """The text between two segments of a layer, and after a heading."""


DEFAULT_MESSAGE_FORMAT = MessageFormat()
"""Layers joined by a blank line, without delimiters."""
