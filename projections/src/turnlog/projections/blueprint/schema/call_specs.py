"""Call specs: the messages of a call, their format, the form of the answer, and profiles.

A message format says how the layers of one message are joined. With delimiters a reader can tell
where each layer begins and ends, so a text line that looks like a delimiter is indented by one
space; every other text is included byte for byte. A profile names the calls of a program, which is
a sequence of calls: `chat` makes one; `tools` plans first, executes the plan step by step with
tools, and then replies; `knowledge` retrieves, and then replies; `loop` repeats one call, with the
results of the tools that the model has called, until it answers. A `coordinator` is a loop whose
tools are other profiles, each of which answers in a session of its own.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, JsonValue, Tag, model_validator
from pydantic_core import PydanticCustomError

from turnlog.events.event_model import build_discriminator
from turnlog.projections.blueprint.schema.history_specs import CondenseMode
from turnlog.projections.blueprint.schema.lookups.retrieval_specs import RetrievalSettings
from turnlog.projections.blueprint.schema.strict_model import Name, StrictModel
from turnlog.projections.blueprint.schema.timeout_specs import TimeoutSpec

LAYER_SEPARATOR = "\n\n"
"""The default text between two layers."""


class MessageFormat(StrictModel):
    """How the layers of a message are joined and delimited."""

    open: str = Field(default="", pattern=r"^[^\n]*$")
    """The line above a layer; `{LAYER}` or `{layer}` is its name."""
    close: str = Field(default="", pattern=r"^[^\n]*$")
    """The line below a layer."""
    between: str = LAYER_SEPARATOR
    """The text between two layers."""
    segments_between: str = "\n"
    """The text between two segments of a layer, and after a heading."""


DEFAULT_MESSAGE_FORMAT = MessageFormat()
"""Layers joined by a blank line, without delimiters."""

_SCHEMA_FILE_PATTERN: Final = re.compile(r"[\w-]+\.json")


def _check_output_form(written: object) -> object:
    named = isinstance(written, str) and (
        written == "plan" or _SCHEMA_FILE_PATTERN.fullmatch(written)
    )
    if named or isinstance(written, dict):
        return written  # pyright: ignore[reportUnknownVariableType] - what it holds is checked next
    what = "be `plan`, a file beside the blueprint such as `plan.json`, or a JSON Schema"
    raise PydanticCustomError("output_form", what)


RepairPolicy = Literal["tell", "repeat", "off"] | bool
"""What becomes of an invalid answer."""


class OutputSpec(StrictModel):
    """The JSON form that an answer must have.

    A schema file beside the blueprint is read with the blueprint and becomes part of what sessions
    pin, so that editing the file affects new sessions only.
    """

    schema_: Annotated[
        str | dict[str, JsonValue], BeforeValidator(_check_output_form), Field(alias="schema")
    ]
    """`plan`, a file beside the blueprint such as `plan.json`, or an inline JSON Schema."""
    repair: RepairPolicy = "tell"
    """What becomes of an invalid answer. `tell` repairs common faults, and if none of the repairs
    helps, asks again with the answer and what is wrong with it; `repeat` repairs, and asks again
    with the same prompt; `off` repairs nothing. True is `tell`, and false is `off`.
    """

    @property
    def repairs_faults(self) -> bool:
        """Whether common faults are repaired."""
        return self.repair not in {"off", False}

    @property
    def tells_faults(self) -> bool:
        """Whether the next attempt is told what was wrong."""
        return self.repair in {"tell", True}


ALLOWED_MODEL_PARAMETERS: Final = frozenset(
    {
        "audio",
        "frequency_penalty",
        "max_completion_tokens",
        "max_tokens",
        "modalities",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "temperature",
        "tool_choice",
        "top_p",
    }
)
"""Model parameters that a blueprint may set; all others belong to the operator.

