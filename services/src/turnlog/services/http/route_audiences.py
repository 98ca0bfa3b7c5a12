"""Which routes every user may call, and which belong to the operators of an installation.

Only users whom a trusted proxy names are told apart: a request without a user comes from whoever
reaches the gateway itself, as the command line and the applications of an operator do. Until users
have roles, `TURNLOG_OPERATORS` names those who may call the routes of operators, audits among them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Final, Literal

from fastapi import Depends, Request

from turnlog.contract import api_paths as paths
from turnlog.events.errors import Refused
from turnlog.services.http.request_identity import USER_ACTOR_PREFIX, get_actor
from turnlog.services.http.request_tenant import RequestSettings

Audience = Literal["users", "own", "operators"]
"""`users` are all; `own` is read by the user whom the path names, and all else of it is for
operators."""

EVERY_USER: Final = "*"
"""The operator who is every user."""

_USER_PATHS: Final = (
    *(paths.SESSIONS, paths.SESSION, paths.FORK, paths.CANCEL, paths.CLOSE, paths.REDACTIONS),
    *(paths.CHOICES, paths.PHASE, paths.PROFILE, paths.TOOL_SCHEMAS),
    *(paths.TURNS, paths.HISTORY, paths.TURN_STREAM, paths.TIMELINE, paths.EXCLUSION),
    *(paths.DISPLAY, paths.FEEDBACK, paths.APPROVAL, paths.ASK),
    *(paths.MEMORY, paths.REFERENCES, paths.RESOLVE_REFERENCES, paths.SUMMARIES),
    *(paths.UNDO_SUMMARY, paths.PURGE),
    *(paths.CALLS, paths.TOOL_RESULT, paths.SESSION_EVENTS, paths.EXPORT, paths.VERIFY_SESSION),
    *(paths.BLUEPRINTS, paths.BLUEPRINT),
    *(paths.BLOBS, paths.BLOB),
    # These let each user at their own texts only.
    *(paths.OVERRIDES, paths.OVERRIDE),
)

_OPERATOR_PATHS: Final = (
    *(paths.PROMPT, paths.ASSEMBLY, paths.CALL_DIFF, paths.EXPLAINED_CALL, paths.EXPLAINED_TURN),
    *(paths.WINDOW, paths.ASSEMBLE, paths.WHAT_IF, paths.GROWTH, paths.CACHE_BREAKS),
    *(paths.FORECAST, paths.OVERVIEW, paths.USAGE, paths.USES),
    *(paths.EVENTS, paths.VERIFY_LOG, paths.CHECKPOINT),
    *(paths.PINS, paths.SESSION_BLUEPRINT, paths.APPROVALS),
    *(paths.SEGMENTS, paths.SEGMENT, paths.IMPORT_SEGMENTS),
    *(paths.COLLECTIONS, paths.COLLECTION, paths.ENTRY),
    *(paths.IMPORT_KNOWLEDGE, paths.SEARCH_KNOWLEDGE),
    *(paths.QUOTAS, paths.MEDIA_LIMIT),
    *(paths.WEBHOOKS, paths.WEBHOOK, paths.WEBHOOK_DELIVERIES),
    *(paths.PAUSE_WEBHOOK, paths.RESUME_WEBHOOK, paths.REDELIVER_WEBHOOK),
    *(paths.ALERTS, paths.ALERT, paths.ALERT_HISTORY),
    *(paths.QUARANTINE, paths.QUARANTINED_SESSION, paths.RELEASE),
)

ROUTE_AUDIENCES: Final[Mapping[str, Audience]] = {
    **dict.fromkeys(_USER_PATHS, "users"),
    paths.QUOTA: "own",
    **dict.fromkeys(_OPERATOR_PATHS, "operators"),
}
"""The audience of each path below `/v1`; one that is missing here is for operators."""

USER_VALUES: Final[Mapping[str, Collection[str]]] = {
    "stored": ("false",),
    "format": ("ndjson", "chat", "parquet"),
}
"""The values of query parameters that every user may send; others are for operators."""


async def check_audience(
    request: Request, settings: RequestSettings, actor: Annotated[str, Depends(get_actor)]
) -> None:
    """Raise `Refused` `not-an-operator` for a user who may not call a route in this way."""
    if not actor.startswith(USER_ACTOR_PREFIX):
        return
    user = actor.removeprefix(USER_ACTOR_PREFIX)
    if user in settings.operators or EVERY_USER in settings.operators:
        return
    path = str(request.scope["route"].path)
    if not _is_for_user(request, path, user):
        detail = f"{request.method} {path} is for operators"
        raise _create_refusal(detail, settings.actor_header)
    for name, value in request.query_params.multi_items():
        if name in USER_VALUES and value not in USER_VALUES[name]:
            raise _create_refusal(
                f"another value of `{name}` than the usual is for operators", name
            )


def _is_for_user(request: Request, path: str, user: str) -> bool:
    match find_audience(path):
        case "users":
            return True
        case "own":
            return request.method == "GET" and request.path_params["user"] == user
        case "operators":
            return False


def find_audience(path: str) -> Audience:
    """Return whom a route is for; pages and probes, which are not below `/v1`, are for all."""
    return ROUTE_AUDIENCES.get(path, "operators" if path.startswith(f"{paths.API}/") else "users")


def _create_refusal(detail: str, field: str) -> Refused:
    fix = "ask an operator, who can name the user in TURNLOG_OPERATORS"
    return Refused("not-an-operator", detail, field=field, fix=fix)
