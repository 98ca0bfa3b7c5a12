"""Signed checkpoints: the head of every session of a tenant at one point in time.

A checkpoint is signed and kept outside the log. Compared with the log later, it shows what no chain
can show: a log that was cut, rolled back or rewritten. It proves nothing about later events, nor
about records that were already false when it was taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from turnlog.events.content import SHA256_PATTERN, Digest, encode_canonical
from turnlog.events.model.installation.access_events import INSTALLATION_TENANT
from turnlog.projections.audit.verify.hash_chain import (
    ChainEnd,
    ChainKey,
    WitnessedHead,
    format_root,
)
from turnlog.projections.audit.verify.merkle_tree import build_path, compute_tree_root

_MODEL_CONFIG = ConfigDict(frozen=True, extra="forbid")

MAX_CHECKPOINT_BYTES: Final = 104 * 1024 * 1024
"""The maximum size of a checkpoint in bytes, enough for half a million sessions."""

HeadDigest = Annotated[Digest, Field(pattern=SHA256_PATTERN)]


class CheckpointHead(BaseModel):
    """The head of a session, a family of the library, an alert, or a day of reads."""

    model_config = _MODEL_CONFIG

    sequence: Annotated[int, Field(ge=1)]
    """Sequence of the last event, which is also the number of events."""
    hash: HeadDigest
    """Digest of that event's stored bytes."""
    root: Annotated[HeadDigest | None, Field(exclude_if=lambda root: root is None)] = None
    """Root of the tree of all events' digests; absent in the first version."""


CheckpointFormat = Literal["turnlog-checkpoint/1", "turnlog-checkpoint/2"]

ROOTED_FORMAT: Final[CheckpointFormat] = "turnlog-checkpoint/2"
"""The version that signs roots of trees."""


class AuditCheckpoint(BaseModel):
    """The signed content of a checkpoint."""

    model_config = _MODEL_CONFIG

    format: CheckpointFormat = "turnlog-checkpoint/1"
    """Version of the format."""
    at: str
    """When it was taken, RFC 3339."""
    tenant: str
    """The owner of the sessions."""
    stream: str
    """The stream that stores them."""
    created: str
    """When the server created that stream."""
    end: int
    """The last stream sequence that was read."""
    sessions: dict[str, CheckpointHead]
    """The head of each session, by id."""
    library: dict[str, CheckpointHead]
    """The head of each family, by name."""
    alerts: Annotated[dict[str, CheckpointHead], Field(exclude_if=lambda heads: not heads)] = {}
    """The head of each alert, by name; absent without any, as in those of earlier releases."""
    reads: Annotated[dict[str, CheckpointHead], Field(exclude_if=lambda heads: not heads)] = {}
    """The head of each day of the log of reads; absent without any."""
    installation: Annotated[
        dict[str, CheckpointHead], Field(exclude_if=lambda heads: not heads)
    ] = {}
    """The head of each history of the installation, that of its keys for one; absent where who
    asked is a tenant's.
    """

    @model_validator(mode="after")
    def _check_roots(self) -> Self:
        is_rooted = self.format == ROOTED_FORMAT
        heads = (head for heads in self.lists.values() for head in heads.values())
        if any((head.root is not None) != is_rooted for head in heads):
            raise ValueError(f"{self.format} has {'a' if is_rooted else 'no'} root in each head")
        return self

    @property
    def lists(self) -> dict[str, dict[str, CheckpointHead]]:
        """The lists of heads by their names."""
        return {
            "sessions": self.sessions,
            "library": self.library,
            "alerts": self.alerts,
            "reads": self.reads,
            "installation": self.installation,
        }

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that are signed: JSON in UTF-8, sorted keys, no whitespace."""
        return encode_canonical(self.summarise()).encode()

    def summarise(self) -> dict[str, JsonValue]:
        """Return what is signed: from the second version on, a count and a root for each list."""
        whole: dict[str, JsonValue] = self.model_dump(mode="json")
        if self.format != ROOTED_FORMAT:
            return whole
        for name in self.lists.keys() & whole.keys():
            whole[name] = _summarise_heads(self.lists[name])
        return whole

    def list_session_heads(self) -> dict[ChainKey, WitnessedHead]:
        """Return the heads of the sessions, for comparison with their chains."""
        return _build_witnessed_heads(self.tenant, self.sessions)

    def list_library_heads(self) -> dict[ChainKey, WitnessedHead]:
        """Return the heads of the library's families."""
        return _build_witnessed_heads(self.tenant, self.library)

    def list_alert_heads(self) -> dict[ChainKey, WitnessedHead]:
        """Return the heads of the alerts."""
        return _build_witnessed_heads(self.tenant, self.alerts)

    def list_read_heads(self) -> dict[ChainKey, WitnessedHead]:
        """Return the heads of the days of the log of reads."""
        return _build_witnessed_heads(self.tenant, self.reads)

    def list_installation_heads(self) -> dict[ChainKey, WitnessedHead]:
        """Return the heads of the histories of the installation."""
        return _build_witnessed_heads(INSTALLATION_TENANT, self.installation)


