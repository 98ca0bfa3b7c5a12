"""Who asks for an erasure, as its events have it.

They are not sealed, and so they say nothing from which somebody could guess a name.
"""

from __future__ import annotations

from dataclasses import replace

from turnlog.events.seals.key_ports import SealingKeys
from turnlog.services.command_handling.callers import Caller


async def hide_caller(keys: SealingKeys | None, caller: Caller) -> Caller:
    """Return a caller as events that are not sealed record it: by a pseudonym, if it is a user.

    The digest of its request, which may name a user, is keyed too. Without a keyring the caller
    stays as it is.
    """
    if keys is None:
        return caller
    key, command = await keys.find_pseudonym_key(caller.tenant), caller.command
    return replace(
        caller,
        metadata=replace(caller.metadata, actor=key.replace_actor(caller.metadata.actor)),
        command=command and replace(command, hash=key.compute_digest(command.hash)),
    )
