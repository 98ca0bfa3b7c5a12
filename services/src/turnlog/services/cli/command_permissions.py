"""What each command needs of a service that asks for keys, or of NATS.

A line names the routes that a command calls, and the permission follows from those. A command
without a line fails the suite; `docs/reference/permissions.md` is generated from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.contract import api_paths as paths
from turnlog.services.identity.permissions import Permission, find_permission

Route = tuple[str, str]
"""A method and a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandNeed:
    """What a command needs."""

    routes: Sequence[Route] = ()
    """The routes that it always calls."""
    optional: Sequence[Route] = ()
    """Those that it calls with some of its options, or where it has to look something up."""
    more: Sequence[Permission] = ()
    """Permissions that values of its options need, and no route of its own."""
    nats: str = ""
    """The login of NATS that it needs, where it reads or writes the log itself."""
    note: str = ""
    """What it is in place of both."""

    def list_permissions(self) -> Sequence[Permission]:
        """Return what it always needs, in the order of its routes."""
        return _list_permissions(self.routes)

    def list_optional(self) -> Sequence[Permission]:
        """Return what it needs besides, with some of its options."""
        found = list[Permission](_list_permissions(self.optional))
        found += self.more
        return [each for each in found if each not in self.list_permissions()]


def _list_permissions(routes: Sequence[Route]) -> Sequence[Permission]:
    found = list[Permission]()
    for method, path in routes:
        needed = find_permission(path, method)
        if needed is not None and needed not in found:
            found.append(needed)
    return found


def _build_need(*routes: Route, optional: Sequence[Route] = ()) -> CommandNeed:
    return CommandNeed(routes=routes, optional=optional)


def _get(path: str) -> Route:
    return "GET", path


def _post(path: str) -> Route:
    return "POST", path


_LOCAL: Final = CommandNeed(note="nothing: it reads files and settings of this machine")

_STARTS: Final = CommandNeed(note="nothing: it starts a service")

_SELECTING: Final = (_get(paths.SESSIONS),)
"""What commands call that take options which select sessions."""

