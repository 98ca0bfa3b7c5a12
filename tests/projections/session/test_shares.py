"""Whom a session is shared with, as given, when and then."""

from __future__ import annotations

from dataclasses import replace

from turnlog.events.model.session_events import ShareChanged
from turnlog.projections.session.commands import CloseSession
from turnlog.projections.session.rules.client_rules import MAX_SHARES
from turnlog.projections.session.session_owner import ShareSession
from turnlog.projections.testing import given, open_session

OPENED = replace(open_session(), owner="ada")
SHARED = given(OPENED, ShareChanged(user="bo", access="read"))


def test_sharing_records_what_changes() -> None:
    SHARED.when(ShareSession("bo", "read")).then()
    SHARED.when(ShareSession("bo", "submit")).then(ShareChanged(user="bo", access="submit"))
    SHARED.when(ShareSession("bo", None)).then(ShareChanged(user="bo", access="none"))
    SHARED.when(ShareSession("cy", None)).then()


def test_closed_sessions_are_shared_too() -> None:
    closed = SHARED.apply_steps(CloseSession("done"))
    closed.when(ShareSession("cy", "read")).then(ShareChanged(user="cy", access="read"))


def test_state_has_the_shares_in_force() -> None:
    ended = given(
        OPENED,
        ShareChanged(user="bo", access="read"),
        ShareChanged(user="cy", access="submit"),
        ShareChanged(user="bo", access="none"),
    )
    assert ended.opened_state.shares == {"cy": "submit"}


def test_owner_and_one_user_too_many_are_refused() -> None:
    SHARED.when(ShareSession("ada", "read")).then_refused("invalid", "user")
    many = given(
        OPENED,
        *(ShareChanged(user=f"u{number}", access="read") for number in range(MAX_SHARES)),
    )
    many.when(ShareSession("u1", "submit")).then(ShareChanged(user="u1", access="submit"))
    many.when(ShareSession("bo", "read")).then_refused("invalid", "user")
