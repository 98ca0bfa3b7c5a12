"""What is asked before something is erased."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol


class ErasureGuard(Protocol):
    """Refuses erasures of what has to stay."""

    async def require_erasable(
        self, tenant: str, list_sessions: Callable[[], Awaitable[Sequence[str]]], /
    ) -> None:
        """Refuse an erasure that reaches something which has to stay, before it begins.

        `list_sessions` returns the session and all that it reaches; it reads them all.
        """
        ...

    async def require_unheld(self, tenant: str, sessions: Sequence[str], /) -> None:
        """Refuse to go on where something of it is held by now, before any key is removed."""
        ...
