"""Routes for commands on a session and its settled turns, such as close, redact and exclude.

The response has the sequence of the last event, so that the next read can ask for at least that.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.request_values import USER_NAME_PATTERN
from turnlog.contract.session_requests import (
    CloseSessionRequest,
    DescribeSessionRequest,
    DisplayTurnRequest,
    FeedbackRequest,
    PhaseSignalRequest,
    RecordChoiceRequest,
    RedactTurnRequest,
    ShareSessionRequest,
    SwitchProfileRequest,
)
from turnlog.contract.turn_payloads import CloseResult, CommandResult
from turnlog.projections.session.commands import ExcludeTurn, RequestSchemas, RestoreTurn
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_checks import TurnPath
from turnlog.services.http.request_identity import CallerIdentity
from turnlog.services.use_cases.sessions.session_steering import SessionSteering

router = APIRouter()


async def get_steering(request: Request) -> SessionSteering:
    """Return the use cases of this application."""
    steering: SessionSteering = request.app.state.use_cases.steering
    return steering


Steering = Annotated[SessionSteering, Depends(get_steering)]

SharedUser = Annotated[
    str, Path(pattern=USER_NAME_PATTERN, description="The user to share the session with")
]


@router.patch(api_paths.SESSION, summary="Describe a session")
async def describe_session(
    session: str,
    caller: CallerIdentity,
    steering: Steering,
    response: Response,
    form: DescribeSessionRequest,
) -> CommandResult:
    """Change the title, the labels or the metadata of a session, closed or not.

    What is absent stays as it is. A request that changes nothing records nothing.
    """
    done = await steering.describe_session(caller.create_caller(form), session, form)
    return tag_body(response, done)


@router.put(api_paths.SHARE, summary="Share a session")
async def share_session(
    session: str,
    user: SharedUser,
    caller: CallerIdentity,
    steering: Steering,
    response: Response,
    form: ShareSessionRequest | None = None,
) -> CommandResult:
    """Let another user of the tenant read a session, closed or not, or take part in it.

    Forks and children of it are not shared. Only its owner shares it, and who reaches all sessions.
    """
    request = form or ShareSessionRequest()
    identity = caller.create_caller(request)
    done = await steering.share_session(identity, session, user, request.access)
    return tag_body(response, done)


@router.delete(api_paths.SHARE, summary="End sharing a session")
async def end_sharing(
    session: str, user: SharedUser, caller: CallerIdentity, steering: Steering, response: Response
) -> CommandResult:
    """End what a user may do in a session that was shared; streams that the user reads end too."""
    done = await steering.share_session(caller.create_caller(), session, user, None)
    return tag_body(response, done)


@router.post(api_paths.CLOSE, summary="Close a session")
async def close_session(
    session: str,
    caller: CallerIdentity,
    steering: Steering,
    response: Response,
    form: CloseSessionRequest | None = None,
) -> CloseResult:
    """Close a session: it accepts no more turns, and stays readable.

    The children of a coordinator are closed with it, and the answer names them.
    """
    request = form or CloseSessionRequest()
    done = await steering.close_session(caller.create_caller(request), session, request.reason)
    return tag_body(response, done)


@router.post(api_paths.REDACTIONS, summary="Redact a reply, or a person's text")
async def redact_turn(
    session: str,
    caller: CallerIdentity,
    steering: Steering,
    response: Response,
    form: RedactTurnRequest,
) -> CommandResult:
    """Replace the reply of a turn, what a person submitted with it, or both, wherever it is shown.

    Windows have the replacement from then on, and so do all readers but an audit.
    """
    done = await steering.redact_turn(caller.create_caller(form), session, form)
    return tag_body(response, done)


@router.post(api_paths.CHOICES, summary="Record a choice")
async def record_choice(
    session: str,
    caller: CallerIdentity,
    steering: Steering,
    response: Response,
    form: RecordChoiceRequest,
) -> CommandResult:
    """Record a choice that the session's current phase offers."""
    done = await steering.record_choice(caller.create_caller(form), session, form.choice)
    return tag_body(response, done)


@router.post(api_paths.PHASE, summary="Signal or enter a phase")
async def send_signal(
    session: str,
    caller: CallerIdentity,
    steering: Steering,
    response: Response,
    form: PhaseSignalRequest,
) -> CommandResult:
    """End the current phase by a signal it offers, or move to another phase by its name."""
    done = await steering.change_phase(caller.create_caller(form), session, form)
    return tag_body(response, done)


@router.post(api_paths.PROFILE, summary="Switch the profile or the model")
async def switch_profile(
    session: str,
    caller: CallerIdentity,
    steering: Steering,
    response: Response,
    form: SwitchProfileRequest,
) -> CommandResult:
    """Switch the session to another profile or model, from its next turn on."""
    done = await steering.switch_profile(
        caller.create_caller(form), session, profile=form.profile, model=form.model
    )
    return tag_body(response, done)


@router.post(api_paths.TOOL_SCHEMAS, summary="Describe tools in full again")
async def request_schemas(
    session: str, caller: CallerIdentity, steering: Steering, response: Response
) -> CommandResult:
    """Describe all tools in full in prompts again, from the next call on, for one turn."""
    done = await steering.handle_command(caller.create_caller(), session, RequestSchemas())
    return tag_body(response, done)


@router.put(api_paths.EXCLUSION, summary="Exclude a turn")
async def exclude_turn(
    session: str, turn: TurnPath, caller: CallerIdentity, steering: Steering, response: Response
) -> CommandResult:
    """Exclude a turn from all later windows; the audit log keeps it."""
    done = await steering.handle_command(caller.create_caller(), session, ExcludeTurn(turn), turn)
    return tag_body(response, done)


@router.put(api_paths.DISPLAY, summary="Record the display form of a turn")
async def display_turn(
    session: str,
    turn: TurnPath,
    caller: CallerIdentity,
    steering: Steering,
    response: Response,
    form: DisplayTurnRequest,
) -> CommandResult:
    """Record a display form of a turn.

    No prompt contains it, and the gateway does not render it.
    """
    done = await steering.display_turn(caller.create_caller(form), session, turn, form)
    return tag_body(response, done)


@router.post(api_paths.FEEDBACK, summary="Judge a reply")
async def record_feedback(
    session: str,
    turn: TurnPath,
    caller: CallerIdentity,
    steering: Steering,
    response: Response,
    form: FeedbackRequest,
) -> CommandResult:
    """Judge the reply of a turn, or one entry that it retrieved.

    The last vote of a turn counts for everything that the turn had retrieved, from the next
    retrieval of any session on. The last vote on one `entry` counts for it in place of the turn's.
    """
    done = await steering.record_feedback(caller.create_caller(form), session, turn, form)
    return tag_body(response, done)


@router.delete(api_paths.EXCLUSION, summary="Restore a turn")
async def restore_turn(
    session: str, turn: TurnPath, caller: CallerIdentity, steering: Steering, response: Response
) -> CommandResult:
    """Include an excluded turn in windows again."""
    done = await steering.handle_command(caller.create_caller(), session, RestoreTurn(turn), turn)
    return tag_body(response, done)
