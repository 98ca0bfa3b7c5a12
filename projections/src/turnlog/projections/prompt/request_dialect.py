"""How a request is written for its server, beside the order of its messages.

A dialect is chosen when a call is first assembled, and recorded in its manifest. What is not
recorded there has no effect on a request, so a recorded call is assembled again in its own dialect
whatever is known of its server by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from turnlog.events.model.manifest import RequestDialect

RENDERING_VERSION: Final = 2
"""Version of the rules by which requests are written; raised when a dialect gives other bytes."""

PLAIN_DIALECT: Final = RequestDialect(rendering=RENDERING_VERSION)
"""The dialect of a request that is sent as the blueprint has it."""

PARALLEL_TOOL_CALLS: Final = "parallel_tool_calls"

TOOL_CHOICE: Final = "tool_choice"


def has_joined_first_turns(dialect: RequestDialect) -> bool:
    """Return whether turns are joined as well where a prompt begins with a history.

    There, version 1 compared each turn with itself and not with the one before it.
    """
    return dialect.rendering >= 2  # noqa: PLR2004 - the version that began with it


def select_parameters(
    dialect: RequestDialect, parameters: Mapping[str, JsonValue], tools: Sequence[object]
) -> dict[str, JsonValue]:
    """Return the parameters that are sent: those of the call that the server does not refuse."""
    stated = dialect.parallel_tool_calls
    added = {PARALLEL_TOOL_CALLS: stated} if tools and stated is not None else {}
    sent = {**added, **parameters}
    return {name: sent[name] for name in sent if name not in dialect.refused_parameters}
