"""What commands read of calls: a list, their recorded prompts, explanations and differences."""

from __future__ import annotations

from turnlog.client.operations import ClientOperation, build_read
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.call_payloads import CallList
from turnlog.projections.audit.diff.call_diff import CallDiff
from turnlog.projections.audit.explain.turn_explanation import TurnExplanation
from turnlog.services.api.prompt_payloads import RecordedPromptView
from turnlog.services.cli.client.service_client import ServiceClient


def list_calls(session: str) -> ClientOperation[CallList]:
    """Fetch all calls of a session with their usage and cost."""
    return build_read(format_path(api_paths.CALLS, session=session), CallList)


async def find_reply_call(service: ServiceClient, session: str, which: str) -> str:
    """Return the call that gave the reply of a turn (3); a call (3.1) is returned as it is."""
    if not which.isdecimal():
        return which
    return (await fetch_explanation(service, session, which)).call


async def fetch_prompt(service: ServiceClient, session: str, which: str) -> RecordedPromptView:
    """Return the exact prompt of a call, or of the call that gave the reply of a turn."""
    call = await find_reply_call(service, session, which)
    return await service.send(
        build_read(format_path(api_paths.PROMPT, session=session, call=call), RecordedPromptView)
    )


async def fetch_explanation(service: ServiceClient, session: str, which: str) -> TurnExplanation:
    """Explain a turn, `3`, or one of its calls, `3.1`."""
    path = (
        format_path(api_paths.EXPLAINED_TURN, session=session, turn=which)
        if which.isdecimal()
        else format_path(api_paths.EXPLAINED_CALL, session=session, call=which)
    )
    return await service.send(build_read(path, TurnExplanation))


async def fetch_diff(
    service: ServiceClient, session: str, calls: tuple[str, str], other: str | None
) -> CallDiff:
    """Compare two calls, or those of two replies; the second may be of session `other`."""
    before = await find_reply_call(service, session, calls[0])
    after = await find_reply_call(service, other or session, calls[1])
    path = format_path(api_paths.CALL_DIFF, session=session, call=before, second=after)
    return await service.send(build_read(path, CallDiff, {"other": other}))
