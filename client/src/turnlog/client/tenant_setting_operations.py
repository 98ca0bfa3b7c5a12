"""The requests about the settings of tenants, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from turnlog.client.operations import ClientOperation, build_command, build_read
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.installation.tenant_payloads import TenantPage, TenantResult


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
