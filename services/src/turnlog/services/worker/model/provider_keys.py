"""A tenant's own keys of providers, read where its settings say.

A key is read for the call that needs it and held by nothing longer than that. Where a tenant has a
place for its key and there is none in it, the call fails: the installation's key would have others
pay for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from turnlog.projections.prompt.assembly_inputs import parse_provider
from turnlog.services.identity.tenant_service import TenantPolicies
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.worker.model.model_types import ModelFailure

MAX_KEY_BYTES: Final = 16_384
"""Most bytes of a file with a key."""

_KEY: Final = re.compile(r"[!-~]+")
"""A key goes into a header, where nothing else may stand."""


@dataclass(frozen=True, slots=True)
class ProviderKeys:
    """The keys of tenants, for one worker."""

    tenants: TenantPolicies
    environ: Mapping[str, str]

    async def find_key(self, tenant: str, model: str) -> SecretStr | None:
        """Return a tenant's own key of a model's provider; None for the installation's.

        Raises `ModelFailure` for a place without a key.
        """
        provider = parse_provider(model)
        settings = await self.tenants.load_settings(tenant)
        place = settings.provider_keys.get(provider)
        if place is None:
            return None
        kind, _, name = place.partition(":")
        written = (
            self.environ.get(name, "")
            if kind == "env"
            else await run_in_thread(lambda: _read_key_file(Path(name)))
        )
        key = written.strip()
        if _KEY.fullmatch(key) is None:
            # The place is not named: what a turn failed for is read by its tenant.
            raise ModelFailure("unauthorised", f"the tenant's own key of {provider} is not there")
        return SecretStr(key)


def _read_key_file(path: Path) -> str:
    """Return what a file has; nothing for one that cannot be read, or is no text."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_KEY_BYTES).decode()
    except (OSError, ValueError):
        return ""
