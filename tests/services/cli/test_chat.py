from __future__ import annotations

import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.support.processes.blocking_turnlog_up import (
    BlockingTurnlogUp,
    run_blocking_turnlog_up,
)
from tests.support.processes.forked_program import get_forked_program
from tests.support.processes.separate_roles import BLUEPRINT_FOLDER
from tests.support.processes.terminal_user import HANGS, TerminalUser, run_at_terminal

SCRIPT = """
replies:
  - match: colleague
    system: "Your task now: coordinate"
    pace: 0
    text: ""
    tools: [{name: tool_enabled, arguments: {query: Which hour is it?}}]
  - match: colleague
    system: "Your task now: coordinate"
    result: "not now"
    pace: 0
    text: Nobody let them look.
  - match: colleague
    system: "Your task now: coordinate"
    result: .
    pace: 0
    text: They looked it up.
  - match: which hour
    system: "Your task now: plan"
    pace: 0
    text: '{"steps": [{"goal": "Read the hour.", "tools": ["time_get_current_time"]}]}'
  - system: "Read the hour"
    pace: 0
    text: ""
    tools: [{name: time_get_current_time, arguments: {timezone: UTC}}]
  - match: which hour
    system: "not now"
    pace: 0
    text: Not looked up, since not now.
  - match: which hour
    pace: 0
    text: It is noon.
  - match: clock
    pace: 0
    text: ""
    tools: [{name: time_get_current_time, arguments: {timezone: UTC}}]
  - result: "too late"
    pace: 0
    text: I did not look.
  - match: quick
    pace: 0
    text: Done at once.
  - pace: 1.0
    text: One two three four five six seven eight nine ten eleven twelve thirteen fourteen.
"""

TOOLS = """
mcpServers:
  time:
    command: mcp-server-time
    args: [--local-timezone, UTC]
    approve: [get_current_time]
"""
"""The tools of the shipped `uderia`, of which one waits for a person."""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingTurnlogUp]:
    folder = tmp_path_factory.mktemp("chat")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "slow.yaml").write_text(SCRIPT)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TURNLOG_SCRIPTS", str(folder / "scripts"))
        environment.setenv("TURNLOG_BLUEPRINTS", str(BLUEPRINT_FOLDER))
        (folder / "tools.yaml").write_text(TOOLS)
        options = ("--model", "scripted/slow", "--tools", str(folder / "tools.yaml"))
        with run_blocking_turnlog_up(folder / "data", *options) as up:
            yield up


@contextmanager
def start_chat(up: BlockingTurnlogUp, *options: str) -> Generator[TerminalUser]:
    with run_at_terminal("chat", "--data-dir", str(up.data_dir), *options) as person:
        yield person


def test_chat_submits_each_line_as_a_turn_and_shows_its_reply(up: BlockingTurnlogUp) -> None:
    with start_chat(up) as person:
        person.wait_for_text("you ▌")
        person.send_line("a quick one\n")
        person.wait_for_text("reply ▌ Done at once.")
        person.wait_for_text("you ▌")


def test_ctrl_c_cancels_the_turn_and_keeps_the_chat_open(up: BlockingTurnlogUp) -> None:
    with start_chat(up) as person:
        person.wait_for_text("you ▌")
        person.send_line("take your time\n")
        person.wait_for_text("One ")
        person.process.send_signal(signal.SIGINT)
        person.wait_for_text("cancelled")
        person.wait_for_text("you ▌")
        person.send_line("a quick one\n")
        person.wait_for_text("Done at once.")


@pytest.mark.slow("commands run against a service of their own")
def test_chat_requests_tool_approval_and_ignores_earlier_input(
    up: BlockingTurnlogUp,
) -> None:
    with start_chat(up, "--blueprint", "guarded") as user:
        user.wait_for_text("you ▌")
        user.send_line("Look at the clock\ny\n")
        user.wait_for_text("time_get_current_time")
        user.wait_for_text("timezone: UTC")
        user.wait_for_text("(l)eave it: ")
        user.send_line("perhaps\n")
        user.wait_for_text("(l)eave it: ")
        user.send_line("n\n")
        user.wait_for_text("may be empty): ")
        user.send_line("too late\n")
        user.wait_for_text("I did not look.")
        user.wait_for_text("you ▌")
        user.send_line("The clock again\n")
        user.wait_for_text("(l)eave it: ")
        user.send_line("l\n")
        user.wait_for_text("decide with `turnlog approve")
        user.repeat_until_seen("cancelled", lambda: user.process.send_signal(signal.SIGINT))


