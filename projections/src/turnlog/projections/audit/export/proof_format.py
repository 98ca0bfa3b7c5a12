"""The proof of one call as a file: its events, and paths from them to a signed checkpoint.

A proof is meant to be mailed, so it has at most `PROOF_BYTES` where that is possible: the request
gives way to its digest, which the event has that fixed it, then events do, the largest first. The
event with the manifest stays. Who has the texts can compare them with their digests.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from turnlog.events.content import Digest, compute_digest, encode_canonical
from turnlog.projections.audit.verify.signed_checkpoints import SessionWitness

PROOF_BYTES: Final = 20_000
"""Most bytes of a proof, unless its event with the manifest has nearly as many."""


class EventInProof(BaseModel):
    """An event in a proof, as it is stored, or its digest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sequence: int
    stored: Annotated[str | None, Field(exclude_if=lambda value: value is None)] = None
    """Its stored bytes, which are UTF-8."""
    key: Annotated[str | None, Field(exclude_if=lambda value: value is None)] = None
    """The key of its box, if it is sealed."""
    hash: Annotated[Digest | None, Field(exclude_if=lambda value: value is None)] = None
    """Their digest, where they are too large."""


class CallProof(SessionWitness):
    """The proof of a call, with what a signed checkpoint says of its session."""

    format: Literal["turnlog-proof/1"] = "turnlog-proof/1"
    session: str
    call: str
    request: str | None
    """What the model was sent, in canonical form; null where it is too large."""
    events: tuple[EventInProof, ...]
    """The events of the call, and those that opened and ended its turn."""
    path: tuple[str, ...]
    """The path from the events to the root of the session's events."""

    def encode_json(self) -> bytes:
        """Return the proof as the bytes of its file."""
        return encode_canonical(self.model_dump(mode="json")).encode() + b"\n"


def fit_proof(proof: CallProof, manifest_sequence: int, limit: int = PROOF_BYTES) -> CallProof:
    """Return a proof with digests in place of texts until it has at most so many bytes.

    The event with the manifest keeps its text, and a proof may be larger for it.
    """
    if len(proof.encode_json()) > limit:
        proof = proof.model_copy(update={"request": None})
    while len(proof.encode_json()) > limit:
        texts = {
            each.sequence: each.stored
            for each in proof.events
            if each.stored is not None and each.sequence != manifest_sequence
        }
        if not texts:
            return proof
        largest = max(texts, key=lambda sequence: len(texts[sequence]))
        hashed = EventInProof(sequence=largest, hash=compute_digest(texts[largest]))
        events = (hashed if each.sequence == largest else each for each in proof.events)
        proof = proof.model_copy(update={"events": tuple(events)})
    return proof
