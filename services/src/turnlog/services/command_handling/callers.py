"""Who asks for a use case, whichever door the request came through.

A door (HTTP, the command line, another protocol) establishes who calls; use cases believe it.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.codec import CommandRef
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.projections.session.decide import refuse_unknown_session
from turnlog.services.command_handling.idempotent_commands import CommandMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a use case as the event log records it."""

    tenant: str
    metadata: CommandMetadata
    """The actor and the trace context of appended events."""
    command: CommandRef | None = None
    """The idempotency key with the digest of the request; None without a key."""
    user: str | None = None
    """The user for whom a trusted proxy or door speaks; None where it named nobody."""
    may_name_user: bool = True
    """Whether a field of the request may name the user: only where no proxy is trusted to."""
    reaches_all_sessions: bool = True
    """Whether the sessions of other users exist for the caller."""

    def choose_user(self, named: str | None) -> str | None:
        """Return who asks: the user that the door named, else the one of the request's field.

        Raises `Refused` for a field that cannot be believed.
        """
        if named is None or named == self.user:
            return self.user
        if self.may_name_user:
            return named
        detail = "who signs in as a user names no other one"
        raise Refused("user-not-trusted", detail, field="user", fix="leave the field out")

    def derive_session_id(self) -> str | None:
        """Return the session id that follows from the key, so that a retry finds the session.

        None without a key.
        """
        if self.command is None:
            return None
        # Two users may choose the same key, and neither finds the other's session by it.
        owner = () if self.reaches_all_sessions or self.user is None else (self.user,)
        digest = compute_digest("\n".join((self.tenant, *owner, self.command.key)))
        return digest.removeprefix("sha256:")[:32]

    def require_reach(self, owner: str | None) -> None:
        """Raise `Refused` `unknown-session` for a session that does not exist for the caller."""
        if not self.reaches_all_sessions and owner != self.user:
            raise refuse_unknown_session()
