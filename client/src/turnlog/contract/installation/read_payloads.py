"""Responses about the log of reads."""

from __future__ import annotations

from turnlog.contract.payload_models import ResponseModel


class ReadView(ResponseModel):
    """A look at something that not everybody may see."""

    at: str
    """When, RFC 3339."""
    actor: str
    """Who looked: `user:` or `key:` and a name."""
    what: str
    """`prompt`, `assembly`, `window`, `why`, `diff`, `what-if`, `withheld`, `bundle`, `export` or
    `reads`.
    """
    session: str | None
    """The session; null where the look was at several."""
    call: str | None
    """The call."""
    turn: int | None
    """The turn, where one was named instead of a call."""
    other_session: str | None
    """The session of the second call of a comparison, if it is another one."""
    other_call: str | None
    """The second call of a comparison."""
    sign_in: str
    """How the actor signed in: `key`, `root-key`, `oidc`, `browser-token` or `proxy`."""
    key: str | None
    """The id of the key that was signed in with."""
    address: str | None
    """The address that the connection came from."""
    reason: str | None
    """Why, as whoever looked says."""
    position: int
    """Its place in the stream `READS`."""


class ReadPage(ResponseModel):
    """Looks, the newest first."""

    reads: tuple[ReadView, ...]
    """The looks of this page; there may be none of them although there are more pages."""
    next: str | None
    """`before` of the page after this one; null after the last."""
