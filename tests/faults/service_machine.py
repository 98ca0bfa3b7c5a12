"""A state machine that uses and attacks a service in any order, beside a model of its sessions.

The model knows what was accepted: the text of each turn, redacted replies, excluded turns. Rules
are what clients do and what happens to processes. After each example everything is settled, the
checker runs over the log and the rows, and the history must equal the model's.

What the service answers differs from run to run, so nothing is drawn from it and no rule waits for
it: draws and preconditions see only what earlier draws led to, which is what was sent. Hypothesis
refuses a machine that draws otherwise, as a strategy that is not deterministic.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.faults.attacked_service import BackgroundService
from tests.faults.attacks import ATTACKS
from tests.faults.checks.checker import check_evidence
from tests.faults.checks.evidence_collection import collect_evidence
from tests.faults.clients.client_history import ClientHistory, CommandTry, HeardReply
from tests.faults.clients.command_sender import ClientCommand, CommandSender
from tests.simulation.checks.checkable_tries import filter_checkable

MACHINE_ATTACKS = (
    "gateway killed",
    "projector killed",
    "worker killed",
    "nats killed",
    "tokens forgotten",
    "worker stopped for twice ack_wait",
    "gateway told nothing any more",
    "worker not heard any more",
)

MAX_SESSIONS = 4


@dataclass
class ExpectedSession:
    """What must be true of a session."""

    turns: dict[str, int] = field(default_factory=dict[str, int])
    """The turns that were accepted, by the key of their command."""
    texts: dict[int, str] = field(default_factory=dict[int, str])
    withheld: set[int] = field(default_factory=set[int])
    left_out: set[int] = field(default_factory=set[int])


def build_machine(
    stage: BackgroundService, lived: list[ClientHistory]
) -> type[RuleBasedStateMachine]:
    """Build the machine for a running service.

    Each example adds its clients' history to `lived`.
    """

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.history = ClientHistory()
            lived.append(self.history)
            self.asking = CommandSender(stage.service, self.history)
            self.model: dict[str, ExpectedSession] = {}
            self.sent: list[ClientCommand] = []
            self.unanswered: list[ClientCommand] = []
            self.watching: list[Future[HeardReply]] = []

        @initialize()
        def begin(self) -> None:
            self._open("trickster")
            wish = self._create_submit(self._open("assistant"))
            turn = self._find_turn(wish)
            assert turn is not None
            stage.run_work(self.asking.watch_turn(wish.session, turn, slowly=False))

        @rule(teaching=st.booleans())
        @precondition(lambda self: len(self.model) < MAX_SESSIONS)
        def open(self, teaching: bool) -> None:  # noqa: FBT001 - hypothesis names it
            self._open("trickster" if teaching else "assistant")

        @rule(data=st.data())
        def submit(self, data: st.DataObject) -> None:
            self._once(self._create_submit(self._session(data)))

        @rule()
        def send_again_what_was_not_answered(self) -> None:
            for wish in self.unanswered[:1]:
                self._once(wish)

        @rule(data=st.data())
        def send_again(self, data: st.DataObject) -> None:
            self._once(data.draw(st.sampled_from(self.sent), "wish"))

        @rule(data=st.data(), what=st.sampled_from(("redact", "exclude", "restore", "cancel")))
        def mark(self, data: st.DataObject, what: str) -> None:
            submit = data.draw(st.sampled_from(self._list_submits()), "submit")
            session, turn = submit.session, self._find_turn(submit)
            if turn is None:
                return
            wish = self.asking.create_change(what, session, turn)
            tried = stage.run_work(self.asking.send_until_answered(wish))
            if tried.accepted and what == "redact":
                self.model[session].withheld.add(turn)
            elif tried.accepted and what in {"exclude", "restore"}:
                left_out = self.model[session].left_out
                (left_out.add if what == "exclude" else left_out.discard)(turn)

        @rule(data=st.data(), choice=st.sampled_from(("share", "read", "neither")))
        def choose(self, data: st.DataObject, choice: str) -> None:
            wish = self.asking.create_choice(self._session(data), choice)
            self.sent.append(wish)
            self._once(wish)

        @rule(data=st.data(), slowly=st.booleans())
        def watch(self, data: st.DataObject, slowly: bool) -> None:  # noqa: FBT001
            submit = data.draw(st.sampled_from(self._list_submits()), "submit")
            turn = self._find_turn(submit)
            if turn is None:
                return
            self.watching.append(
                stage.start_work(self.asking.watch_turn(submit.session, turn, slowly=slowly))
            )

        @rule(what=st.sampled_from(MACHINE_ATTACKS))
        def attack(self, what: str) -> None:
            stage.run_work(stage.service.start_missing())
            stage.run_work(self._inflict(what))

        async def _inflict(self, what: str) -> None:
            await ATTACKS[what](stage.service)

        @rule()
        def start_what_was_killed(self) -> None:
            stage.run_work(stage.service.start_missing())

        @invariant()
        def the_provider_is_there(self) -> None:
            assert stage.loop.is_running()

        def teardown(self) -> None:
            stage.run_work(stage.service.start_missing())
            for wish in tuple(self.unanswered):
                self._learn(wish, stage.run_work(self.asking.send_until_answered(wish)))
            for watched in self.watching:
                watched.result()
            if self.model:
                stage.run_work(self._judge())

        async def _judge(self) -> None:
            evidence = await collect_evidence(stage.service, self.history)
            events = [each for session in evidence.log.values() for each in session]
            tries = filter_checkable(self.history.tries, events)
            replies = [each for each in self.history.heard if each.end != "redact"]
            checkable = replace(self.history, tries=tries, heard=replies)
            evidence = replace(evidence, history=checkable)
            findings = check_evidence(evidence)
            assert not findings, findings
            for session, expected in self.model.items():
                await self._compare(session, expected)

        async def _compare(self, session: str, expected: ExpectedSession) -> None:
            history = await stage.service.service.get_json(f"/v1/sessions/{session}/history")
            turns: dict[int, dict[str, Any]] = {each["turn"]: each for each in history["turns"]}
            texts = {turn: each["text"] for turn, each in turns.items() if each["text"]}
            assert texts == expected.texts
            assert {t for t, each in turns.items() if each["redacted"]} >= expected.withheld
            assert {t for t, each in turns.items() if each["excluded"]} == expected.left_out

        def _open(self, blueprint: str) -> str:
            wish = self.asking.create_open(blueprint)
            stage.run_work(self.asking.send_until_answered(wish))
            self.model[wish.session] = ExpectedSession()
            return wish.session

        def _session(self, data: st.DataObject) -> str:
            return data.draw(st.sampled_from(tuple(self.model)), "session")

        def _create_submit(self, session: str) -> ClientCommand:
            wish = self.asking.create_submit(session)
            self.sent.append(wish)
            return wish

        def _list_submits(self) -> list[ClientCommand]:
            return [wish for wish in self.sent if wish.kind == "submit"]

        def _find_turn(self, submit: ClientCommand) -> int | None:
            """Return the turn of a submit, or None if refused; sends it until that is known."""
            turns = self.model[submit.session].turns
            if submit.key not in turns:
                self._learn(submit, stage.run_work(self.asking.send_until_answered(submit)))
            return turns.get(submit.key)

        def _once(self, wish: ClientCommand) -> None:
            self._learn(wish, stage.run_work(self.asking.send_once(wish)))

        def _learn(self, wish: ClientCommand, tried: CommandTry) -> None:
            if wish in self.unanswered:
                self.unanswered.remove(wish)
            if not (tried.accepted or tried.refused):
                self.unanswered.append(wish)
            elif tried.accepted and wish.text is not None:
                expected, turn = self.model[wish.session], int(tried.body["turn"])
                expected.turns[wish.key], expected.texts[turn] = turn, wish.text

    return Machine
