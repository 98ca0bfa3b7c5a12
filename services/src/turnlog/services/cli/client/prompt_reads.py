"""What commands read of recorded prompts: the prompts, their explanations and differences."""

from __future__ import annotations

from turnlog.projections.audit.diff.call_diff import CallDiff
from turnlog.projections.audit.explain.turn_explanation import TurnExplanation
from turnlog.services.api.prompt_payloads import RecordedPromptView
from turnlog.services.cli.client.service_reader import ServiceReader


async def find_reply_call(reader: ServiceReader, session: str, which: str) -> str:
    """Return the call that gave the reply of a turn (3); a call (3.1) is returned as it is."""
    if not which.isdecimal():
        return which
    return (await fetch_explanation(reader, session, which)).call


async def fetch_prompt(reader: ServiceReader, session: str, which: str) -> RecordedPromptView:
    """Return the exact prompt of a call, or of the call that gave the reply of a turn."""
    call = await find_reply_call(reader, session, which)
    return await reader.get_view(RecordedPromptView, f"/v1/sessions/{session}/calls/{call}/prompt")


async def fetch_explanation(reader: ServiceReader, session: str, which: str) -> TurnExplanation:
    """Explain a turn, `3`, or one of its calls, `3.1`."""
    what = "turns" if which.isdecimal() else "calls"
    return await reader.get_view(TurnExplanation, f"/v1/sessions/{session}/{what}/{which}/why")


async def fetch_diff(
    reader: ServiceReader, session: str, calls: tuple[str, str], other: str | None
) -> CallDiff:
    """Compare two calls, or those of two replies; the second may be of session `other`."""
    before = await find_reply_call(reader, session, calls[0])
    after = await find_reply_call(reader, other or session, calls[1])
    path = f"/v1/sessions/{session}/calls/{before}/diff/{after}"
    return await reader.get_view(CallDiff, path, {"other": other})
