"""Receipts and proofs of erasures: what was erased of sessions, and how far that is."""

from __future__ import annotations

from turnlog.contract.erasures.source_erasure_payloads import SourceErasureReceipt
from turnlog.contract.payload_models import ResponseModel
from turnlog.contract.value_names import ErasedPart, ErasureStatus


class ErasedTurnView(ResponseModel):
    """A turn of which something is erased."""

    turn: int
    """The turn number."""
    of: ErasedPart
    """What of it."""


class ErasedSessionView(ResponseModel):
    """What an erasure reaches in one session."""

    session: str
    """The session: the one asked for, a fork of it, or a child that it asked."""
    begun: int | None
    """Sequence of the event that began its part; null for a plan, and before it has begun."""
    ended: int | None
    """Sequence of the event that ended it: from then on nobody can open the words."""
    ended_at: str | None = None
    """When it ended; null before that."""
    turns: tuple[ErasedTurnView, ...]
    """The turns of which something is erased; empty where all of the session is."""
    leaves: str
    """The keys that go, in the form of `sealedof`."""
    events: tuple[int, ...]
    """Sequences of all events whose words are under one of these keys."""
    calls: tuple[str, ...]
    """The calls among them: their prompts had the words, or something made of them, and cannot be
    read or reproduced any more.
    """
    repeating_turns: tuple[int, ...]
    """Later turns of these calls whose replies stay, and may repeat the words."""
    generation: int | None = None
    """The generation of the keyring by which a copy of the keys from before `ended_at`, as in a
    back-up, can still be opened until it is retired; null until it has ended.
    """
    record_before: str | None = None
    """Digest of the stored record of keys before."""
    record_after: str | None = None
    """Digest of the record after."""
    left: tuple[int, ...] = ()
    """Events that can still be opened although they should not; the checking pass found them."""


class ErasureReceipt(ResponseModel):
    """What an erasure reaches, and how far it is."""

    session: str
    """The session."""
    erasure: int | None
    """Sequence of the event that began it; null for a plan."""
    at: str | None
    """When it was begun; null for a plan."""
    by: str | None
    """Who asked for it; null for a plan."""
    reason: str
    """Why."""
    status: ErasureStatus
    """`planned`, `begun`, `erased`, or `incomplete` where the checking pass found words."""
    sessions: tuple[ErasedSessionView, ...]
    """The session, then its forks and children, and theirs."""
    kept_elsewhere: tuple[str, ...]
    """What no erasure here can reach."""


class ChainPlace(ResponseModel):
    """An event of a session, by its place and its bytes."""

    sequence: int
    """Its sequence."""
    hash: str
    """Digest of its stored bytes."""


class ReachedEvent(ResponseModel):
    """An event that an erasure reached."""

    sequence: int
    """Its sequence."""
    id: str
    """Its id."""
    type: str
    """What it is; a prompt is `turnlog.context-assembled.v1`."""


class KeptKeyView(ResponseModel):
    """A key that is left of a session: all keys of some leaves follow from it."""

    first: int
    """The first of these leaves."""
    last: int
    """The last one."""
    hash: str
    """Digest that names the key and tells nothing of it."""
    key: str | None = None
    """The key, in hexadecimal; null unless it is asked for, and for turns after the erasure."""


class ErasureProofPart(ResponseModel):
    """What can be shown of an erasure in one session."""

    session: str
    """The session."""
    head: ChainPlace
    """The last event when this was made."""
    before: ChainPlace | None
    """The last event before those that began the erasure; null where there was none."""
    events: tuple[ReachedEvent, ...]
    """The events that it reached."""
    keys_left: str | None
    """Digest of the list of keys, as an event `content-erased` of the session has it; null where
    an earlier release ended the last erasure.
    """
    keys: tuple[KeptKeyView, ...]
    """The keys that are left, by their leaves; empty where `keys_left` is null, or nothing is."""


class ErasureProof(ResponseModel):
    """What can be shown of an erasure to who does not believe the service.

    `turnlog receipt` signs it, and a bundle of the sessions is checked against it.
    """

    tenant: str
    """The tenant of the sessions."""
    receipt: ErasureReceipt
    """The receipt."""
    parts: tuple[ErasureProofPart, ...]
    """What belongs to each of its sessions, in their order."""


class ErasureList(ResponseModel):
    """The erasures of a session."""

    session: str
    """The session."""
    erasures: tuple[ErasureReceipt, ...]
    """Their receipts, in order."""


class SkippedSession(ResponseModel):
    """A session of which nothing could be erased, and why."""

    session: str
    """The session; `overrides:USER` for the own prompts of a user."""
    code: str
    """The code of the error: `not-sealed`, `turn-open`."""
    detail: str
    """What stands in the way."""


class UserErasure(ResponseModel):
    """What an erasure of a user reaches."""

    user: str
    """The user."""
    receipts: tuple[ErasureReceipt, ...]
    """The receipt of each session."""
    skipped: tuple[SkippedSession, ...]
    """Sessions of the user in which it could not be done."""
    sources: tuple[SourceErasureReceipt, ...] = ()
    """The receipts of the user's own prompts."""