def open_genie(up: BlockingTurnlogUp) -> str:
    """Open a session of the shipped coordinator."""
    body = {"blueprint": "uderia", "profile": "genie"}
    opened = httpx.post(f"{up.http}/v1/sessions", json=body, timeout=HANGS).raise_for_status()
    return str(opened.json()["session"])


@contextmanager
def ask_a_colleague(up: BlockingTurnlogUp) -> Generator[tuple[TerminalUser, str]]:
    """Chat with a coordinator up to the question about its child's tool; yield its session too."""
    session = open_genie(up)
    with start_chat(up, session) as user:
        user.wait_for_text("you ▌")
        user.send_line("Ask a colleague\n")
        user.wait_for_text("approve ▌ time_get_current_time")
        user.wait_for_text("timezone: UTC")
        user.wait_for_text("(l)eave it: ")
        yield user, session


def find_child(up: BlockingTurnlogUp, session: str) -> str:
    """Return the only child session of a coordinator's session."""
    state = httpx.get(f"{up.http}/v1/sessions/{session}/turns/1/why", timeout=HANGS)
    (child,) = {each["session"] for each in state.raise_for_status().json()["children"]}
    return str(child)


@pytest.mark.slow("commands run against a service of their own")
def test_chat_requests_approval_for_a_tool_of_a_child_session(
    up: BlockingTurnlogUp,
) -> None:
    with ask_a_colleague(up) as (user, _):
        user.send_line("y\n")
        user.wait_for_text("reply ▌ They looked it up.")
        user.wait_for_text("you ▌")
        user.send_line("Ask a colleague again\n")
        user.wait_for_text("(l)eave it: ")
        user.send_line("n\n")
        user.wait_for_text("may be empty): ")
        user.send_line("not now\n")
        user.wait_for_text("reply ▌ Nobody let them look.")
        user.wait_for_text("you ▌")


def test_approval_left_open_in_chat_can_be_decided_by_the_printed_command(
    up: BlockingTurnlogUp,
) -> None:
    with ask_a_colleague(up) as (user, session):
        user.send_line("l\n")
        user.wait_for_text("decide with `turnlog ")
        command = user.read_until("`").split()
        assert command == ["approve", find_child(up, session), "1", "1"]
        target = ("--data-dir", str(up.data_dir))
        subprocess.run([get_forked_program(), *command, *target], capture_output=True, check=True)
        user.wait_for_text("reply ▌ They looked it up.")
        user.wait_for_text("you ▌")


def test_ctrl_c_twice_at_an_approval_prompt_cancels_the_turn_and_its_child_turn(
    up: BlockingTurnlogUp,
) -> None:
    with ask_a_colleague(up) as (user, session):
        user.repeat_until_seen("\n", lambda: user.process.send_signal(signal.SIGINT))
        user.process.send_signal(signal.SIGINT)
        user.wait_for_text("cancelled")
    stream = f"{up.http}/v1/sessions/{find_child(up, session)}/turns/1/stream"
    assert "event: cancelled" in httpx.get(stream, timeout=HANGS).raise_for_status().text


def test_ctrl_d_ends_the_chat_with_exit_code_zero(up: BlockingTurnlogUp) -> None:
    with start_chat(up) as person:
        person.wait_for_text("you ▌")
        person.send_line("\x04")
        assert person.process.wait(HANGS) == 0


def test_ctrl_c_at_the_prompt_shows_how_to_exit(up: BlockingTurnlogUp) -> None:
    with start_chat(up) as person:
        person.wait_for_text("you ▌")
        person.repeat_until_seen(
            "(Ctrl-D leaves)", lambda: person.process.send_signal(signal.SIGINT)
        )
        person.wait_for_text("you ▌")


def test_chat_reads_piped_input_and_resumes_a_session(up: BlockingTurnlogUp) -> None:
    def say(text: str, *options: str) -> str:
        command = [str(get_forked_program()), "chat", "--data-dir", str(up.data_dir), *options]
        ran = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        return ran.stdout

    first = say("a quick one\n", "--title", "Quick ones", "--label", "chat", "--label", "quick")
    session = first.split()[1]
    state = httpx.get(f"{up.http}/v1/sessions/{session}").json()
    assert (state["title"], state["labels"]) == ("Quick ones", ["chat", "quick"])
    assert "Done at once." in first
    assert "Done at once." in say("another quick one\n", session)
    history = subprocess.run(
        [str(get_forked_program()), "history", session, "--data-dir", str(up.data_dir)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert history.stdout.count("Done at once.") == 2