class CheckpointSignature(BaseModel):
    """A signature of a checkpoint."""

    model_config = _MODEL_CONFIG

    algorithm: Literal["ed25519"] = "ed25519"
    """The signature algorithm."""
    key: str
    """The public key, its 32 bytes in base64."""
    signature: str
    """The signature, its 64 bytes in base64."""


class SignedCheckpoint(BaseModel):
    """A checkpoint with its signatures, as stored in a file."""

    model_config = _MODEL_CONFIG

    checkpoint: AuditCheckpoint
    """The signed content."""
    signatures: Annotated[tuple[CheckpointSignature, ...], Field(min_length=1)]
    """At least one signature."""


class SessionWitness(BaseModel):
    """What a signed checkpoint says of one session, with the path to what is signed."""

    model_config = _MODEL_CONFIG

    checkpoint: dict[str, JsonValue]
    """What is signed."""
    signatures: Annotated[tuple[CheckpointSignature, ...], Field(min_length=1)]
    """Its signatures."""
    head: CheckpointHead
    """The head of the session."""
    position: Annotated[int, Field(ge=0)]
    """Where the session is among the sessions in the order of their ids, from 0."""
    heads_path: tuple[str, ...]
    """The path from the head to the root of all heads: nodes in hexadecimal."""


def build_session_witness(signed: SignedCheckpoint, session: str) -> SessionWitness | None:
    """Return what a checkpoint says of a session; None where it has no root for it."""
    checkpoint = signed.checkpoint
    if checkpoint.format != ROOTED_FORMAT or session not in checkpoint.sessions:
        return None
    position = sorted(checkpoint.sessions).index(session)
    path = build_path(_encode_heads(checkpoint.sessions), [position])
    return SessionWitness(
        checkpoint=checkpoint.summarise(),
        signatures=signed.signatures,
        head=checkpoint.sessions[session],
        position=position,
        heads_path=tuple(node.hex() for node in path),
    )


def _summarise_heads(heads: Mapping[str, CheckpointHead]) -> dict[str, JsonValue]:
    root = format_root(compute_tree_root(_encode_heads(heads)))
    return {"count": len(heads), "root": root}


def _encode_heads(heads: Mapping[str, CheckpointHead]) -> Sequence[bytes]:
    """Return the entries of the tree of heads, in the order of names."""
    return [
        encode_canonical({**heads[name].model_dump(mode="json"), "name": name}).encode()
        for name in sorted(heads)
    ]


def build_checkpoint_heads(ends: Mapping[ChainKey, ChainEnd]) -> dict[str, CheckpointHead]:
    """Build checkpoint heads from the ends of chains."""
    return {
        session: CheckpointHead(sequence=end.sequence, hash=end.hash, root=end.root)
        for (_, session), end in sorted(ends.items())
    }


def _build_witnessed_heads(
    tenant: str, heads: Mapping[str, CheckpointHead]
) -> dict[ChainKey, WitnessedHead]:
    return {
        (tenant, name): WitnessedHead(head.sequence, head.hash, head.root)
        for name, head in heads.items()
    }
