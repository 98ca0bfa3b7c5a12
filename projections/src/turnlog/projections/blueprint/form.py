"""Forms: how the layers of one message are set apart from one another.

Without fences layers are merely joined. With fences a reader can tell where each begins and ends,
so a text that imitates a fence is indented by one blank wherever it comes from; every other text
stands as it is, byte for byte.
"""

from __future__ import annotations

from pydantic import Field

from turnlog.projections.blueprint.strict import Strict

JOINED_BY = "\n\n"
"""What parts layers where an author says nothing."""


class Form(Strict):
    """How the layers of a message are set apart."""

    open: str = Field(default="", pattern=r"^[^\n]*$")
    """The line above a layer; `{LAYER}` or `{layer}` is its name."""
    close: str = Field(default="", pattern=r"^[^\n]*$")
    """The line below it."""
    between: str = JOINED_BY
    """What stands between two layers."""
    segments_between: str = "\n"
    """What stands between two segments of a layer, and behind a heading."""


JOINED = Form()
"""Layers joined by a blank line, without fences."""
