"""One dialogue that the fake servers of all providers hold, each in its own protocol.

The person asks with a picture, a document and a recording. The model thinks and looks, thinks and
looks and pays at once, thinks and answers. A later turn asks one thing more.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tests.support.servers.model_behaviours import ModelBehaviour, RawFrames, RawResponse
from turnlog.events.model.content_parts import MediaKind
from turnlog.services.platform.process_settings import ModelAdapter

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """A tool call of the model."""

    id: str
    tool: str
    arguments: Mapping[str, str]

    @property
    def written(self) -> str:
        """The arguments as JSON."""
        return json.dumps(self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedAnswer:
    """What the model thinks, and then says or calls."""

    thought: str
    signature: str
    """What the provider wants back beside the thought, where it signs."""
    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()


ANSWERS: Final = (
    ScriptedAnswer(
        thought="I should look at the bird.",
        signature="c2lnbmVkIG9uZQ==",
        calls=(ScriptedCall(id="callAAA01", tool="harbour_look", arguments={"what": "bird"}),),
    ),
    ScriptedAnswer(
        thought="Now at the reeds, and pay.",
        signature="c2lnbmVkIHR3bw==",
        calls=(
            ScriptedCall(id="callAAA02", tool="harbour_look", arguments={"what": "reeds"}),
            ScriptedCall(id="callAAA03", tool="harbour_pay", arguments={"what": "fare"}),
        ),
    ),
    ScriptedAnswer(thought="Enough.", signature="c2lnbmVkIDM=", text="It is a heron."),
)
"""The answers of the first turn, by the number of rounds of results that the model has."""

LATER_ANSWER: Final = ScriptedAnswer(thought="Easy.", signature="c2lnbmVkIDQ=", text="In reeds.")


class UnacceptableRequest(Exception):
    """A server refuses a request; the text says what it does not take."""


def require(condition: object, detail: str) -> None:
    """Refuse a request unless a condition holds."""
    if not condition:
        raise UnacceptableRequest(detail)


class ProviderFake(ABC):
    """A model server of one provider, which refuses what its published schema does not have."""

    name: ClassVar[str]
    model: ClassVar[str]
    """The model as a blueprint names it."""
    path: ClassVar[str]
    """The path of its requests, without a query."""
    adapters: ClassVar[tuple[ModelAdapter, ...]] = ("litellm",)
    reads: ClassVar[frozenset[MediaKind]]
    """What the model reads of the media of a turn."""
    thoughts_on_record: ClassVar[bool] = True
    """Whether its answers have what the model thought."""
    thoughts_signed: ClassVar[bool] = False
    """Whether it signs or encrypts what the model thought, and wants that back."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        """Why requests were refused."""

    @abstractmethod
    def list_variables(self, root: str) -> dict[str, str]:
        """Return the variables of the environment by which adapters find the server."""

    @abstractmethod
    def check_request(self, body: Body) -> None:
        """Raise `UnacceptableRequest` for what the server does not take."""

    @abstractmethod
    def count_rounds(self, body: Body) -> int | None:
        """Return how many rounds of results follow the question; None in a later turn."""

    @abstractmethod
    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        """Return an answer as the server streams it."""

    def choose(self, body: dict[str, object]) -> ModelBehaviour:
        """Answer a request, or refuse it in the provider's form."""
        try:
            self.check_request(body)
        except UnacceptableRequest as refusal:
            self.faults.append(str(refusal))
            return self.write_refusal(str(refusal))
        rounds = self.count_rounds(body)
        return self.write_answer(LATER_ANSWER if rounds is None else ANSWERS[rounds])

    def write_refusal(self, detail: str) -> ModelBehaviour:
        """Return a refusal, in the form of OpenAI's by default."""
        error = {"message": detail, "type": "invalid_request_error", "param": None, "code": None}
        return write_json_refusal({"error": error})


def write_json_refusal(body: Body) -> ModelBehaviour:
    raw = json.dumps(body).encode()
    headers = {"content-type": "application/json", "content-length": str(len(raw))}
    return RawResponse(400, headers, raw)


def write_events(*events: Body, named: bool = False, end: str = "") -> RawFrames:
    """Return a stream of server-sent events, each with its type as its name where they have one."""
    frames = [
        (f"event: {each['type']}\n" if named else "") + f"data: {json.dumps(each)}\n\n"
        for each in events
    ]
    return RawFrames(tuple(each.encode() for each in (*frames, *([end] if end else []))))
