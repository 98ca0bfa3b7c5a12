"""Codes of requests that a session, its blueprint or the library does not allow as they are."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from turnlog.services.api.published_errors.error_code import ErrorCode

SESSION_CODES: Final[Mapping[str, ErrorCode]] = {
    "already-redacted": ErrorCode(
        "The reply is withheld already.",
        "nothing is left to do",
        status=HTTPStatus.CONFLICT,
        retry="no",
    ),
    "approval-decided": ErrorCode(
        "The approval was decided otherwise before.",
        "nothing is left to do",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "approval-overdue": ErrorCode(
        "The deadline of the approval has passed, so the tool counts as refused.",
        "nothing is left to do",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "blueprint-changed": ErrorCode(
        "A blueprint is no longer the one that the request was made for.",
        "read the blueprint again",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "blueprint-does-not-fit": ErrorCode(
        "The new version of a blueprint does not fit a session.",
        "correct the field of the blueprint that is named",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "busy": ErrorCode(
        "The gateway does as many costly things at once as it may.",
        "retry when one of them has finished",
        status=HTTPStatus.TOO_MANY_REQUESTS,
        contains=("Retry-After",),
        retry_after=5,
    ),
    "carry-backward": ErrorCode(
        "What is carried is of a later phase than the one it is carried to.",
        "leave it out",
        contains=("field",),
    ),
    "carry-not-allowed": ErrorCode(
        "The phase takes nothing from the phase it is carried from.",
        "leave it out",
        contains=("field",),
    ),
    "child-session": ErrorCode(
        "A coordinator's session opened this one, and alone submits its turns and steers it.",
        "use that session, or fork this one",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "choice-not-offered": ErrorCode(
        "The phase offers no such choice.",
        "choose one that `fix` names",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "conflict": ErrorCode(
        "Another writer changed the session first.",
        "read the session again, and repeat the request if it still applies",
        status=HTTPStatus.CONFLICT,
        contains=("sequence",),
    ),
    "fork-unfinished": ErrorCode(
        "A fork lacks events of its origin, since copying was interrupted or goes on.",
        "wait, or repeat the fork request that began it",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "model-not-allowed": ErrorCode(
        "The operator or the blueprint does not allow this model.",
        "choose an allowed model",
        contains=("field",),
    ),
    "no-budget": ErrorCode(
        "The call that is asked about has no budget.",
        "leave it out",
        contains=("field",),
    ),
    "no-front-door": ErrorCode(
        "Nothing is configured that answers `/v1/ask`.",
        "name a blueprint in TURNLOG_FRONT_DOOR",
        status=HTTPStatus.NOT_FOUND,
    ),
    "no-key": ErrorCode(
        "The blueprint finds no session by attributes.",
        "leave it out",
        contains=("field",),
    ),
    "no-phases": ErrorCode(
        "The blueprint has no phases.",
        "leave phases alone, or open a session of another blueprint",
        status=HTTPStatus.CONFLICT,
        retry="no",
    ),
    "nothing-found": ErrorCode(
        "A retrieval found nothing, and the blueprint refuses to answer without.",
        "ask otherwise, or add what is missing to the collections",
        status=HTTPStatus.CONFLICT,
        retry="no",
    ),
    "no-reply": ErrorCode(
        "The turn was not completed, or has no reply of this form.",
        "choose a turn that was completed; `/history` shows them",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "no-session": ErrorCode(
        "Token events are asked for without a session.",
        "name a session, or leave tokens out",
        contains=("field",),
    ),
    "no-tools": ErrorCode(
        "No prompt of the session has described tools.",
        "submit a turn: its prompts describe them in full",
        status=HTTPStatus.CONFLICT,
    ),
    "not-answered": ErrorCode(
        "The turn of an `/v1/ask` failed or was cancelled.",
        "ask again with a new Idempotency-Key",
        status=HTTPStatus.BAD_GATEWAY,
        retry="no",
    ),
    "not-at-a-boundary": ErrorCode(
        "A phase is under way, in which no version of a blueprint may change.",
        "move the session when it has entered its next phase",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "not-in-time": ErrorCode(
        "The question is recorded and not answered yet.",
        "send the very same request again",
        status=HTTPStatus.GATEWAY_TIMEOUT,
        contains=("Retry-After",),
        retry_after=1,
    ),
    "not-installed": ErrorCode(
        "The gateway lacks the package that this format needs.",
        "ask for another format, or install the package",
        status=HTTPStatus.NOT_ACCEPTABLE,
        contains=("field",),
    ),
    "not-recorded": ErrorCode(
        "What a what-if needs to know is in no record.",
        "leave this change out",
        contains=("field",),
    ),
    "nothing-to-cancel": ErrorCode(
        "No such turn is open.",
        "nothing is left to do",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "over-budget": ErrorCode(
        "What a call must include does not fit its budget.",
        "shorten the input, or raise the budget",
        contains=("field",),
    ),
    "phase-not-free": ErrorCode(
        "The cartridge defines which phase follows.",
        "enter the phase that follows",
        contains=("field",),
    ),
    "phase-takes-no-turns": ErrorCode(
        "The phase the session is in takes no turns.",
        "choose what the phase offers",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "queue-full": ErrorCode(
        "As many turns wait as may.",
        "wait until one is answered",
        status=HTTPStatus.TOO_MANY_REQUESTS,
        contains=("Retry-After",),
        retry_after=1,
    ),
    "quota-exceeded": ErrorCode(
        "Nothing is left of a limit of the user.",
        "wait until the limit resets, or have it raised",
        status=HTTPStatus.TOO_MANY_REQUESTS,
        retry="later",
        contains=("quota", "Retry-After"),
    ),
    "reply-withheld": ErrorCode(
        "The reply is withheld, and so is what shows it.",
        "leave it out",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "result-gone": ErrorCode(
        "The result of a tool was erased, or its bytes have changed.",
        "see `text` of the tool use in `/history`",
        status=HTTPStatus.GONE,
    ),
    "segment-moved": ErrorCode(
        "Somebody edited the segment first.",
        "read the segment again, and edit the version that is in effect",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "segment-taken": ErrorCode(
        "The number is that of a segment elsewhere in the library.",
        "use another number, or none",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "segments-missing": ErrorCode(
        "A layer must have a text, and the library has none for it.",
        "add an active segment of its scope",
        retry="later",
        contains=("field",),
    ),
    "segments-unavailable": ErrorCode(
        "The library could not be read.",
        "send the turn again; `turnlog doctor` says what is missing",
        retry="later",
        contains=("field",),
    ),
    "session-closed": ErrorCode(
        "The session is closed.",
        "open another session",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "session-exists": ErrorCode(
        "There is a session of this id, opened by another request.",
        "leave the id out, or choose another",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "signal-not-offered": ErrorCode(
        "The phase does not offer this signal now.",
        "send one that `fix` names",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "summary-taken-in": ErrorCode(
        "A later summary covers the summary.",
        "undo that one first",
        retry="later",
        contains=("field",),
    ),
    "summary-too-old": ErrorCode(
        "A summary covers too much for it to be undone alone.",
        "exclude a turn it covers",
        contains=("field",),
    ),
    "text-missing": ErrorCode(
        "A turn has no text, and its blueprint wants one.",
        "send a text",
        contains=("field",),
    ),
    "turn-not-open": ErrorCode(
        "The turn of an approval is settled.",
        "nothing is left to do",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "turn-open": ErrorCode(
        "A turn is not settled yet.",
        "wait for it, or cancel it",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "unknown-approval": ErrorCode(
        "The turn has no approval of this number.",
        "decide one that the turn waits for; `GET` of the turn names them",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-blueprint": ErrorCode(
        "There is no such blueprint.",
        "see `/v1/blueprints` for the blueprints",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-call": ErrorCode(
        "The session has no such call.",
        "see `/calls` for the calls of the session",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-collection": ErrorCode(
        "The tenant has no such collection of knowledge.",
        "use one that `fix` names, or add an entry to it first",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-entry": ErrorCode(
        "The collection has no such entry.",
        "see `/v1/knowledge/collections/{collection}` for its entries",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-phase": ErrorCode(
        "The blueprint has no such phase.",
        "enter one that `fix` names",
        contains=("field",),
    ),
    "unknown-profile": ErrorCode(
        "The blueprint has no such profile.",
        "choose one that `fix` names",
        contains=("field",),
    ),
    "unknown-segment": ErrorCode(
        "The library has no such segment.",
        "see `/v1/segments` for the segments",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-session": ErrorCode(
        "There is no such session.",
        "see `/v1/sessions` for the sessions",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-stay": ErrorCode(
        "The session was not in this phase then.",
        "see `/phases` of the session",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-summary": ErrorCode(
        "The session has no such active summary.",
        "see `/summaries` for the active ones",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-tool-use": ErrorCode(
        "The turn has no such tool use.",
        "see `tools` of the turn in `/history`",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-turn": ErrorCode(
        "The session has no such turn.",
        "see `/history` for the turns of the session",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
}
"""The codes of refusals for reasons of a session, a blueprint or the library."""
