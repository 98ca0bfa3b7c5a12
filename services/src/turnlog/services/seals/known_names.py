"""Under which names a user is found, in sealed sessions of which something was erased too."""

from __future__ import annotations

from turnlog.events.seals.key_ports import SealingKeys
from turnlog.events.seals.leaf_sets import NAMES_ID


async def list_known_names(keys: SealingKeys | None, tenant: str, user: str) -> tuple[str, ...]:
    """Return the name of a user and, where a tenant has pseudonyms, the one that stands for it."""
    if keys is None or not await keys.has_record(tenant, NAMES_ID):
        return (user,)
    return user, (await keys.find_pseudonym_key(tenant)).build_pseudonym(user)
