"""Consistency of two checkpoints: nodes that show that the log of the newer continues the older.

For each history that grew between them there are the nodes from which both its root in the older
checkpoint and its root in the newer one follow, so that its first events are the same. Both
checkpoints and these nodes are all that a reader needs: `services/bundle/consistency_verifier`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from turnlog.events.content import compute_digest
from turnlog.projections.audit.verify.hash_chain import ChainEnd, ChainKey
from turnlog.projections.audit.verify.signed_checkpoints import (
    MAX_CHECKPOINT_BYTES,
    AuditCheckpoint,
    HeadDigest,
)

_MODEL_CONFIG = ConfigDict(frozen=True, extra="forbid")

MAX_CONTINUED_BYTES: Final = 2 * MAX_CHECKPOINT_BYTES
"""The maximum size in bytes of a checkpoint with its consistency to an older one."""

TreeNode = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class CheckpointConsistency(BaseModel):
    """The nodes between two checkpoints, as stored in a file."""

    model_config = _MODEL_CONFIG

    format: Literal["turnlog-consistency/1"] = "turnlog-consistency/1"
    """Version of the format."""
    older: HeadDigest
    """Digest of what the older checkpoint signs."""
    newer: HeadDigest
    """Digest of what the newer checkpoint signs."""
    nodes: dict[str, dict[str, tuple[TreeNode, ...]]]
    """The nodes of each history that grew, from left to right: by the list that has its head, and
    by its name there.
    """


class ContinuedCheckpoint(BaseModel):
    """A checkpoint, and its consistency with an older one."""

    model_config = _MODEL_CONFIG

    checkpoint: AuditCheckpoint
    """The newer checkpoint, to be signed."""
    consistency: CheckpointConsistency
    """What shows that its log continues the older one."""


def build_consistency(
    older: AuditCheckpoint,
    newer: AuditCheckpoint,
    ends: Mapping[str, Mapping[ChainKey, ChainEnd]],
) -> CheckpointConsistency:
    """Build the consistency of two checkpoints from the ends of chains, by the lists of heads."""
    return CheckpointConsistency(
        older=compute_digest(older.signed_bytes),
        newer=compute_digest(newer.signed_bytes),
        nodes={name: nodes for name in ends if (nodes := _list_nodes(ends[name]))},
    )


def _list_nodes(ends: Mapping[ChainKey, ChainEnd]) -> dict[str, tuple[TreeNode, ...]]:
    return {
        history: tuple(node.hex() for node in path.list_nodes())
        for (_, history), end in sorted(ends.items())
        if (path := end.consistency) is not None and path.count
    }
