"""Orders of messages that some providers refuse are warnings."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source

TEXT = """\
blueprint: quiz
version: 1
attributes:
  tone: {type: text}
layers:
  persona: {text: "Ask me.", keep: always}
  note: {text: "Be kind.", when: first_turn}
  tone: {attribute: tone}
calls:
  reply:
    messages: [MESSAGES]
history: {recent: {}, work: {}}
profiles:
  chat: {default: true, call: reply}
"""


def list_warnings(messages: str) -> list[str]:
    source = load_blueprint_source(TEXT.replace("MESSAGES", messages))
    found = source.list_warnings()
    assert {fault.severity for fault in found} <= {"warning"}
    assert {fault.line for fault in found} <= {11}
    return [fault.path.removeprefix("calls.reply.messages.") for fault in found]


@pytest.mark.parametrize(
    ("messages", "warnings"),
    [
        ("{system: [persona]}, {system: [note]}, {history: recent}, {user: [input]}", []),
        ("{system: [persona]}, {user: [input]}", []),
        ("{user: [persona]}", []),
        ("{history: recent}, {user: [tone, input]}", []),
        ("{history: recent}, {user: [persona]}, {user: [tone]}", []),
        ("{history: recent}, {system: [persona]}, {user: [input]}", ["1.system"]),
        ("{user: [input]}, {system: [persona]}", ["1.system"]),
        ("{system: [persona]}, {history: recent}", ["1.history"]),
        ("{system: [persona]}, {user: [input]}, {history: recent}", ["2.history"]),
        ("{system: [persona]}, {history: recent}, {user: [tone]}", ["1.history"]),
        ("{system: [persona]}, {history: recent}, {user: [note]}", ["1.history"]),
        ("{history: work}, {history: recent}, {system: [persona]}", ["2.system", "1.history"]),
    ],
)
def test_message_order_that_some_providers_reject_is_a_warning(
    messages: str, warnings: list[str]
) -> None:
    assert list_warnings(messages) == warnings


def test_request_without_input_that_ends_with_history_is_a_warning() -> None:
    messages = "{system: [persona]}, {history: recent}, {user: [input]}"
    text = TEXT.replace("[MESSAGES]", f"[{messages}]\n    input: none")
    assert [fault.path for fault in load_blueprint_source(text).list_warnings()] == [
        "calls.reply.messages.1.history"
    ]