COMMAND_NEEDS: Final[Mapping[str, CommandNeed]] = {
    "demo": _STARTS,
    "up": _STARTS,
    "run": CommandNeed(nats="that of its role", note="nothing: it starts a role"),
    "ready": CommandNeed(note="nothing: it asks whether a service is ready"),
    "chat": _build_need(
        *(_post(paths.SESSIONS), _post(paths.TURNS), _get(paths.SESSION), _get(paths.TURN_STREAM)),
        optional=(_get(paths.SESSIONS), _post(paths.CANCEL), _post(paths.APPROVAL)),
    ),
    "cancel": _build_need(_post(paths.CANCEL)),
    "close": _build_need(_post(paths.CLOSE)),
    "describe": _build_need(("PATCH", paths.SESSION)),
    "switch": _build_need(_post(paths.PROFILE)),
    "debrief": _build_need(_post(paths.TURNS)),
    "approve": _build_need(_post(paths.APPROVAL)),
    "schemas": _build_need(_post(paths.TOOL_SCHEMAS)),
    "purge": _build_need(_post(paths.PURGE)),
    "exclude": _build_need(("PUT", paths.EXCLUSION), optional=(_get(paths.EXCLUSION),)),
    "restore": _build_need(("DELETE", paths.EXCLUSION)),
    "feedback": _build_need(_post(paths.FEEDBACK)),
    "redact": _build_need(_post(paths.REDACTIONS)),
    "erase": _build_need(_post(paths.ERASURES)),
    "erase-user": _build_need(_post(paths.USER_ERASURES)),
    "erasures": _build_need(_get(paths.ERASURES)),
    "receipt": _build_need(_get(paths.ERASURE_PROOF), _get(paths.EXPORT)),
    "erase-source": _build_need(_post(paths.SOURCE_ERASURES)),
    "erased-sources": _build_need(_get(paths.SOURCE_ERASURES)),
    "undo": _build_need(_post(paths.UNDO_SUMMARY)),
    "fork": _build_need(_post(paths.FORK)),
    "share": _build_need(("PUT", paths.SHARE)),
    "unshare": _build_need(("DELETE", paths.SHARE)),
    "sessions": _build_need(*_SELECTING),
    "show": _build_need(_get(paths.SESSION)),
    "history": _build_need(_get(paths.HISTORY)),
    "window": _build_need(_get(paths.WINDOW), optional=(_post(paths.WINDOW),)),
    "assemble": _build_need(_post(paths.ASSEMBLE)),
    "memory": _build_need(_get(paths.MEMORY)),
    "references": _build_need(_get(paths.REFERENCES), optional=(_post(paths.RESOLVE_REFERENCES),)),
    "summaries": _build_need(_get(paths.SUMMARIES)),
    "growth": _build_need(_get(paths.GROWTH)),
    "cache-breaks": _build_need(_get(paths.CACHE_BREAKS)),
    "forecast": _build_need(_get(paths.FORECAST)),
    "usage": _build_need(_get(paths.USAGE)),
    "top": _build_need(_get(paths.OVERVIEW)),
    "prompt": _build_need(_get(paths.PROMPT), _get(paths.CALLS)),
    "tool": _build_need(_get(paths.TOOL_RESULT), optional=(_get(paths.BLOB),)),
    "why": _build_need(_get(paths.EXPLAINED_TURN), optional=(_get(paths.EXPLAINED_CALL),)),
    "approvals": _build_need(_get(paths.APPROVALS)),
    "uses": _build_need(_get(paths.USES)),
    "diff": _build_need(_get(paths.CALL_DIFF)),
    "tail": CommandNeed(
        routes=(_get(paths.EVENTS),),
        optional=(_get(paths.SESSION_EVENTS),),
        more=("withheld:read",),
    ),
    "replay": _build_need(_get(paths.SESSION_EVENTS)),
    "verify": _build_need(
        _get(paths.VERIFY_LOG), optional=(_get(paths.VERIFY_SESSION), _post(paths.VERIFY_LOG))
    ),
    "checkpoint": _build_need(_get(paths.CHECKPOINT), optional=(_post(paths.CHECKPOINT),)),
    "prove": _build_need(
        _get(paths.CALL_PROOF), _get(paths.HISTORY), optional=(_get(paths.EXPLAINED_TURN),)
    ),
    "export": CommandNeed(
        routes=(_get(paths.EXPORT),),
        optional=(_get(paths.HISTORY), *_SELECTING),
        more=("withheld:read",),
    ),
    "withheld": CommandNeed(nats="`gateway`, for it reads the log itself"),
    "audit": _build_need(_get(paths.READS)),
    "what-if": _build_need(_post(paths.WHAT_IF)),
    "rebuild": CommandNeed(nats="`projector`, for it reads the log itself"),
    "doctor": CommandNeed(optional=(_get(paths.WEBHOOKS),), nats="that of any role"),
    "config show": _LOCAL,
    "provision": CommandNeed(nats="`provision`"),
    "blueprint new": _LOCAL,
    "blueprint check": _LOCAL,
    "blueprint list": CommandNeed(optional=(_get(paths.BLUEPRINTS),)),
    "blueprint show": CommandNeed(optional=(_get(paths.BLUEPRINT),)),
    "blueprint pinned": _build_need(_get(paths.PINS)),
    "blueprint move": _build_need(
        _get(paths.SESSION_BLUEPRINT), _post(paths.SESSION_BLUEPRINT), optional=_SELECTING
    ),
    "tools check": _LOCAL,
    "model check": _LOCAL,
    "quarantine list": _build_need(_get(paths.QUARANTINE)),
    "quarantine show": _build_need(_get(paths.QUARANTINED_SESSION)),
    "quarantine release": _build_need(_post(paths.RELEASE)),
    "override set": _build_need(("PUT", paths.OVERRIDE)),
    "override list": _build_need(_get(paths.OVERRIDES)),
    "override show": _build_need(_get(paths.OVERRIDE)),
    "override remove": _build_need(("DELETE", paths.OVERRIDE)),
    "quota set": _build_need(("PUT", paths.QUOTA), _get(paths.QUOTA)),
    "quota show": _build_need(_get(paths.QUOTAS), optional=(_get(paths.QUOTA),)),
    "quota media": _build_need(_get(paths.MEDIA_LIMIT), optional=(("PUT", paths.MEDIA_LIMIT),)),
    "alerts list": _build_need(_get(paths.ALERTS)),
    "alerts apply": _build_need(("PUT", paths.ALERTS)),
    "alerts show": _build_need(_get(paths.ALERT)),
    "alerts history": _build_need(_get(paths.ALERT_HISTORY)),
    "alerts remove": _build_need(("DELETE", paths.ALERT)),
    "retention list": _build_need(_get(paths.RETENTION)),
    "retention set": _build_need(("PUT", paths.RETENTION_POLICIES)),
    "retention remove": _build_need(("DELETE", paths.RETENTION_POLICY)),
    "retention due": _build_need(_get(paths.DUE_SESSIONS)),
    "retention run": _build_need(_post(paths.DUE_SESSIONS)),
    "hold place": _build_need(_post(paths.HOLDS)),
    "hold release": _build_need(_post(paths.RELEASE_HOLD)),
    "keys create": _build_need(_post(paths.KEYS)),
    "keys list": _build_need(_get(paths.KEYS)),
    "keys rotate": _build_need(_post(paths.ROTATE_KEY)),
    "keys revoke": _build_need(("DELETE", paths.KEY)),
    "keys whoami": _build_need(_get(paths.PRINCIPAL)),
    "keys nats": _LOCAL,
    "archive sessions": CommandNeed(
        nats="`turnlog`, which may do everything, for it makes the stream anew"
    ),
    "archive status": _LOCAL,
    "archive finish": CommandNeed(
        nats="`turnlog`, which may do everything, for it makes the stream anew"
    ),
    "keyring status": CommandNeed(nats="`gateway`, for it reads the records of keys itself"),
    "keyring rotate": _LOCAL,
    "keyring retire": CommandNeed(nats="`gateway`, for it replaces the records of keys itself"),
    "tenants list": _build_need(_get(paths.TENANTS)),
    "tenants show": _build_need(_get(paths.TENANT)),
    "tenants set": _build_need(("PATCH", paths.TENANT)),
    "accounts add": _LOCAL,
    "accounts list": _LOCAL,
    "accounts remove": _LOCAL,
    "webhooks add": _build_need(_post(paths.WEBHOOKS)),
    "webhooks list": _build_need(_get(paths.WEBHOOKS)),
    "webhooks deliveries": _build_need(_get(paths.WEBHOOK_DELIVERIES)),
    "webhooks pause": _build_need(_post(paths.PAUSE_WEBHOOK)),
    "webhooks resume": _build_need(_post(paths.RESUME_WEBHOOK)),
    "webhooks redeliver": _build_need(_post(paths.REDELIVER_WEBHOOK)),
    "webhooks remove": _build_need(("DELETE", paths.WEBHOOK)),
    "segments list": _build_need(_get(paths.SEGMENTS)),
    "segments show": _build_need(_get(paths.SEGMENT)),
    "segments add": _build_need(_post(paths.SEGMENTS)),
    "segments edit": _build_need(("PATCH", paths.SEGMENT)),
    "segments activate": _build_need(("PATCH", paths.SEGMENT)),
    "segments deactivate": _build_need(("PATCH", paths.SEGMENT)),
    "segments import": _build_need(_post(paths.IMPORT_SEGMENTS), optional=(_get(paths.SEGMENTS),)),
    "knowledge list": _build_need(_get(paths.COLLECTIONS), optional=(_get(paths.COLLECTION),)),
    "knowledge add": _build_need(("PUT", paths.ENTRY)),
    "knowledge import": _build_need(
        _post(paths.IMPORT_KNOWLEDGE), optional=(_get(paths.COLLECTION),)
    ),
    "knowledge search": _build_need(_post(paths.SEARCH_KNOWLEDGE)),
    "knowledge remove": _build_need(
        ("DELETE", paths.ENTRY), optional=(("DELETE", paths.COLLECTION),)
    ),
}
"""What each command needs, by its name."""
