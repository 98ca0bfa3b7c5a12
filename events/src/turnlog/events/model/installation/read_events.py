"""Events of the log of reads: who looked at what of the record, from where, and why.

Each is appended before the answer is sent. The histories are those of days (UTC), one a tenant, so
that none grows for ever.
"""

from __future__ import annotations

from typing import ClassVar

from turnlog.events.event_model import EventModel


class RecordRead(EventModel):
    """Somebody looked at something that not everybody may see; the actor is the envelope's."""

    type: ClassVar[str] = "turnlog.record-read.v1"
    leaf: ClassVar[str] = "record"

    what: str
    """`prompt`, `assembly`, `window`, `why`, `diff` or `what-if`; `withheld` for the stored bytes
    of texts that are withheld; `bundle` or `export`; or `reads` for this log itself.
    """
    session: str | None = None
    """The session; null where the look was at several."""
    call: str | None = None
    """The call."""
    turn: int | None = None
    """The turn, where one was named instead of a call."""
    other_session: str | None = None
    """The session of the second call of a comparison, if it is another one."""
    other_call: str | None = None
    """The second call of a comparison."""
    sign_in: str
    """How the actor signed in: `key`, `root-key`, `oidc`, `browser-token` or `proxy`."""
    key: str | None = None
    """The id of the key that was signed in with."""
    address: str | None = None
    """The address that the connection came from."""
    reason: str | None = None
    """Why, as whoever looked says."""
