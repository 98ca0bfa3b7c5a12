"""On whose behalf a tool runs: its session and turn, and a key that is the same if it runs again.

The worker sets it around each tool. A function reads it with `get_tool_context`; an endpoint gets
it as headers. A model sees none of it and cannot write any of it, so a tool that must know its
customer takes it from here and not from its arguments.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The facts about its turn that a tool receives."""

    session: str
    turn: int
    key: str
    """The same for each run of one tool call, and for no other call."""
    attributes: Mapping[str, JsonValue]
    """The attributes of the session."""


_context: ContextVar[ToolContext] = ContextVar("tool_context")


def get_tool_context() -> ToolContext:
    """Return the context of the tool that runs; raises `LookupError` where none does."""
    return _context.get()


@contextmanager
def use_tool_context(context: ToolContext) -> Generator[None]:
    """Set the context of the tools that run within."""
    token = _context.set(context)
    try:
        yield
    finally:
        _context.reset(token)
