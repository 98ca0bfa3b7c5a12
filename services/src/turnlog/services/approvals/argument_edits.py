"""Arguments that a person writes instead of the model's: their form, and the schema of the tool.

They are checked before anything is recorded, so that a tool is never approved for a call that its
server would refuse.
"""

from __future__ import annotations

from pydantic import JsonValue

from turnlog.events.content import Digest, encode_canonical
from turnlog.events.errors import Refused
from turnlog.events.model.tool_events import ApprovalDecision
from turnlog.events.store.ports import BlobStore
from turnlog.projections.blueprint.sent_names import format_sent_name
from turnlog.projections.blueprint.storable_json import JsonObject, check_text
from turnlog.projections.prompt.sources.offered_tools import parse_tool
from turnlog.projections.session.commands import DecideApproval
from turnlog.projections.session.open_turn import list_undecided_tools
from turnlog.projections.session.state import SessionState
from turnlog.projections.structured_output.schema_validation import (
    SchemaViolation,
    find_schema_fault,
    find_violation,
)
from turnlog.services.platform.concurrency import run_in_thread

_FIX = "correct it as the schema of the tool says"


def encode_edit(arguments: JsonObject, decision: ApprovalDecision, shown: Digest | None) -> str:
    """Return edited arguments as they are recorded; raises `Refused` where they mean nothing."""
    if decision == "refuse":
        detail, fix = "a tool that is refused runs with no arguments", "leave them out"
        raise Refused("invalid", detail, field="arguments", fix=fix)
    if shown is None:
        detail = "edited arguments stand in place of others, which the decision has to name"
        fix = "send the `digest` of the arguments that were shown"
        raise Refused("invalid", detail, field="shown", fix=fix)
    return check_text(encode_canonical(arguments), "arguments")


async def check_edited_arguments(
    blobs: BlobStore, state: SessionState, command: DecideApproval, arguments: JsonObject
) -> None:
    """Raise `Refused` with the field that breaks the schema of the tool that waits.

    The rules of the session refuse what does not wait. A tool whose schema cannot be used checks
    the arguments itself.
    """
    schema = await _load_schema(blobs, state, command)
    if schema is None:
        return
    violation = await run_in_thread(lambda: _find_violation(arguments, schema))
    if violation is not None:
        path = (format_sent_name(str(step)) for step in violation.path)
        field = ".".join(("arguments", *path))
        raise Refused("invalid", f"{field}: {violation.rule}", field=field, fix=_FIX)


async def _load_schema(
    blobs: BlobStore, state: SessionState, command: DecideApproval
) -> JsonObject | None:
    pinned = state.tools.get(state.profile)
    if state.open is None or state.open.turn != command.turn or pinned is None:
        return None
    waiting = list_undecided_tools(state.open)
    names = [each.use.tool for each in waiting if each.approval.number == command.approval]
    if not names or names[0] not in pinned.tools:
        return None
    blob = await blobs.get_blob(state.tenant, pinned.tools[names[0]].digest)
    function = parse_tool(blob.decode()).get("function")
    schema = function.get("parameters") if isinstance(function, dict) else None
    return schema if isinstance(schema, dict) else None


def _find_violation(arguments: JsonValue, schema: JsonObject) -> SchemaViolation | None:
    return None if find_schema_fault(schema) else find_violation(arguments, schema)
