"""Python functions as tools: what a package registers under `turnlog.tools`, and how it is called.

An entry point is a function, or a `ToolFunction` that says more about one. Without a schema,
pydantic derives it from the signature and converts the arguments by it. A function that is no
`async def` runs in a thread of its own, which may outlive the time limit: a thread cannot be
stopped.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import Any, cast

from pydantic import JsonValue, TypeAdapter, ValidationError, validate_call

from turnlog.events.errors import Refused
from turnlog.projections.structured_output.schema_validation import (
    find_schema_fault,
    find_violation,
)
from turnlog.services.platform.concurrency import run_in_thread


class ToolError(Exception):
    """Raised by a tool so that the model reads its message, and not only its type."""


class ArgumentsRefused(Exception):
    """The arguments are not those that a tool takes; it was not called."""


@dataclass(frozen=True)
class ToolFunction:
    """A function that models call."""

    run: Callable[..., object]
    """The function; it gets the arguments by name."""
    _: KW_ONLY
    description: str = ""
    """The description that models read; if empty, the function's docstring."""
    parameters: Mapping[str, JsonValue] | None = None
    """JSON Schema of the arguments; derived from the signature if None."""
    read_only: bool = False
    """Whether it only reads, so that it may be called again."""
    idempotent: bool = False
    """Whether a repeated call changes nothing more, so that it may be called again."""

    @cached_property
    def text(self) -> str:
        """The description that models get."""
        return self.description or inspect.getdoc(self.run) or ""

    @cached_property
    def schema(self) -> dict[str, JsonValue]:
        """JSON Schema of the arguments."""
        if self.parameters is not None:
            return dict(self.parameters)
        # pydantic takes a function for its arguments, which its type does not say
        adapter: TypeAdapter[Any] = TypeAdapter(cast("Any", self.run))
        return adapter.json_schema()

    @cached_property
    def _checked_function(self) -> Callable[..., object]:
        return self.run if self.parameters is not None else validate_call(self.run)

    async def call(self, arguments: Mapping[str, JsonValue]) -> object:
        """Call the function; raises `ArgumentsRefused`, and any exception of the function."""
        await check_arguments(arguments, self.schema)
        work = cast("Callable[[], Any]", partial(self._checked_function, **arguments))
        try:
            is_async = inspect.iscoroutinefunction(inspect.unwrap(self.run))
            in_context = partial(copy_context().run, work)  # a thread has no context of its own
            found = work() if is_async else await run_in_thread(in_context)
            return await cast("Awaitable[object]", found) if inspect.isawaitable(found) else found
        except ValidationError as error:
            if error.title != getattr(self.run, "__name__", None):
                raise
            raise ArgumentsRefused(_describe_fault(error)) from None


def describe_function(registered: object, name: str) -> ToolFunction:
    """Return what an entry point registers as a tool; raise `Refused` if models cannot call it."""
    tool = registered if isinstance(registered, ToolFunction) else None
    if tool is None and callable(registered):
        tool = ToolFunction(registered)
    if tool is None:
        raise _refuse_tool(name, "it is no function", "register a function or a `ToolFunction`")
    try:
        schema = tool.schema
    except Exception as error:  # pydantic raises many kinds
        what = f"its signature has no JSON Schema ({type(error).__name__})"
        raise _refuse_tool(name, what, "annotate its arguments, or give `parameters`") from error
    if fault := find_parameters_fault(schema):
        raise _refuse_tool(name, fault, "correct its `parameters`")
    return tool


def find_parameters_fault(schema: Mapping[str, JsonValue]) -> str | None:
    """Return why a schema cannot describe the arguments of a tool, or None."""
    if schema.get("type") != "object":
        return "its arguments are not of the type `object`"
    return find_schema_fault(schema)


async def check_arguments(
    arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
) -> None:
    """Raise `ArgumentsRefused` with the first rule that arguments break."""
    violation = await run_in_thread(lambda: find_violation(dict(arguments), schema))
    if violation is not None:
        path = ".".join(map(str, violation.path)) or "the arguments"
        raise ArgumentsRefused(f"{path}: {violation.rule}")


def _describe_fault(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _refuse_tool(name: str, what: str, fix: str) -> Refused:
    return Refused("bad-tool", f"the tool {name[:80]!r} cannot be used: {what}", fix=fix)
