"""Codes of requests that a session, its blueprint or the library does not allow as they are."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from turnlog.services.api.published_errors.error_code import ErrorCode

SESSION_CODES: Final[Mapping[str, ErrorCode]] = {
    "already-redacted": ErrorCode(
        meaning="The reply or the text is withheld already.",
        action="nothing is left to do",
        status=HTTPStatus.CONFLICT,
        retry="no",
    ),
    "approval-arguments-differ": ErrorCode(
        meaning="A person decided on other arguments than those of the tool call.",
        action="show the arguments of the tool call, and decide again",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "approval-decided": ErrorCode(
        meaning="The approval was decided otherwise before.",
        action="nothing is left to do",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "approval-overdue": ErrorCode(
        meaning="The deadline of the approval has passed, so the tool counts as refused.",
        action="nothing is left to do",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "blueprint-changed": ErrorCode(
        meaning="A blueprint is no longer the one that the request was made for.",
        action="read the blueprint again",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "blueprint-does-not-fit": ErrorCode(
        meaning="The new version of a blueprint does not fit a session.",
        action="correct the field of the blueprint that is named",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "busy": ErrorCode(
        meaning="The gateway does as many costly things at once as it may.",
        action="retry when one of them has finished",
        status=HTTPStatus.TOO_MANY_REQUESTS,
        contains=("Retry-After",),
        retry_after=5,
    ),
    "carry-backward": ErrorCode(
        meaning="What is carried is of a later phase than the one it is carried to.",
        action="leave it out",
        contains=("field",),
    ),
    "carry-not-allowed": ErrorCode(
        meaning="The phase takes nothing from the phase it is carried from.",
        action="leave it out",
        contains=("field",),
    ),
    "child-session": ErrorCode(
        meaning=(
            "A coordinator's session opened this one, and alone submits its turns and steers it."
        ),
        action="use that session, or fork this one",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "choice-not-offered": ErrorCode(
        meaning="The phase offers no such choice.",
        action="choose one that `fix` names",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "conflict": ErrorCode(
        meaning="Another writer changed the session first.",
        action="read the session again, and repeat the request if it still applies",
        status=HTTPStatus.CONFLICT,
        contains=("sequence",),
    ),
    "fork-unfinished": ErrorCode(
        meaning="A fork lacks events of its origin, since copying was interrupted or goes on.",
        action="wait, or repeat the fork request that began it",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "model-not-allowed": ErrorCode(
        meaning="The blueprint does not allow this model, or the tenant may not use it.",
        action="choose an allowed model",
        contains=("field",),
    ),
    "too-many-open-turns": ErrorCode(
        meaning="The tenant has as many turns open, or waiting for a person, as it may.",
        action="wait until some are over, or have approvals decided",
        status=HTTPStatus.TOO_MANY_REQUESTS,
        retry="later",
        retry_after=2,
        contains=("field",),
    ),
    "no-budget": ErrorCode(
        meaning="The call that is asked about has no budget.",
        action="leave it out",
        contains=("field",),
    ),
    "no-front-door": ErrorCode(
        meaning="Nothing is configured that answers `/v1/ask`.",
        action="name a blueprint in TURNLOG_FRONT_DOOR",
        status=HTTPStatus.NOT_FOUND,
    ),
    "no-key": ErrorCode(
        meaning="The blueprint finds no session by attributes.",
        action="leave it out",
        contains=("field",),
    ),
    "no-phases": ErrorCode(
        meaning="The blueprint has no phases.",
        action="leave phases alone, or open a session of another blueprint",
        status=HTTPStatus.CONFLICT,
        retry="no",
    ),
    "no-match": ErrorCode(
        meaning="A text has nothing that the pattern of a redaction finds.",
        action="read the text as it stands, and write another pattern",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "nothing-found": ErrorCode(
        meaning="A retrieval found nothing, and the blueprint refuses to answer without.",
        action="ask otherwise, or add what is missing to the collections",
        status=HTTPStatus.CONFLICT,
        retry="no",
    ),
    "no-reply": ErrorCode(
        meaning="The turn was not completed, or has no reply of this form.",
        action="choose a turn that was completed; `/history` shows them",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "no-session": ErrorCode(
        meaning="Token events are asked for without a session.",
        action="name a session, or leave tokens out",
        contains=("field",),
    ),
    "no-tools": ErrorCode(
        meaning="No prompt of the session has described tools.",
        action="submit a turn: its prompts describe them in full",
        status=HTTPStatus.CONFLICT,
    ),
    "not-answered": ErrorCode(
        meaning="The turn of an `/v1/ask` failed or was cancelled.",
        action="ask again with a new Idempotency-Key",
        status=HTTPStatus.BAD_GATEWAY,
        retry="no",
    ),
    "not-at-a-boundary": ErrorCode(
        meaning="A phase is under way, in which no version of a blueprint may change.",
        action="move the session when it has entered its next phase",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "not-in-time": ErrorCode(
        meaning="The question is recorded and not answered yet.",
        action="send the very same request again",
        status=HTTPStatus.GATEWAY_TIMEOUT,
        contains=("Retry-After",),
        retry_after=1,
    ),
    "not-installed": ErrorCode(
        meaning="The gateway lacks the package that this format needs.",
        action="ask for another format, or install the package",
        status=HTTPStatus.NOT_ACCEPTABLE,
        contains=("field",),
    ),
    "not-recorded": ErrorCode(
        meaning="What a what-if needs to know is in no record.",
        action="leave this change out",
        contains=("field",),
    ),
    "not-retrieved": ErrorCode(
        meaning="The turn did not retrieve the entry that is judged, or another revision of it.",
        action="judge an entry that `fix` names, or leave `entry` out",
        contains=("field",),
    ),
    "nothing-to-cancel": ErrorCode(
        meaning="No such turn is open.",
        action="nothing is left to do",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "over-budget": ErrorCode(
        meaning="What a call must include does not fit its budget.",
        action="shorten the input, or raise the budget",
        contains=("field",),
    ),
    "phase-not-free": ErrorCode(
        meaning="The cartridge defines which phase follows.",
        action="enter the phase that follows",
        contains=("field",),
    ),
    "media-limit": ErrorCode(
        meaning="The media of the tenant would have more bytes than they may have together.",
        action="have the limit raised; nothing that is stored is removed",
        status=HTTPStatus.INSUFFICIENT_STORAGE,
        retry="no",
    ),
    "phase-takes-no-turns": ErrorCode(
        meaning="The phase the session is in takes no turns.",
        action="choose what the phase offers",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "queue-full": ErrorCode(
        meaning="As many turns wait as may.",
        action="wait until one is answered",
        status=HTTPStatus.TOO_MANY_REQUESTS,
        contains=("Retry-After",),
        retry_after=1,
    ),
    "quota-busy": ErrorCode(
        meaning="What is left of a limit is reserved by turns of the user that are not settled.",
        action="wait until one of them is settled",
        status=HTTPStatus.TOO_MANY_REQUESTS,
        retry="later",
        contains=("quota", "Retry-After"),
    ),
    "quota-exceeded": ErrorCode(
        meaning="A limit of the user is used up.",
        action="wait until the limit resets, or have it raised",
        status=HTTPStatus.TOO_MANY_REQUESTS,
        retry="later",
        contains=("quota", "Retry-After"),
    ),
    "reply-withheld": ErrorCode(
        meaning="The reply is withheld, and so is what shows it.",
        action="leave it out",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "result-gone": ErrorCode(
        meaning="The result of a tool was erased, or its bytes have changed.",
        action="see `text` of the tool use in `/history`",
        status=HTTPStatus.GONE,
    ),
    "segment-moved": ErrorCode(
        meaning="Somebody edited the segment first.",
        action="read the segment again, and edit the version that is in effect",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "segment-taken": ErrorCode(
        meaning="The number is that of a segment elsewhere in the library.",
        action="use another number, or none",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "segments-missing": ErrorCode(
        meaning="A layer must have a text, and the library has none for it.",
        action="add an active segment of its scope",
        retry="later",
        contains=("field",),
    ),
    "segments-unavailable": ErrorCode(
        meaning="The library could not be read.",
        action="send the turn again; `turnlog doctor` says what is missing",
        retry="later",
        contains=("field",),
    ),
    "session-closed": ErrorCode(
        meaning="The session is closed.",
        action="open another session",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "session-exists": ErrorCode(
        meaning="There is a session of this id, opened by another request.",
        action="leave the id out, or choose another",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "session-unreadable": ErrorCode(
        meaning=(
            "Behind the last event of the session is a forged or broken one, so nothing can be"
            " appended."
        ),
        action="fork the session at its last event, and go on in the fork",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("sequence",),
    ),
    "signal-not-offered": ErrorCode(
        meaning="The phase does not offer this signal now.",
        action="send one that `fix` names",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "summary-taken-in": ErrorCode(
        meaning="A later summary covers the summary.",
        action="undo that one first",
        retry="later",
        contains=("field",),
    ),
    "summary-too-old": ErrorCode(
        meaning="A summary covers too much for it to be undone alone.",
        action="exclude a turn it covers",
        contains=("field",),
    ),
    "text-missing": ErrorCode(
        meaning="A turn has no text, and its blueprint wants one.",
        action="send a text",
        contains=("field",),
    ),
    "too-many-overrides": ErrorCode(
        meaning="A user has as many overrides for a blueprint as may be.",
        action="remove one of them",
        contains=("field",),
    ),
    "turn-not-open": ErrorCode(
        meaning="The turn of an approval is settled.",
        action="nothing is left to do",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "text-withheld": ErrorCode(
        meaning="What was submitted is withheld, and so is what shows it.",
        action="leave it out",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "too-many-turns": ErrorCode(
        meaning="A sealed session has as many turns as its tree of keys has leaves for.",
        action="open a new session",
        status=HTTPStatus.CONFLICT,
        retry="no",
    ),
    "turn-open": ErrorCode(
        meaning="A turn is not settled yet.",
        action="wait for it, or cancel it",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "not-covered": ErrorCode(
        meaning="The checkpoint does not cover the call, or has no roots of trees.",
        action="take a new one with `turnlog checkpoint`",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-approval": ErrorCode(
        meaning="The turn has no approval of this number.",
        action="decide one that the turn waits for; `GET` of the turn names them",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-blob": ErrorCode(
        meaning="No picture, recording or file of this digest is stored, or not all of it.",
        action="upload it",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-blueprint": ErrorCode(
        meaning="There is no such blueprint.",
        action="see `/v1/blueprints` for the blueprints",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-call": ErrorCode(
        meaning="The session has no such call.",
        action="see `/calls` for the calls of the session",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-collection": ErrorCode(
        meaning="The tenant has no such collection of knowledge.",
        action="use one that `fix` names, or add an entry to it first",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-entry": ErrorCode(
        meaning="The collection has no such entry.",
        action="see `/v1/knowledge/collections/{collection}` for its entries",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-override": ErrorCode(
        meaning="The user has no own text of this category for this profile and provider.",
        action="see `/v1/overrides` for those of a user",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-phase": ErrorCode(
        meaning="The blueprint has no such phase.",
        action="enter one that `fix` names",
        contains=("field",),
    ),
    "unknown-profile": ErrorCode(
        meaning="The blueprint has no such profile.",
        action="choose one that `fix` names",
        contains=("field",),
    ),
    "unknown-segment": ErrorCode(
        meaning="The library has no such segment.",
        action="see `/v1/segments` for the segments",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-session": ErrorCode(
        meaning="There is no such session.",
        action="see `/v1/sessions` for the sessions",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-stay": ErrorCode(
        meaning="The session was not in this phase then.",
        action="see `/phases` of the session",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-summary": ErrorCode(
        meaning="The session has no such active summary.",
        action="see `/summaries` for the active ones",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-tool-use": ErrorCode(
        meaning="The turn has no such tool use.",
        action="see `tools` of the turn in `/history`",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-turn": ErrorCode(
        meaning="The session has no such turn.",
        action="see `/history` for the turns of the session",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "withdrawn": ErrorCode(
        meaning="What a summary tells of was taken back before its model was asked.",
        action="nothing: a worker is told so, and gives the summary up",
        status=None,
    ),
}
"""The codes of refusals for reasons of a session, a blueprint or the library."""
