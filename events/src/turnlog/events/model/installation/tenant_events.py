"""Events of tenants: what each may use of an installation.

The settings of all tenants are one history, so that a process sees by one read whether any changed.
A tenant without settings may use everything.
"""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field

from turnlog.events.event_model import EventModel

TENANTS_FAMILY: Final = "tenants"
"""The history of the settings of tenants, in the library of the installation."""


class TenantConfigured(EventModel):
    """The settings of a tenant are these from now on, all of them."""

    type: ClassVar[str] = "turnlog.tenant-configured.v1"
    leaf: ClassVar[str] = "configured"

    tenant: str
    """Whose settings they are."""
    models: tuple[str, ...] | None = None
    """The models that it may use, by name or, with `*` at the end, by what names begin with; null
    for all, empty for none.
    """
    max_open_turns: int | None = None
    """How many of its turns may be open or queued, without those that wait for a person."""
    max_waiting_turns: int | None = None
    """How many of its turns may wait for a person's approval before it submits no more."""
    body_bytes_per_minute: int | None = None
    """Bytes of the bodies of its requests that each gateway takes in a minute."""
    provider_keys: dict[str, str] = Field(default_factory=dict)
    """Where workers find its own key of a provider, by the provider's name: `env:` and the name of
    a variable of theirs, or `file:` and a path. The key itself is in no event.
    """
