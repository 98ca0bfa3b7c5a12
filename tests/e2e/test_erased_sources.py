"""Erased texts of the library: no file or answer has them, and other prompts reproduce."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_sealed_library import (
    GAME,
    add_segment,
    ask,
    open_documented,
    open_game,
    put_entry,
    send,
    set_override,
)
from tests.e2e.test_sealed_sessions import list_files_with, require_verified, run_verifier
from tests.support.processes.live_service import TENANT
from tests.support.processes.process_host import ProcessHost, run_turnlog
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.nats_connection import require_keys
from turnlog.events.model.knowledge_events import KNOWLEDGE_FAMILY
from turnlog.events.model.redaction_events import ERASURE_LEAF, SourceErased
from turnlog.events.seals.key_ports import RemovedKeys
from turnlog.projections.library.source_erasures import parse_erased_source
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.services.bundle.bundle_unpacking import unpack_bundle
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.erasures.source_erasure_service import SourceErasureService
from turnlog.services.knowledge.knowledge_service import KnowledgeService
from turnlog.services.platform.clock import create_id, read_clock
from turnlog.services.seals.library_sealing import LibrarySealing

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service starts"),
]

SECRET = "qvxsecret"

QUESTION = "Who keeps the tide table of the harbour?"

ERASURES = "/v1/erasures/sources"

CALLER = Caller(tenant=TENANT, metadata=CommandMetadata("operator"))


async def erase(up: TurnlogUp, source: str, **form: object) -> dict[str, Any]:
    """Erase a source; return its only receipt."""
    body = {"source": source, "reason": "request 4711", **form}
    (receipt,) = (await send(up, "POST", ERASURES, body))["receipts"]
    return dict(receipt)


async def require_refused(up: TurnlogUp, source: str, code: str) -> None:
    body = {"source": source, "reason": "request 4711"}
    answer = await up.service.http.post(ERASURES, json=body)
    assert answer.json()["code"] == code, answer.text


def name_reached(receipt: dict[str, Any]) -> dict[str, list[str]]:
    return {each["session"]: each["calls"] for each in receipt["sessions"]}


def list_words(up: TurnlogUp, words: str) -> list[str]:
    """Return the files of the whole data directory that have these words."""
    return list(list_files_with(up.ready_file.parent, words.encode()))


def check_erased_bundle(packed: bytes, folder: Path) -> None:
    """Verify a bundle of a session that had an erased text, with its own verifier.

    Without the event of the erasure nobody has to believe that it was one.
    """
    zipped, unpacked = folder / "bundle.zip", folder / "bundle"
    zipped.write_bytes(packed)
    unpack_bundle(zipped, unpacked)
    assert list(list_files_with(unpacked, SECRET.encode())) == []
    assert run_verifier(unpacked) == (6, "UNWITNESSED")
    manifest = unpacked / "manifest.json"
    listed: dict[str, Any] = json.loads(manifest.read_bytes())
    assert len(listed.pop("source_erasures")) >= 1
    manifest.write_text(json.dumps(listed))
    assert run_verifier(unpacked) == (5, "NOT VERIFIED")


async def count_erased(up: TurnlogUp, session: str) -> tuple[bool, int]:
    """Return whether a session is sound, and how many of its calls are erased."""
    report = await up.service.get_json(f"/v1/sessions/{session}/verify")
    assert not report["findings"], report
    return report["verified"], report["prompts"]["erased"]


async def test_erased_entry_is_in_no_file_and_calls_that_had_it_are_erased_and_no_others(
    sealed_up: TurnlogUp, provider: OpenAIServer, tmp_path: Path
) -> None:
    up = sealed_up
    await put_entry(up, "tides", f"{SECRET}first")
    session = await open_documented(up)
    assert f"{SECRET}first" in await ask(up, provider, session, QUESTION)
    await put_entry(up, "tides", f"{SECRET}second")
    other = await open_documented(up)
    assert f"{SECRET}second" in await ask(up, provider, other, QUESTION)
    plan = await erase(up, "document:knowledge/tides", dry_run=True)
    assert (plan["status"], plan["events"]) == ("planned", [1, 2])
    receipt = await erase(up, "document:knowledge/tides")
    assert (receipt["status"], receipt["left"]) == ("erased", []), receipt
    assert name_reached(receipt) == name_reached(plan) == {session: ["1.1"], other: ["1.1"]}
    await put_entry(up, "tides", "the harbour master")
    after = await ask(up, provider, session, "Who keeps the tide table now?")
    assert "the harbour master" in after
    assert SECRET not in after
    assert list_words(up, SECRET) == []
    assert await count_erased(up, session) == (True, 1)
    assert await count_erased(up, other) == (True, 1)
    exported = await up.service.http.get(f"/v1/sessions/{session}/export?format=bundle")
    check_erased_bundle(exported.content, tmp_path)
    for path in (
        f"/v1/sessions/{session}/calls/1.1/prompt",
        f"/v1/sessions/{session}/events",
        "/v1/knowledge/collections/knowledge",
        ERASURES,
    ):
        assert SECRET not in (await up.service.http.get(path)).text
    assert (await send(up, "GET", ERASURES))["receipts"][0] == receipt
    await require_refused(up, "document:knowledge/none", "not-in-library")
    code, _, errors = await run_turnlog("rebuild", "--data-dir", str(up.ready_file.parent))
    assert code == 0, errors
    listed = await up.service.get_json("/v1/knowledge/collections/knowledge")
    assert [each["title"] for each in listed["entries"]] == ["The tide table the harbour master"]
    assert list_words(up, SECRET) == []


async def test_prompt_after_an_erased_one_reproduces_with_what_it_recorded_of_both(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    up = sealed_up
    await put_entry(up, "moorings", f"{SECRET}moorings")
    form = {"blueprint": "uderia", "profile": "rag_focused"}
    attributes = {"instructions": "Be brief."}
    opened = await send(up, "POST", "/v1/sessions", {**form, "attributes": attributes})
    session = opened["session"]
    assert SECRET in await ask(up, provider, session, QUESTION)
    assert SECRET not in await ask(up, provider, session, "Sing!")
    receipt = await erase(up, "document:knowledge/moorings")
    assert name_reached(receipt) == {session: ["1.1"]}
    assert await count_erased(up, session) == (True, 1)


async def test_erased_override_is_in_no_file_and_the_file_stands_again(
    sealed_up: TurnlogUp, provider: OpenAIServer, tmp_path: Path
) -> None:
    up = sealed_up
    await put_entry(up, "crews", "the crews")
    await set_override(up, "ann", f"{SECRET}ann")
    await set_override(up, "bob", "bob")
    session = await open_documented(up)
    assert f"{SECRET}ann" in await ask(up, provider, session, "Who is in the crew?", "ann")
    assert "Answer as bob would." in await ask(up, provider, session, "Who else?", "bob")
    hold = {"name": "case", "where": {"session": session}, "reason": "case 12"}
    await send(up, "POST", "/v1/retention/holds", hold)
    await require_refused(up, "override:uderia/rag_focused_execution/ann", "held")
    await send(up, "POST", "/v1/retention/holds/case/release", {"reason": "case 12 is over"})
    receipt = await erase(up, "override:uderia/rag_focused_execution/ann")
    assert receipt["status"] == "erased", receipt
    assert name_reached(receipt) == {session: ["1.1"]}
    listed = await up.service.get_json("/v1/overrides", user="ann")
    assert listed["overrides"] == []
    assert SECRET not in await ask(up, provider, session, "And who now?", "ann")
    assert list_words(up, SECRET) == []
    assert await count_erased(up, session) == (True, 1)
    exported = await up.service.http.get(f"/v1/sessions/{session}/export?format=bundle")
    check_erased_bundle(exported.content, tmp_path)
    assert (await set_override(up, "ann", "ann again"))["version"] == 2
    await require_refused(up, "overrides:nobody", "not-in-library")


async def test_erased_version_of_a_segment_is_in_no_file_and_the_others_stay(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    up = sealed_up
    await add_segment(up, "core", None, "the court")
    number = (await add_segment(up, "ruleset", GAME["ruleset"], "the crown"))["segment"]
    first = await open_game(up)
    assert "the crown" in await ask(up, provider, first, "I look around.")
    await send(
        up, "PATCH", f"/v1/segments/{number}", {"content": f"A rule by {SECRET}.", "version": 1}
    )
    second = await open_game(up)
    assert SECRET in await ask(up, provider, second, "I look around.")
    await send(up, "PATCH", f"/v1/segments/{number}", {"content": "A rule by none.", "version": 2})
    receipt = await erase(up, f"segment:{number}@2")
    assert receipt["status"] == "erased", receipt
    assert name_reached(receipt) == {second: ["1.1"]}
    assert list_words(up, SECRET) == []
    found = await up.service.get_json(f"/v1/segments/{number}")
    texts = [each["content"] for each in found["versions"]]
    assert texts == ["A rule by the crown.", None, "A rule by none."]
    assert await count_erased(up, second) == (True, 1)
    await require_verified(up, first)
    await require_refused(up, f"segment:{number}@2", "already-erased")
    await require_refused(up, f"segment:{number}@9", "not-in-library")
    for name in ("segment:0", "document:knowledge", "turn:s/1", "nothing"):
        await require_refused(up, name, "invalid")
    whole = await erase(up, f"segment:{number}")
    assert whole["status"] == "erased", whole
    refused = await up.service.http.post(f"/v1/sessions/{first}/turns", json={"text": "I wait."})
    assert refused.status_code == 202, refused.text


class StoppedBeforeRows(SourceErasureService):
    """Dies before the rows have followed."""

    async def _require_folded(self, tenant: str, family: str, begun: int) -> None:
        raise Unavailable("test", f"it dies before {tenant} {family} {begun}")


class StoppedBeforeKeys(SourceErasureService):
    """Dies before any key is gone."""

    async def _remove_keys(self, tenant: str, family: str, begun: RecordedEvent) -> RemovedKeys:
        raise Unavailable("test", f"it dies before {tenant} {family} {begun.sequence}")


class StoppedBeforeEnd(SourceErasureService):
    """Dies when the keys are gone, and nothing says so."""

    async def _end_erasure(
        self, tenant: str, family: str, begun: RecordedEvent, gone: RemovedKeys
    ) -> None:
        raise Unavailable("test", f"it dies before {tenant} {family} {begun.sequence} {gone.after}")


class AbsentGuard:
    """Refuses nothing."""

    async def require_erasable(self, tenant: str, list_sessions: object) -> None:
        """See `ErasureGuard`."""

    async def require_unheld(self, tenant: str, sessions: object) -> None:
        """See `ErasureGuard`."""


@asynccontextmanager
async def open_service(
    up: TurnlogUp, kind: type[SourceErasureService]
) -> AsyncGenerator[SourceErasureService]:
    """Yield the service of another process."""
    client = up.service.nats
    keys = require_keys(client.connection, "the test")
    parts = LibraryParts(
        log=client.library,
        blobs=client.blobs,
        clock=read_clock,
        create_id=create_id,
        source="/turnlog/test",
        sealing=LibrarySealing(keys, client.blobs, is_on=True),
    )
    store = open_store(f"sqlite:///{up.ready_file.parent / 'read-models.db'}")
    try:
        yield kind(
            library=client.library,
            keys=keys,
            histories={KNOWLEDGE_FAMILY: KnowledgeService(parts).history},
            store=store,
            projection_signal=ProjectionSignal(),
            guard=AbsentGuard(),
        )
    finally:
        await store.close()


@pytest.mark.parametrize("kind", [StoppedBeforeRows, StoppedBeforeKeys, StoppedBeforeEnd])
async def test_erasure_that_died_is_finished_by_whoever_looks_next(
    sealed_up: TurnlogUp, kind: type[SourceErasureService]
) -> None:
    up, words = sealed_up, f"{SECRET}{kind.__name__}"
    await put_entry(up, "crews", words)
    source = parse_erased_source("document:knowledge/crews")
    async with open_service(up, kind) as dying:
        (begun,) = await dying.begin_erasure(CALLER, source, "request 4711")
        with pytest.raises(Unavailable):
            await dying.finish_erasure(TENANT, KNOWLEDGE_FAMILY, begun)
    async with open_service(up, SourceErasureService) as other:
        await other.finish_family(TENANT, KNOWLEDGE_FAMILY)
        await other.finish_erasure(TENANT, KNOWLEDGE_FAMILY, begun)
    receipts = (await send(up, "GET", ERASURES))["receipts"]
    (receipt,) = (each for each in receipts if each["erasure"] == begun)
    assert receipt["status"] == "erased", receipt
    events = await up.service.nats.library.read_events_by_leaf(
        TENANT, KNOWLEDGE_FAMILY, ERASURE_LEAF, await read_head(up)
    )
    ends = [each for each in events if each.envelope.type == SourceErased.type]
    assert len(ends) == len(events) - len(ends)
    assert list_words(up, words) == []


async def read_head(up: TurnlogUp) -> ChainHead:
    last = await up.service.nats.library.read_last_event(TENANT, KNOWLEDGE_FAMILY, leader=True)
    assert last is not None
    return last.head


async def test_erased_user_has_no_own_prompt_left(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    up = sealed_up
    await put_entry(up, "crews", "the crews")
    await set_override(up, "eve", f"{SECRET}eve")
    session = await open_documented(up)
    assert f"{SECRET}eve" in await ask(up, provider, session, "Who is in the crew?", "eve")
    form = {"user": "eve", "reason": "request 4711"}
    erased = await send(up, "POST", "/v1/erasures", form)
    assert erased["skipped"] == []
    assert [each["status"] for each in erased["sources"]] == ["erased"]
    assert list_words(up, SECRET) == []
    again = await send(up, "POST", "/v1/erasures", form)
    assert (again["sources"], again["skipped"]) == ([], [])


async def test_text_that_was_added_before_sealing_is_refused(
    host: ProcessHost, tmp_path: Path
) -> None:
    host = replace(host, folder=tmp_path)
    async with run_turnlog_up(host, variables={"TURNLOG_SEALING": "off"}) as plain:
        await put_entry(plain, "tides", "anybody")
        await set_override(plain, "ann", "anybody")
    async with run_turnlog_up(host, variables={"TURNLOG_SEALING": "on"}) as up:
        await put_entry(up, "tides", "somebody else")
        await require_refused(up, "document:knowledge/tides", "not-sealed")
        await require_refused(up, "collection:knowledge", "not-sealed")
        erased = await send(up, "POST", "/v1/erasures", {"user": "ann", "reason": "request 4711"})
        assert [(each["session"], each["code"]) for each in erased["skipped"]] == [
            ("overrides:ann", "not-sealed")
        ]
