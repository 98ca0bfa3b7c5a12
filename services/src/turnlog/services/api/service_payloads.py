"""The responses about the service: its blueprints and their pins, its health, its quarantine.

Those about quarantine name events by their envelopes and contain no text of a session.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.contract.payload_models import RequestModel, ResponseModel
from turnlog.events.content import SHA256_PATTERN, Digest
from turnlog.projections.blueprint.storable_json import JsonObject
from turnlog.projections.store.read.row_types import PinKind
from turnlog.services.platform.durability_level import DurabilityLevel


class BlueprintView(ResponseModel):
    """A usable blueprint."""

    blueprint: str
    """The name."""
    version: int
    """The version number set by its author."""
    digest: Digest
    """The digest of its structure."""
    summary: str
    """What it is for."""
    profiles: tuple[str, ...]
    """The profiles, the default one first."""


class FaultyBlueprintView(ResponseModel):
    """A blueprint that cannot be loaded."""

    blueprint: str
    """The name of its folder."""
    detail: str
    """The first fault and the number of faults."""


class BlueprintList(ResponseModel):
    """All blueprints."""

    blueprints: tuple[BlueprintView, ...]
    """The usable ones."""
    faulty: tuple[FaultyBlueprintView, ...]
    """Those that cannot be loaded."""


class BlueprintSchemas(BlueprintView):
    """A blueprint with the schemas of its values."""

    attributes: JsonObject
    """The JSON Schema of the attributes of a session."""
    inputs: JsonObject
    """The JSON Schema of the inputs of a turn."""
    ladders: tuple[str, ...]
    """Each limit of its budgets and what happens above it, in order, for people."""


class ComponentHealth(ResponseModel):
    """The health of a component that the gateway depends on."""

    ready: bool
    """Whether it answers."""
    detail: str | None
    """What is wrong with it."""


class ReadinessView(ResponseModel):
    """Whether the gateway can work, and what its acknowledgements guarantee."""

    ready: bool
    """Whether every component answers; damage in the part `record` stops single sessions only."""
    durability: DurabilityLevel
    """What an acknowledgement guarantees: on disk, on several machines, or neither."""
    checked: bool
    """Whether the server confirmed the level, or only the configuration states it."""
    lag: int | None
    """The number of events that the read models lag behind the log; null when unknown."""
    parts: dict[str, ComponentHealth]
    """The health of each component by name."""


class LivenessView(ResponseModel):
    """The process runs."""

    alive: Literal[True] = True
    """Always true."""


class MoveBlueprintRequest(RequestModel):
    """Moves a session to the present version of its blueprint's files."""

    digest: Annotated[str, Field(pattern=SHA256_PATTERN)] | None = None
    """The expected digest of the blueprint, which must be the present one; see `/v1/blueprints`."""


class BlueprintMoveResult(ResponseModel):
    """The blueprint that a session uses after a move."""

    session: str
    """The session id."""
    sequence: int
    """The sequence of the move; the session's last sequence when nothing changed."""
    moved: bool
    """Whether anything changed."""
    blueprint: str
    """The blueprint's name."""
    version: int
    """The version number set by its author."""
    digest: Digest
    """The digest of its structure."""
    children_left: tuple[str, ...] = ()
    """Child sessions that stay with the version before: the session asks new ones from now on,
    which know nothing of what these were asked. They are open until the session is closed.
    """


class BlueprintMovePreview(ResponseModel):
    """What a move to the present version of the files would do; nothing is recorded."""

    session: str
    """The session id."""
    sequence: int
    """The sequence that the response reflects."""
    moves: bool
    """Whether anything would change."""
    blueprint: str
    """The blueprint's name."""
    version: int
    """The version number of the present files."""
    digest: Digest
    """The digest of the present files, which a move may be made to depend on."""
    version_before: int
    """The version number that the session uses."""
    digest_before: Digest
    """The digest of the structure that the session uses."""


class PinnedTextView(ResponseModel):
    """A text that open sessions are pinned to."""

    blueprint: str
    """The blueprint of the sessions."""
    what: PinKind
    """The kind of text: the blueprint, a cartridge, a memory policy or a prompt file."""
    version: int | None
    """The version of a blueprint."""
    provider: str | None
    """The provider for which a prompt file was resolved."""
    layer: str | None
    """The layer for which a prompt file was resolved."""
    path: str | None
    """The path of the prompt file."""
    digest: Digest
    """The digest of the text; `/v1/sessions?open=true&digest=` lists the sessions."""
    sessions: int
    """The number of open sessions that are pinned to it."""
    current: bool | None
    """Whether the files have the same content now; null when that depends on the session."""


class PinnedTextList(ResponseModel):
    """The texts that open sessions are pinned to."""

    pins: tuple[PinnedTextView, ...]
    """The texts, by blueprint and kind."""


class StoppedSessionView(ResponseModel):
    """A session whose read models are stopped; the session itself goes on."""

    session: str
    """The session id."""
    position: int
    """The stream sequence of the event that stopped it."""
    sequence: int | None
    """The sequence of the event within the session; null if its bytes cannot be read."""
    type: str | None
    """The wire type of the event; null if its bytes cannot be read."""
    time: str | None
    """When the event was recorded, RFC 3339; null if its bytes cannot be read."""
    reason: str
    """Why the event could not be folded."""
    held_back: int
    """The number of later events of the session that wait."""


class SessionStraysView(ResponseModel):
    """The messages under a session's subjects that are no events of it; they stop nothing."""

    session: str
    """The session id."""
    count: int
    """How many there are."""
    position: int
    """The stream sequence of the first one."""
    reason: str
    """Why the first one is no event."""


class StoppedSessionList(ResponseModel):
    """The stopped sessions, in the order in which they stopped, and those with stray messages."""

    sessions: tuple[StoppedSessionView, ...]
    """The stopped sessions."""
    strays: tuple[SessionStraysView, ...] = ()
    """The sessions with messages that are no events, by the position of the first one."""


class QuarantinedEventView(ResponseModel):
    """An event in quarantine."""

    position: int
    """The stream sequence."""
    sequence: int | None
    """The sequence within the session; null if its bytes cannot be read."""
    type: str | None
    """The wire type; null if its bytes cannot be read."""
    time: str | None
    """When it was recorded, RFC 3339; null if its bytes cannot be read."""
    reason: str | None
    """Why it could not be folded; null if it only waits."""


class QuarantineView(ResponseModel):
    """The events of a stopped session that wait in quarantine."""

    session: str
    """The session id."""
    events: tuple[QuarantinedEventView, ...]
    """The events in stored order; the first one stopped the session."""


class QuarantineRelease(ResponseModel):
    """The result of releasing a session from quarantine."""

    session: str
    """The session id."""
    events: int
    """The number of events that were folded."""
