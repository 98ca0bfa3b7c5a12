"""Makes the stream of sessions anew from a copy of itself, without some of its sessions.

A stream of the record denies every delete for good. The new one takes no event until it is as it
has to be, has everything else at the same places, and counts as the same log.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from turnlog.events.errors import Corrupt
from turnlog.events.jetstream.archive.stream_copy import StreamCopy, load_stream, save_stream
from turnlog.events.jetstream.js_api import (
    ARCHIVED_METADATA,
    JsApiError,
    request_json,
)
from turnlog.events.jetstream.nats_connection import NatsConnection, wait_backoff
from turnlog.events.jetstream.stream_setup import (
    DELETE_DENIALS,
    FENCED_SUBJECTS,
    STREAM_NOT_FOUND,
    JetStreamConfig,
    get_metadata,
)
from turnlog.events.subjects import SESSION_HISTORY, SESSIONS_STREAM

ANSWER_SECONDS: Final = 120.0
"""Seconds that the server may take to make the stream, or to remove one session from it."""


class _StreamState(BaseModel):
    messages: int
    last_seq: int


class _Replicas(BaseModel):
    replicas: tuple[object, ...] | None = None
    desired: object = None
    """What is to be; None once every replica has everything."""


class _StreamReply(BaseModel):
    config: JetStreamConfig
    created: str
    state: _StreamState
    cluster: _Replicas | None = None


class _Done(BaseModel):
    success: bool


@dataclass(frozen=True, slots=True)
class SessionsStream:
    """The stream of sessions, as the archive changes it."""

    connection: NatsConnection

    @classmethod
    def open(cls, connection: NatsConnection) -> SessionsStream:
        """Return the stream on a connection; the server may take minutes for one request."""
        return cls(replace(connection, patience=ANSWER_SECONDS))

    async def _request(self, action: str, payload: object = None) -> _StreamReply:
        subject = f"$JS.API.STREAM.{action}.{SESSIONS_STREAM}"
        data = b"" if payload is None else json.dumps(payload).encode()
        return await request_json(self.connection, subject, _StreamReply, data)

    async def find_archived_count(self) -> int | None:
        """Return how many messages the stream lacks as archived ones; None if it is not there."""
        try:
            found = await self._request("INFO")
        except JsApiError as denied:
            if denied.code != STREAM_NOT_FOUND:
                raise
            return None
        return int(get_metadata(found.config).get(ARCHIVED_METADATA, 0))

    async def raise_fence(self) -> None:
        """Let the stream take no event of a session."""
        found = await self._request("INFO")
        await self._request("UPDATE", found.config | {"subjects": list(FENCED_SUBJECTS)})

    async def remove_fence(self) -> None:
        """Let the stream take events again."""
        found = await self._request("INFO")
        if found.config["subjects"] == list(FENCED_SUBJECTS):
            await self._request("UPDATE", found.config | {"subjects": [ALL_SESSION_SUBJECTS]})

    async def save(self, file: Path) -> StreamCopy:
        """Write the stream into a file; return its configuration and its state."""
        return await save_stream(self.connection, SESSIONS_STREAM, file)

    async def make_anew(
        self, copy: StreamCopy, file: Path, sessions: Collection[tuple[str, str]], archived: int
    ) -> None:
        """Make the stream from a file, without the sessions of these tenants, with one replica.

        `archived` is how many messages it lacks then. It may be there or not, whole or half made.
        Raises `Corrupt` if it does not become what it has to be.
        """
        if await self.find_archived_count() is not None:
            subject = f"$JS.API.STREAM.DELETE.{SESSIONS_STREAM}"
            await request_json(self.connection, subject, _Done)
        loaded = copy.model_copy(update={"config": copy.config | _HALF_MADE})
        await load_stream(self.connection, SESSIONS_STREAM, loaded, file)
        for tenant, session in sessions:
            await self._remove_session(tenant, session)
        await self._check_state(copy, archived)
        noted = copy.add_metadata(ARCHIVED_METADATA, str(archived)).config
        config: JetStreamConfig = {**noted, **DELETE_DENIALS, "subjects": [ALL_SESSION_SUBJECTS]}
        await self._request("UPDATE", config | {"num_replicas": 1})

    async def _remove_session(self, tenant: str, session: str) -> None:
        subjects = SESSION_HISTORY.build_filter(tenant, session)
        await request_json(
            self.connection,
            f"$JS.API.STREAM.PURGE.{SESSIONS_STREAM}",
            _Done,
            json.dumps({"filter": subjects}).encode(),
        )

    async def _check_state(self, copy: StreamCopy, archived: int) -> None:
        state, copied = (await self._request("INFO")).state, _StreamState.model_validate(copy.state)
        before = int(get_metadata(copy.config).get(ARCHIVED_METADATA, 0))
        due = copied.messages - (archived - before)
        if (state.messages, state.last_seq) != (due, copied.last_seq):
            detail = (
                f"has {state.messages} messages up to {state.last_seq}"
                f" where {due} up to {copied.last_seq} are due"
            )
            raise Corrupt(f"stream {SESSIONS_STREAM}", f"{detail}: run the command again")

    async def restore_replicas(self, replicas: int) -> None:
        """Give the stream its replicas, and wait until each of them has everything.

        It is not loaded with them: a replica of a loaded stream says for 5 s that it has what it
        lacks.
        """
        found, failures = await self._request("INFO"), 0
        if found.config["num_replicas"] != replicas:
            await self._request("UPDATE", found.config | {"num_replicas": replicas})
        while replicas > 1:
            cluster = (await self._request("INFO")).cluster
            followers = (cluster.replicas if cluster else None) or ()
            if cluster and cluster.desired is None and len(followers) + 1 == replicas:
                return
            failures += 1
            await wait_backoff(failures)


ALL_SESSION_SUBJECTS: Final = SESSION_HISTORY.build_filter()

_HALF_MADE: Final[JetStreamConfig] = {
    **dict.fromkeys(DELETE_DENIALS, False),
    "num_replicas": 1,
    "subjects": list(FENCED_SUBJECTS),
}
"""Settings of the stream until everything is removed from it that is archived."""
