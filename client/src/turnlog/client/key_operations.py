"""The requests about keys, and about the settings and the retention of tenants, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from turnlog.client.operations import ClientOperation, build_command, build_read
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.installation.key_payloads import CreatedKey, KeyPage, KeyResult, PrincipalView
from turnlog.contract.installation.retention_payloads import (
    DueSessions,
    HoldResult,
    PolicyResult,
    RetentionView,
)
from turnlog.contract.installation.tenant_payloads import TenantPage, TenantResult


def create_key(form: Mapping[str, Any]) -> ClientOperation[CreatedKey]:
    """Create a key; only this answer has the whole of it."""
    return build_command(api_paths.KEYS, form, CreatedKey)


def list_keys(tenant: str | None) -> ClientOperation[KeyPage]:
    """List the keys of a tenant, by default one's own."""
    return build_read(api_paths.KEYS, KeyPage, {"for_tenant": tenant})


def rotate_key(
    name: str, form: Mapping[str, Any], tenant: str | None
) -> ClientOperation[CreatedKey]:
    """Replace the secret part of a key; only this answer has the whole of it."""
    path = format_path(api_paths.ROTATE_KEY, name=name)
    return build_command(path, form, CreatedKey, query={"for_tenant": tenant})


def revoke_key(name: str, tenant: str | None) -> ClientOperation[KeyResult]:
    """Let a key sign in no more."""
    path = format_path(api_paths.KEY, name=name)
    return build_command(path, None, KeyResult, "DELETE", query={"for_tenant": tenant})


def fetch_principal() -> ClientOperation[PrincipalView]:
    """Return who the sender is to the service."""
    return build_read(api_paths.PRINCIPAL, PrincipalView)


def list_tenants() -> ClientOperation[TenantPage]:
    """List the tenants that the sender may see."""
    return build_read(api_paths.TENANTS, TenantPage)


def fetch_tenant(tenant: str) -> ClientOperation[TenantResult]:
    """Return a tenant with its settings."""
    return build_read(format_path(api_paths.TENANT, tenant=tenant), TenantResult)


def configure_tenant(tenant: str, changes: Mapping[str, Any]) -> ClientOperation[TenantResult]:
    """Change the settings of a tenant that are named; None removes one."""
    path = format_path(api_paths.TENANT, tenant=tenant)
    # With those that are None, which `build_command` leaves out.
    return replace(build_command(path, None, TenantResult, "PATCH"), body=dict(changes))


def list_retention() -> ClientOperation[RetentionView]:
    """List the policies and holds of a tenant."""
    return build_read(api_paths.RETENTION, RetentionView)


def set_policy(form: Mapping[str, Any]) -> ClientOperation[PolicyResult]:
    """Set how long sessions are kept, and when they are erased."""
    return build_command(api_paths.RETENTION_POLICIES, form, PolicyResult, "PUT")


def remove_policy(name: str) -> ClientOperation[PolicyResult]:
    """Remove a policy."""
    path = format_path(api_paths.RETENTION_POLICY, name=name)
    return build_command(path, None, PolicyResult, "DELETE")


def place_hold(form: Mapping[str, Any]) -> ClientOperation[HoldResult]:
    """Have nothing of these sessions erased until the hold is released."""
    return build_command(api_paths.HOLDS, form, HoldResult)


def release_hold(name: str, reason: str) -> ClientOperation[HoldResult]:
    """Release a hold."""
    path = format_path(api_paths.RELEASE_HOLD, name=name)
    return build_command(path, {"reason": reason}, HoldResult)


def list_due_sessions() -> ClientOperation[DueSessions]:
    """List the sessions that policies say to erase by now, and what keeps them."""
    return build_read(api_paths.DUE_SESSIONS, DueSessions)


def erase_due_sessions() -> ClientOperation[DueSessions]:
    """Erase sessions that are due, so many at a time."""
    return build_command(api_paths.DUE_SESSIONS, None, DueSessions)
