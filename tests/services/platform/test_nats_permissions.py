"""The table of what each login of NATS may do, tried with real logins on a real server.

Every subject of the table, for two tenants, is published by every login; what the server refuses
must be what the table does not have for that login.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from nats.aio.client import Client

from tests.deploy.compose_file import ROOT
from tests.events.log_sessions import append_texts
from tests.support.processes.separate_roles import ROLE_PASSWORDS, provision_as_job
from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.jetstream_client import JetStreamClient, build_client
from turnlog.events.jetstream.nats_connection import build_service_inbox, open_connection
from turnlog.events.jetstream.stream_setup import (
    StreamOptions,
    build_durable_streams,
    provision_streams,
)
from turnlog.events.jetstream.work_queue import WorkQueueOptions, ensure_work_queue
from turnlog.services.platform.nats_permissions import (
    GRANTS,
    NATS_USERS,
    STREAM_SUBJECTS,
    NatsUser,
    collect_lists,
)
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

TENANTS = ("travel", "review")


@dataclass(repr=False)
class LoginOfTest:
    """A client of one login, and what the server has refused to it."""

    user: NatsUser
    client: Client
    refused: list[str] = field(default_factory=list[str])

    async def note_refusal(self, fault: Exception) -> None:
        self.refused.append(str(fault))

    async def try_publishing(self, *subjects: str) -> set[str]:
        """Publish to each subject; return those that the server refused, in small letters."""
        return await self._try("publish to", self.client.publish, subjects)

    async def try_subscribing(self, *subjects: str) -> set[str]:
        """Subscribe to each subject; return those that the server refused, in small letters."""
        return await self._try("subscription to", self.client.subscribe, subjects)

    async def _try(self, what: str, attempt: Any, subjects: tuple[str, ...]) -> set[str]:  # noqa: ANN401
        self.refused.clear()
        for subject in subjects:
            await attempt(subject)
        # nats-py sends the first ping before what is waiting to be sent.
        await self.client.flush()
        await self.client.flush()
        start = f'permissions violation for {what} "'
        return {said.split(start)[1].split('"')[0] for said in self.refused if start in said}

    async def ask(self, subject: str, form: object) -> Any:  # noqa: ANN401 - JSON of any shape
        """Send a request that this login may send."""
        return json.loads((await self.client.request(subject, json.dumps(form).encode())).data)


@dataclass(repr=False)
class ServerWithLogins:
    """A server with all streams, an event of each tenant, and the queue of turns."""

    server: NatsServer
    services: JetStreamClient

    @asynccontextmanager
    async def log_in(self, user: NatsUser) -> AsyncGenerator[LoginOfTest]:
        """Connect with a login."""
        login = LoginOfTest(user, Client())
        url = self.server.consumer_url if user == "consumer" else self.server.role_urls[user]
        prefix = "_INBOX" if user == "consumer" else build_service_inbox(url)
        await login.client.connect(url, error_cb=login.note_refusal, inbox_prefix=prefix)
        try:
            yield login
        finally:
            await login.client.close()

    async def count_messages(self, stream: str) -> int:
        """Return how many messages a stream has."""
        found = await self.services.connection.nc.jetstream().stream_info(stream)
        return found.state.messages


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerWithLogins]:
    config = NatsConfig(data_dir=tmp_path_factory.mktemp("nats"), role_passwords=ROLE_PASSWORDS)
    async with await NatsServer.start(config) as server:
        await provision_as_job(server)
        async with open_connection(server.url) as connection:
            await ensure_work_queue(connection, WorkQueueOptions(30, 10))
            services = build_client(connection)
            for tenant in TENANTS:
                await append_texts(services.log, tenant, "s", "one")
            yield ServerWithLogins(server, services)


def is_matched(subject: str, pattern: str) -> bool:
    """Return whether a pattern of NATS has a subject; written here once more, for the table."""
    words, wanted = subject.split("."), pattern.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        if len(words) <= len(wanted):
            return False
        words = words[: len(wanted)]
    return len(words) == len(wanted) and all(
        each in {word, "*"} for word, each in zip(words, wanted, strict=True)
    )


def fill_pattern(pattern: str, tenant: str) -> str:
    """Return a subject that a pattern has; the first word that it leaves open is a tenant."""
    words = pattern.split(".")
    if "*" in words and not pattern.startswith("$JS"):
        words[words.index("*")] = tenant
    return ".".join({"*": "x1", ">": "y.z"}.get(word, word) for word in words)


def list_subjects(kind: str) -> list[str]:
    """List a subject for each line of the table and each tenant."""
    patterns = {
        pattern
        for grant in GRANTS
        for pattern in (
            grant.subscribe if kind == "subscribe" else (*grant.publish, *grant.refused)
        )
    }
    return sorted({fill_pattern(each, tenant) for each in patterns for tenant in TENANTS})


@pytest.mark.promise("P13")
@pytest.mark.parametrize("user", NATS_USERS)
async def test_login_publishes_what_the_table_has_for_it_and_is_refused_all_else(
    site: ServerWithLogins, user: NatsUser
) -> None:
    lists = collect_lists(user)
    subjects = list_subjects("publish")
    allowed = {
        subject
        for subject in subjects
        if any(is_matched(subject, each) for each in lists.publish)
        and not any(is_matched(subject, each) for each in lists.refused)
    }
    assert allowed, "the login does nothing"
    async with site.log_in(user) as login:
        refused = await login.try_publishing(*subjects)
    assert refused == {each.lower() for each in set(subjects) - allowed}


@pytest.mark.promise("P13")
@pytest.mark.parametrize("user", NATS_USERS)
async def test_login_hears_what_the_table_has_for_it_and_nobody_elses_answers(
    site: ServerWithLogins, user: NatsUser
) -> None:
    subjects = [*list_subjects("subscribe"), "session.>", "read.>", "$JS.API.>", "_TURNLOG.>", ">"]
    allowed = {
        subject
        for subject in subjects
        if any(is_matched(subject, each) for each in collect_lists(user).subscribe)
    }
    async with site.log_in(user) as login:
        refused = await login.try_subscribing(*subjects)
    assert refused == {each.lower() for each in set(subjects) - allowed}


NOBODY: frozenset[NatsUser] = frozenset()

HEARD: dict[str, frozenset[NatsUser]] = {
    **{f"_TURNLOG.{user}.>": frozenset({user}) for user in NATS_USERS if user != "consumer"},
    **{
        f"live.session.{tenant}.>": frozenset({"gateway", "worker", "consumer"})
        for tenant in TENANTS
    },
    "_INBOX.>": frozenset({"consumer"}),
    "turnlog.knowledge-search": frozenset({"projector"}),
    "turnlog.folded-positions": frozenset({"gateway", "projector"}),
    "turnlog.>": NOBODY,
    "_TURNLOG.>": NOBODY,
    "session.>": NOBODY,
    "read.>": NOBODY,
    "$JS.>": NOBODY,
    "$SYS.>": NOBODY,
    ">": NOBODY,
}
"""Who may subscribe to what, written without the table."""


@pytest.mark.promise("P13")
@pytest.mark.parametrize("user", NATS_USERS)
async def test_login_cannot_hear_what_is_for_nobody_or_for_another_one(
    site: ServerWithLogins, user: NatsUser
) -> None:
    async with site.log_in(user) as login:
        refused = await login.try_subscribing(*HEARD)
    assert refused == {each.lower() for each, users in HEARD.items() if user not in users}


ALL_ROLES: frozenset[NatsUser] = frozenset({"gateway", "worker", "projector", "provision"})


def iterate_expectations() -> Iterator[tuple[str, frozenset[NatsUser]]]:
    """Yield subjects with who may publish to them, written without the table."""
    for stream in STREAM_SUBJECTS:
        for verb in ("DELETE", "RESTORE", "SNAPSHOT", "MSG.DELETE", "PEER.REMOVE"):
            overwrites = (verb, stream) == ("MSG.DELETE", "KEYS")
            users: frozenset[NatsUser] = frozenset({"gateway"}) if overwrites else NOBODY
            yield f"$JS.API.STREAM.{verb}.{stream}", users
        cache = stream == "SNAPSHOTS"
        yield f"$JS.API.STREAM.PURGE.{stream}", ALL_ROLES if cache else NOBODY
        yield f"$JS.API.STREAM.UPDATE.{stream}", frozenset({"provision"})
        lost = stream in {"SNAPSHOTS", "TOKENS"}
        yield f"$JS.API.STREAM.CREATE.{stream}", ALL_ROLES if lost else frozenset({"provision"})
        yield f"$JS.API.CONSUMER.CREATE.{stream}.n.{STREAM_SUBJECTS[stream]}", list_readers(stream)
    yield "$JS.API.CONSUMER.DELETE.SESSIONS.workers", NOBODY
    yield "$JS.API.CONSUMER.CREATE.SESSIONS.workers.session.>", NOBODY
    yield "$JS.API.CONSUMER.DURABLE.CREATE.SESSIONS.workers", NOBODY
    yield "$JS.API.CONSUMER.CREATE.SESSIONS.workers", frozenset({"worker"})
    yield "$JS.API.CONSUMER.MSG.NEXT.SESSIONS.workers", frozenset({"worker"})
    yield "$JS.ACK.SESSIONS.workers.1.1.1.1.0", frozenset({"worker"})
    yield "$JS.API.CONSUMER.CREATE.SESSIONS", frozenset({"consumer"})
    yield "$JS.API.CONSUMER.CREATE.SESSIONS.n.library.>", frozenset({"consumer"})
    yield "$JS.API.CONSUMER.CREATE.READS.n.read.>", frozenset({"gateway", "projector"})
    yield "$JS.API.DIRECT.GET.READS", frozenset({"gateway", "projector"})
    yield "$JS.API.DIRECT.GET.KEYS", frozenset({"gateway", "projector", "worker", "consumer"})
    yield "$JS.API.STREAM.MSG.GET.KEYS", frozenset({"gateway", "projector", "worker", "consumer"})
    yield "$JS.API.DIRECT.GET.SESSIONS.session.travel.s.turn", frozenset({"consumer"})
    yield "$JS.API.DIRECT.GET.READS.read.travel.2026-11-29.record", NOBODY
    yield "$JS.API.STREAM.MSG.GET.READS", frozenset({"gateway", "projector"})
    for tenant in TENANTS:
        yield f"session.{tenant}.s.turn.submitted", frozenset({"gateway", "worker"})
        yield f"read.{tenant}.2026-11-29.record", frozenset({"gateway"})
        yield f"alert.{tenant}.a.raised", frozenset({"projector"})
        yield f"library.{tenant}.segments.edited", frozenset({"gateway"})
        yield f"library.{tenant}.segments.reserved", frozenset({"gateway"})
        yield f"library.{tenant}.quota-ann.reserved", frozenset({"gateway", "worker"})
        yield f"library.{tenant}.webhooks.claimed", frozenset({"gateway"})
        yield f"library.{tenant}.webhook-place-w.claimed", frozenset({"gateway", "projector"})
        yield f"tokens.{tenant}.s.1", frozenset({"worker"})
        yield f"key.{tenant}.s", frozenset({"gateway", "worker"})
        yield f"live.session.{tenant}.s.turn", NOBODY
    yield "library._installation.access.created", frozenset({"gateway"})
    yield "library._installation.access.reserved", frozenset({"gateway"})
    yield "tokens._webhooks.w.0", frozenset({"projector"})
    yield "snapshot._record.SESSIONS", frozenset({"projector"})
    yield "_TURNLOG.gateway.x.y", frozenset({"projector"})
    yield "_TURNLOG.worker.x.y", frozenset({"gateway", "projector"})
    yield "_TURNLOG.projector.x.y", NOBODY
    yield "_TURNLOG.provision.x.y", NOBODY
    yield "_INBOX.x", NOBODY
    yield "$JS.API.ACCOUNT.PURGE.x", NOBODY
    yield "$JS.API.META.LEADER.STEPDOWN", NOBODY
    yield "$SYS.REQ.SERVER.PING", NOBODY


def list_readers(stream: str) -> frozenset[NatsUser]:
    """Return who reads a stream from end to end, by consumers of any name."""
    match stream:
        case "SNAPSHOTS" | "KEYS":
            return NOBODY
        case "TOKENS":
            return frozenset({"gateway", "consumer"})
        case "READS" | "BLOBS":
            return frozenset({"gateway", "projector"})
        case _:
            return frozenset({"gateway", "projector", "consumer"})


@pytest.mark.promise("P13")
@pytest.mark.parametrize("user", NATS_USERS)
async def test_login_cannot_do_what_is_for_nobody_or_for_another_one(
    site: ServerWithLogins, user: NatsUser
) -> None:
    expected = dict(iterate_expectations())
    async with site.log_in(user) as login:
        refused = await login.try_publishing(*expected)
    assert refused == {each.lower() for each, users in expected.items() if user not in users}


async def test_consumer_has_the_name_and_the_filter_that_its_subject_says(
    site: ServerWithLogins,
) -> None:
    """A server checks subjects alone, so what the request says otherwise must not count."""
    inbox = "_TURNLOG.projector.n"
    create = "$JS.API.CONSUMER.CREATE.SESSIONS.n.session.>"
    config = {"name": "n", "filter_subject": "session.>", "deliver_subject": inbox}
    async with site.log_in("projector") as login:
        for other in (
            {"filter_subject": f"session.{TENANTS[0]}.>"},
            {"name": "workers", "durable_name": "workers"},
            {"filter_subjects": ["session.>", "library.>"], "filter_subject": None},
        ):
            request = {"stream_name": "SESSIONS", "config": config | other}
            assert "error" in await login.ask(create, request), other
        request = {"stream_name": "LIBRARY", "config": config}
        assert "error" in await login.ask(create, request)
        assert "error" not in await login.ask(create, {"stream_name": "SESSIONS", "config": config})


async def test_role_that_may_create_a_lost_stream_cannot_change_one_that_exists(
    site: ServerWithLogins,
) -> None:
    js = site.services.connection.nc.jetstream()
    before = (await js.stream_info("TOKENS")).config
    async with site.log_in("worker") as login:
        for config in (
            {"name": "TOKENS", "subjects": ["tokens.>"], "sources": [{"name": "READS"}]},
            {"name": "TOKENS", "subjects": ["elsewhere.>"]},
            {"name": "OTHER", "subjects": ["elsewhere.>"]},
        ):
            assert "error" in await login.ask("$JS.API.STREAM.CREATE.TOKENS", config), config
    assert (await js.stream_info("TOKENS")).config == before


async def test_answer_of_the_server_can_be_sent_where_the_sender_may_not_publish(
    site: ServerWithLogins,
) -> None:
    """`docs/nats-logins.md` says what permissions do not prevent; such a message is no event."""
    before = await site.count_messages("SESSIONS")
    async with site.log_in("consumer") as login:
        subject = f"session.{TENANTS[0]}.s.turn"
        stored = await login.client.subscribe(f"live.{subject}")
        # A stored event is not delivered into a stream, so nobody repeats or forges one this way.
        get = json.dumps({"seq": 1}).encode()
        await login.client.publish("$JS.API.DIRECT.GET.SESSIONS", get, reply=subject)
        await login.client.publish("$JS.API.STREAM.INFO.SESSIONS", b"", reply=subject)
        message = await stored.next_msg(timeout=10)
        assert json.loads(message.data)["type"].endswith("stream_info_response")
        assert login.refused == []
    assert await site.count_messages("SESSIONS") == before + 1
    log = site.services.log
    last = await log.read_last_event(TENANTS[0], "s", leader=True)
    assert last is not None
    assert (last.sequence, await log.has_stray_messages(TENANTS[0], "s")) == (1, True)
    (added,) = await append_texts(log, TENANTS[0], "s", "two", after=last.head)
    assert added.sequence == 2


async def test_role_waits_for_the_job_that_makes_the_streams(tmp_path: Path) -> None:
    config = NatsConfig(data_dir=tmp_path, role_passwords=ROLE_PASSWORDS)
    async with await NatsServer.start(config) as server:
        url = server.role_urls["worker"]
        inbox = build_service_inbox(url)
        async with open_connection(url, inbox_prefix=inbox, patience=0.2) as connection:
            with pytest.raises(Unavailable, match="turnlog provision"):
                await provision_streams(connection, StreamOptions(), patience=0.0)
            await provision_as_job(server)
            await provision_streams(connection, StreamOptions())


async def test_streams_of_an_earlier_release_are_changed_by_the_job_alone(tmp_path: Path) -> None:
    config = NatsConfig(data_dir=tmp_path, role_passwords=ROLE_PASSWORDS)
    async with await NatsServer.start(config) as server:
        async with open_connection(server.url) as connection:
            earlier = build_durable_streams(StreamOptions())[0] | {"deny_purge": False}
            await connection.send_request(
                "$JS.API.STREAM.CREATE.SESSIONS", json.dumps(earlier).encode()
            )
        url = server.role_urls["gateway"]
        inbox = build_service_inbox(url)
        async with open_connection(url, inbox_prefix=inbox, patience=0.2) as connection:
            with pytest.raises(
                Unavailable,
                match=r"of an earlier release, .*: run `turnlog provision`",
            ):
                await provision_streams(connection, StreamOptions(), patience=0.0)
            await provision_as_job(server)
            await provision_streams(connection, StreamOptions())


async def test_page_of_permissions_of_nats_is_fresh() -> None:
    generator = runpy.run_path(str(ROOT / "docs/generate/nats_permissions.py"))
    written: str = generator["TARGET"].read_text()
    assert generator["format_page"]() == written, "it is stale: run `make docs`"
