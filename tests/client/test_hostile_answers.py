"""Answers of a server that is none of ours: bounded, refused as errors of their own classes."""

from __future__ import annotations

import asyncio
from typing import Final

import httpx
import pytest

from tests.support.servers.hostile_http_server import (
    HOSTILE_ANSWERS,
    HOSTILE_STREAMS,
    run_hostile_server,
)
from turnlog.client import (
    AnswerTooLarge,
    AsyncTurnlogClient,
    ClientOperation,
    RequestRedirected,
    TurnlogClient,
    UnusableAnswer,
)
from turnlog.client.answer_bounds import BodyCollector

CLASSES: Final = {
    "endless-body": AnswerTooLarge,
    "endless-line": AnswerTooLarge,
    "endless-event": AnswerTooLarge,
    "redirect": RequestRedirected,
}
"""The class of an error, where it says more than that the answer cannot be used."""


@pytest.mark.parametrize("name", HOSTILE_ANSWERS)
async def test_hostile_answer_is_an_error_of_its_own_class(name: str) -> None:
    async with run_hostile_server() as hostile, AsyncTurnlogClient(hostile.url) as turnlog:
        with pytest.raises(UnusableAnswer) as refused:
            await turnlog.use_session(name).fetch_state()
        assert type(refused.value) is CLASSES.get(name, UnusableAnswer)
        assert hostile.paths == [f"/v1/sessions/{name}"]


@pytest.mark.parametrize("name", HOSTILE_STREAMS)
async def test_hostile_stream_is_an_error_of_its_own_class(name: str) -> None:
    async with run_hostile_server() as hostile, AsyncTurnlogClient(hostile.url) as turnlog:
        with pytest.raises(UnusableAnswer) as refused:
            async for _ in turnlog.use_session(name).watch_turn(1):
                pass
        assert type(refused.value) is CLASSES.get(name, UnusableAnswer)
        assert len(hostile.paths) == 1


@pytest.mark.parametrize("name", HOSTILE_ANSWERS)
async def test_blocking_client_refuses_hostile_answers_alike(name: str) -> None:
    async with run_hostile_server() as hostile:

        def fetch() -> None:
            with TurnlogClient(hostile.url) as turnlog:
                turnlog.use_session(name).fetch_state()

        with pytest.raises(CLASSES.get(name, UnusableAnswer)):
            await asyncio.to_thread(fetch)
        assert hostile.paths == [f"/v1/sessions/{name}"]


def test_answer_is_read_up_to_the_limit_of_its_operation() -> None:
    with httpx.Client(base_url="http://localhost") as http:
        request = ClientOperation("GET", "/v1/checkpoint", object, most_bytes=10).build_request(
            http
        )
    collector = BodyCollector(httpx.Response(200, request=request))
    collector.add_piece(b"0123456789")
    with pytest.raises(AnswerTooLarge, match="more than 10 bytes"):
        collector.add_piece(b"0")
