"""Receipts of erasures in the library: knowledge, segments and users' own prompts."""

from __future__ import annotations

from turnlog.contract.payload_models import ResponseModel
from turnlog.contract.value_names import ErasureStatus


class ReachedSessionView(ResponseModel):
    """What of a session is under the keys of an erased text."""

    session: str
    """The session."""
    events: tuple[int, ...]
    """Sequences of its events under these keys: prompts and retrievals that had the text."""
    calls: tuple[str, ...]
    """The calls among them, whose prompts cannot be read or reproduced any more."""
    repeating_turns: tuple[int, ...]
    """The turns of these calls: their replies stay, and may repeat the text."""
    left: tuple[int, ...] = ()
    """Events that can still be opened although they should not; the checking pass found them."""


class SourceErasureReceipt(ResponseModel):
    """What an erasure in the library reaches, and how far it is."""

    family: str
    """The history that it is in: `knowledge`, `segments` or `prompt-overrides`."""
    source: str
    """What is erased."""
    erasure: int | None
    """Sequence of the event that began it; null for a plan."""
    ended: int | None
    """Sequence of the event that ended it: from then on nobody can open the words."""
    ended_at: str | None
    """When it ended; null before that."""
    at: str | None
    """When it was begun; null for a plan."""
    by: str | None
    """Who asked for it; null for a plan."""
    reason: str
    """Why."""
    status: ErasureStatus
    """`planned`, `begun`, `erased`, or `incomplete` where the checking pass found words."""
    leaves: str
    """The keys that go, in the form of `sealedof`."""
    entries: tuple[str, ...]
    """The entries of knowledge that go."""
    events: tuple[int, ...]
    """Sequences of the events of the library that brought the texts."""
    left: tuple[int, ...]
    """Those of them that can still be opened although they should not."""
    sessions: tuple[ReachedSessionView, ...]
    """The sessions that had the text in a prompt or a retrieval."""
    generation: int | None
    """The generation of the keyring by which a copy of the keys from before `ended_at` can still be
    opened until it is retired; null until it has ended.
    """
    record_before: str | None
    """Digest of the stored record of keys before."""
    record_after: str | None
    """Digest of the record after."""
    kept_elsewhere: tuple[str, ...]
    """What no erasure here can reach."""


class SourceErasure(ResponseModel):
    """The receipts of one request; a collection of many entries is erased in parts."""

    source: str
    """What was named."""
    receipts: tuple[SourceErasureReceipt, ...]
    """One for each part."""


class SourceErasureList(ResponseModel):
    """All erasures in the library of a tenant."""

    receipts: tuple[SourceErasureReceipt, ...]
    """Their receipts, family by family, in order."""
