"""Model calls as a worker makes them, for the tests in this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass

import pytest

from turnlog.services.worker.model.answers.reasoning_joiner import (
    MAX_RECORD_BYTES,
    ReasoningJoiner,
)
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    LanguageModel,
    MediaDelta,
    ModelDelta,
    ModelFailure,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
)

QUESTION = "What did the heron say to the ferryman?"


@dataclass(frozen=True, slots=True)
class CollectedAnswer:
    deltas: tuple[str, ...]
    finished: FinishedAnswer
    reasoning: str = ""
    """What the model reasoned, as it is recorded."""
    media: tuple[MediaDelta, ...] = ()

    @property
    def text(self) -> str:
        return "".join(self.deltas)


def build_request(
    model: str,
    *texts: str,
    tools: tuple[Mapping[str, object], ...] = (),
    parameters: Mapping[str, object] | None = None,
) -> ModelRequest:
    messages = tuple({"role": "user", "content": text} for text in texts or (QUESTION,))
    return ModelRequest(model=model, messages=messages, tools=tools, parameters=parameters or {})


async def collect_answer(model: LanguageModel, request: ModelRequest) -> CollectedAnswer:
    deltas: list[str] = []
    media: list[MediaDelta] = []
    reasoning = ReasoningJoiner()
    async with aclosing(model.stream(request)) as stream:
        async for item in stream:
            match item:
                case TextDelta(text):
                    deltas.append(text)
                case MediaDelta():
                    media.append(item)
                case ReasoningDelta(fields):
                    reasoning.add_piece(fields)
                case FinishedAnswer():
                    record = reasoning.encode_record(MAX_RECORD_BYTES)
                    return CollectedAnswer(tuple(deltas), item, record, tuple(media))
    raise AssertionError("it ended without an end")


async def expect_failure(model: LanguageModel, request: ModelRequest) -> ModelFailure:
    with pytest.raises(ModelFailure) as caught:
        await collect_answer(model, request)
    return caught.value


async def read_first_text(stream: AsyncIterator[ModelDelta]) -> str:
    item = await anext(stream)
    assert isinstance(item, TextDelta)
    return item.text