litellm takes keys, addresses and headers as parameters too. Only these names are accepted, so no
secret can get into a pinned blueprint.
"""


_DEFAULT_ROUNDS: Final = 8

QUERY_ARGUMENT: Final = "query"
"""The argument with which a coordinator's model calls a child: the text of the child's turn."""


class ProfileSpec(StrictModel):
    """A named way to run a session."""

    default: bool = False
    """True if sessions start with this profile."""
    summary: str = ""
    """What it is for; the model of a coordinator chooses its children by it."""
    program: Literal["chat", "tools", "loop", "knowledge", "coordinator"] = "chat"
    """The program that runs a turn; a `chat` whose call offers `all` tools is a `loop`. `knowledge`
    is a `chat` without tools that cannot do without a retrieval.
    """
    call: Name
    """The call that produces the reply; with `by_phase` the phase of the session decides."""
    plan: Name | None = None
    """The call that plans a turn, for the program `tools`."""
    act: Name | None = None
    """The call that executes one step of a plan, for the program `tools`."""
    max_rounds: Annotated[int, Field(ge=1, le=64)] | None = None
    """How often the model may call tools in a turn, for the programs `loop` and `coordinator`; 8 if
    not given.
    """
    children: tuple[Name, ...] = ()
    """The profiles that the program `coordinator` asks."""
    parent_inputs: tuple[Name, ...] = ()
    """The inputs of a coordinator's turn that it is given, by reference, when it is asked as a
    child.
    """
    parent_parts: bool = False
    """Whether it is given the pictures, recordings and files of a coordinator's turn, when it is
    asked as a child.
    """
    tools: Literal["none"] | None = None
    """`none` if no call may offer or describe tools of a server."""
    condense: tuple[CondenseMode, ...] | None = None
    """What its calls condense in their history views, in this order, in place of what each view
    says; empty for nothing.
    """
    retrieval: dict[Name, RetrievalSettings] = {}
    """Its own settings of retrievals, except those that are locked."""
    model: str = "default"
    """A model name of litellm; `default` is the model the service was started with."""
    deadline_seconds: Annotated[float, Field(gt=0)] | None = None
    """How long a turn may be open, in seconds; without it the policies decide."""
    timeouts: TimeoutSpec = TimeoutSpec()
    """How long its calls may wait for their model; what it does not give, the policies decide."""

    @model_validator(mode="after")
    def _check_program_calls(self) -> ProfileSpec:
        named = (self.plan is not None, self.act is not None)
        if named != (self.program == "tools",) * 2:
            message = "the program `tools`, and no other, has the calls `plan` and `act`"
            raise ValueError(message)
        if self.tools == "none" and self.program not in {"chat", "knowledge"}:
            message = f"the program `{self.program}` takes tools, so it cannot say `tools: none`"
            raise ValueError(message)
        if self.max_rounds is not None and not self.has_rounds:
            message = "the programs `loop` and `coordinator`, and no other, have `max_rounds`"
            raise ValueError(message)
        if bool(self.children) != (self.program == "coordinator"):
            message = "the program `coordinator`, and no other, has `children`"
            raise ValueError(message)
        return self

    @property
    def has_rounds(self) -> bool:
        """Whether a turn repeats one call until it answers without calling tools."""
        return self.program in {"loop", "coordinator"}

    @property
    def may_use_tools(self) -> bool:
        """Whether a call may offer or describe tools of a server."""
        return self.tools is None and self.program not in {"knowledge", "coordinator"}

    @property
    def round_limit(self) -> int:
        """How often the model may call tools in a turn."""
        return self.max_rounds or _DEFAULT_ROUNDS

    @property
    def calls(self) -> dict[str, Name]:
        """The calls it names, by their role."""
        named = {"call": self.call, "plan": self.plan, "act": self.act}
        return {word: call for word, call in named.items() if call is not None}


class SystemMessageSlot(StrictModel):
    """One system message, composed of layers."""

    system: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The layers, in order."""
    form: Name | None = None
    """The message format; layers are joined by a blank line if it is not given."""

    @property
    def layers(self) -> tuple[Name, ...]:
        """The layers, in order."""
        return self.system


class UserMessageSlot(StrictModel):
    """One user message, composed of layers; `input` is the text of the turn."""

    user: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The layers, in order."""
    form: Name | None = None
    """The message format; layers are joined by a blank line if it is not given."""

    @property
    def layers(self) -> tuple[Name, ...]:
        """The layers, in order."""
        return self.user


class HistoryMessageSlot(StrictModel):
    """The messages of a history view; a call lists each view at most once."""

    history: Name
    """The name of the view."""


MessageSlot = Annotated[
    Annotated[SystemMessageSlot, Tag("(system)")]
    | Annotated[UserMessageSlot, Tag("(user)")]
    | Annotated[HistoryMessageSlot, Tag("(history)")],
    Discriminator(
        build_discriminator("system", "user", "history"),
        custom_error_type="message_kind",
        custom_error_message="a message is `system`, `user` or `history`",
    ),
]


class CallSpec(StrictModel):
    """A kind of model call: its messages in order, and their budget."""

    messages: Annotated[tuple[MessageSlot, ...], Field(min_length=1)]
    """The messages sent to the model, in order."""
    budget: Name | None = None
    """The name of the budget; without one nothing is trimmed."""
    tools: tuple[Literal["transition_phase", "all", "for_step", "children"], ...] = ()
    """Tools offered to the model: the one that ends a phase, all tools of the servers, those of
    the current step, or the children of a coordinator.
    """
    input: Literal["none"] | None = None
    """`none` for a call that a phase makes without user input."""
    input_from: Name | None = None
    """The input of the turn that the layer `input` shows in place of the turn's text, where it is
    given: the text in other words, such as a summary of it.
    """
    cache: Literal["auto", "off"] | Annotated[tuple[Name, ...], Field(max_length=4)] = "auto"
    """Up to where a provider is asked to cache the prompt, where it must be asked: `auto` for the
    end of the system messages, of a growing history and of the tool rounds, or the layers at the
    ends of whose messages.
    """
    parameters: dict[str, JsonValue] = {}
    """Model parameters: `audio`, `frequency_penalty`, `max_completion_tokens`, `max_tokens`,
    `modalities`, `parallel_tool_calls`, `presence_penalty`, `reasoning_effort`,
    `response_format`, `seed`, `stop`, `temperature`, `tool_choice` and `top_p`.
    """
    fallback: Literal["resolved.answer"] | None = None
    """The answer if the model is off or fails; without it the turn fails."""
    output: OutputSpec | None = None
    """The required form of the answer, which the model is asked for; without it any text is
    accepted.
    """

    @property
    def layers(self) -> tuple[Name, ...]:
        """The layers of all its messages, in order."""
        made = (slot for slot in self.messages if not isinstance(slot, HistoryMessageSlot))
        return tuple(name for slot in made for name in slot.layers)
