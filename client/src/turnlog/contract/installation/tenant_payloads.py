"""Requests and responses of tenants."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from turnlog.contract.payload_models import PatchModel, ResponseModel

ModelPattern = Annotated[str, Field(pattern=r"^[!-)+-~]+\*?$|^\*$", max_length=200)]
"""The name of a model, or with `*` at the end what names begin with."""


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
    keys: int
    """Its keys that sign in now."""
    changed_at: str | None = None
    """When its settings were changed, RFC 3339; null for a tenant without any."""
    changed_by: str | None = None
    """The actor who changed them."""


class TenantPage(ResponseModel):
    """The tenants that have settings or keys."""

    sequence: int
    tenants: tuple[TenantView, ...]


class TenantResult(ResponseModel):
    """A tenant after a command."""

    sequence: int
    tenant: TenantView
