"""Requests and responses of tenants."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from turnlog.contract.payload_models import PatchModel, ResponseModel

ModelPattern = Annotated[str, Field(pattern=r"^[!-)+-~]+\*?$|^\*$", max_length=200)]
"""The name of a model, or with `*` at the end what names begin with."""


KeyPlace = Annotated[
    str, Field(pattern=r"^(env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:/[!-~]{1,1000})$")
]
"""Where a key is: a variable of the workers, or a file of theirs."""


class ConfigureTenantRequest(PatchModel):
    """Changes the settings of a tenant."""

    models: Annotated[list[ModelPattern], Field(max_length=200)] | None = None
    """The models that it may use, such as `openai/gpt-4o` or, for all that begin so, `openai/*`;
    null for all, empty for none.
    """
    max_open_turns: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """How many of its turns may be open or queued at a time, without those that wait for a person's
    approval.
    """
    max_waiting_turns: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """How many of its turns may wait for a person's approval before it submits no more."""
    body_bytes_per_minute: Annotated[int, Field(ge=1, le=1_000_000_000_000)] | None = None
    """Bytes of the bodies of its requests that each gateway takes in a minute; without it, what
    `TURNLOG_TENANT_BYTES` of the gateway says.
    """
    provider_keys: Annotated[dict[str, KeyPlace], Field(max_length=100)] | None = None
    """Where workers find its own keys, by provider: `env:` and the name of a variable of theirs, or
    `file:` and a path. A provider that is not named is paid with the installation's key.
    """


class TenantView(ResponseModel):
    """A tenant and what it may use."""

    tenant: str
    models: tuple[str, ...] | None = None
    """The models that it may use, by name or, with `*` at the end, by what names begin with; null
    for all.
    """
    max_open_turns: int | None = None
    """Turns that may be open or queued, without those that wait for a person."""
    max_waiting_turns: int | None = None
    """Turns that may wait for a person's approval."""
    body_bytes_per_minute: int | None = None
    """Bytes of the bodies of its requests in a minute."""
    provider_keys: dict[str, str] = {}
    """Where its own keys are, by provider; without the root key only that they are: `own`."""
    keys: int
    """Its keys that sign in now."""
    changed_at: str | None = None
    """When its settings were changed, RFC 3339; null for a tenant without any."""
    changed_by: str | None = None
    """The actor who changed them."""


class TenantPage(ResponseModel):
    """The tenants that have settings or keys."""

    sequence: int
    """How many events the settings listed have."""
    tenants: tuple[TenantView, ...]


class TenantResult(ResponseModel):
    """A tenant after a command."""

    sequence: int
    """How many events the settings of the tenant have."""
    tenant: TenantView
