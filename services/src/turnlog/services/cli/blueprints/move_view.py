"""Moves of sessions to another blueprint version on a terminal: the plan, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.payload_models import ResponseModel
from turnlog.events.errors import Conflict, Refused
from turnlog.services.api.service_payloads import BlueprintMovePreview, BlueprintMoveResult
from turnlog.services.cli.views.text_format import escape_controls, format_count, format_digest
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, create_listing


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """What a move does to one session, and what came of it."""

    session: str
    preview: BlueprintMovePreview | None = None
    refused: Refused | Conflict | None = None
    """Why the session cannot be moved."""
    done: BlueprintMoveResult | None = None

    @property
    def moves(self) -> bool:
        """Whether the session is to be moved."""
        return self.preview is not None and self.preview.moves and self.refused is None


def render_move(done: BlueprintMoveResult) -> Text:
    """Render the version that a session runs by after a move."""
    version = f"{done.blueprint} v{done.version}"
    if not done.moved:
        return Text(f"{done.session} already uses {version}", MUTED)
    line = Text("✓ ", GOOD).append(f"{done.session} now uses {version}", "default")
    line.append(f"  {format_digest(done.digest)} · event {done.sequence}", MUTED)
    if done.children_left:
        left = ", ".join(done.children_left)
        line.append(f"\n  its children stay with the version before, and are asked no more: {left}")
    return line


def render_move_preview(preview: BlueprintMovePreview) -> Text:
    """Render what a move of one session would do."""
    version = f"{preview.blueprint} v{preview.version}"
    if not preview.moves:
        return Text(f"{preview.session} already uses {version}", MUTED)
    line = Text(f"{preview.session} would use {version}  ")
    return line.append(f"{format_digest(preview.digest)}, now {_format_before(preview)}", MUTED)


def render_move_plan(plan: Sequence[PlannedMove]) -> RenderableType:
    """List the sessions with the versions before and after, or why they cannot be moved."""
    table = create_listing()
    for title in ("session", "blueprint", "from", "to"):
        table.add_column(title, no_wrap=True)
    table.add_column("", overflow="fold")
    for each in plan:
        table.add_row(Text(each.session, "bold"), *_build_version_cells(each), _render_note(each))
    moved = sum(each.moves for each in plan)
    refused = sum(each.refused is not None for each in plan)
    counts = f"{format_count(len(plan), 'session')}: {moved} to move, {refused} cannot be moved"
    return Group(table, Text(f"\n{counts}", MUTED))


def _build_version_cells(planned: PlannedMove) -> tuple[str, str, str]:
    preview = planned.preview
    if preview is None:
        return "", "", ""
    after = f"v{preview.version} {format_digest(preview.digest)}"
    return preview.blueprint, _format_before(preview), after


def _format_before(preview: BlueprintMovePreview) -> str:
    return f"v{preview.version_before} {format_digest(preview.digest_before)}"


def _render_note(planned: PlannedMove) -> Text:
    if planned.refused is not None:
        return _render_refusal(planned.refused)
    return Text() if planned.moves else Text("already moved", MUTED)


def _render_refusal(error: Refused | Conflict) -> Text:
    code, detail = _describe_refusal(error)
    return Text(f"{code} ", BAD).append(escape_controls(detail), "default")


def render_outcome(plan: Sequence[PlannedMove]) -> RenderableType:
    """Render which sessions of a plan were moved, and which could not be any more."""
    failed = [each for each in plan if each.done is None and each.preview and each.preview.moves]
    lines = [
        Text(f"{each.session} ", "bold").append_text(_render_refusal(each.refused))
        for each in failed
        if each.refused is not None
    ]
    moved = format_count(sum(each.done is not None for each in plan), "session")
    return Group(*lines, Text("✓ ", GOOD).append(f"{moved} moved", "default"))


def dump_move_plan(plan: Sequence[PlannedMove]) -> JsonValue:
    """Return a plan for programs, with what came of it."""
    sessions: list[JsonValue] = [
        {
            "session": each.session,
            "preview": _dump_answer(each.preview),
            "refused": None if each.refused is None else _dump_refusal(each.refused),
            "done": _dump_answer(each.done),
        }
        for each in plan
    ]
    return {"sessions": sessions}


def _dump_answer(answer: ResponseModel | None) -> JsonValue:
    return None if answer is None else answer.model_dump(mode="json", exclude={"session"})


def _dump_refusal(error: Refused | Conflict) -> JsonValue:
    code, detail = _describe_refusal(error)
    return {"code": code, "detail": detail}


def _describe_refusal(error: Refused | Conflict) -> tuple[str, str]:
    match error:
        case Refused(code=code, detail=detail):
            return code, detail
        case Conflict():
            return "conflict", "it moved on meanwhile"
