"""Render receipts of erasures in the library."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.erasures.erasure_payloads import UserErasure
from turnlog.contract.erasures.source_erasure_payloads import (
    ReachedSessionView,
    SourceErasure,
    SourceErasureList,
    SourceErasureReceipt,
)
from turnlog.services.cli.erasures.erasure_view import (
    STATUS_TEXTS,
    describe_back_ups,
    describe_repeating,
    join_values,
    render_receipt,
)
from turnlog.services.cli.views.text_format import escape_controls, format_count, format_one_line
from turnlog.services.cli.views.theme import BAD, MUTED, WARNING


def render_source_erasures(found: SourceErasureList) -> RenderableType:
    """Render the receipts of a library."""
    if not found.receipts:
        return Text("nothing of the library was erased", MUTED)
    return Group(*map(render_source_receipt, found.receipts))


def render_source_erasure(found: SourceErasure) -> RenderableType:
    """Render the receipts of one request."""
    return Group(*map(render_source_receipt, found.receipts))


def render_user_erasure(found: UserErasure) -> RenderableType:
    """Render the receipts of all sessions of a user."""
    lines = [render_receipt(each) for each in found.receipts]
    lines += [render_source_receipt(each) for each in found.sources]
    lines += [
        Text(format_one_line(f"{each.session} is not erased: {each.detail}"), BAD)
        for each in found.skipped
    ]
    return Group(*lines) if lines else Text("there is nothing of this user to erase", MUTED)


def render_source_receipt(receipt: SourceErasureReceipt) -> RenderableType:
    """Render one receipt, or a plan."""
    colour, meaning = STATUS_TEXTS[receipt.status]
    title = Text(receipt.status, colour).append(f" · {meaning}", "default")
    if receipt.erasure:
        place = f"event {receipt.erasure} of {receipt.family}"
        title.append(f" · {place} by {escape_controls(receipt.by or '')}", MUTED)
    texts = format_count(len(receipt.events), "text")
    lines = [
        title,
        Text(format_one_line(f"{receipt.source}: {texts}"), "bold"),
        Text(format_one_line(f"because: {receipt.reason}")),
    ]
    if receipt.left:
        lines.append(Text(f"  still open: events {join_values(receipt.left)}", BAD))
    for each in receipt.sessions:
        lines += _render_session(each)
    if receipt.generation and receipt.ended_at:
        lines.append(Text(describe_back_ups(receipt.generation, receipt.ended_at), MUTED))
    if receipt.status != "planned":
        lines.append(Text("not reached from here:", MUTED))
        lines += [Text(f"  {each}", MUTED) for each in receipt.kept_elsewhere]
    return Group(*lines)


def _render_session(reached: ReachedSessionView) -> Iterator[Text]:
    prompts = format_count(len(reached.calls), "prompt")
    yield Text(f"  {reached.session} · {prompts}: {join_values(reached.calls) or 'none'}")
    if reached.repeating_turns:
        yield Text(f"    {describe_repeating(reached.repeating_turns)}", WARNING)
    if reached.left:
        yield Text(f"    still open: events {join_values(reached.left)}", BAD)
