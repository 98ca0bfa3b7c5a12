"""Sessions of the shipped blueprints, played by a scripted model, for the forecast's back-test.

Each session has a temper of its own: how long its texts, replies and tool results are, how many
rounds and steps its turns take, and whether they grow longer. Everything follows from the seed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from pydantic import JsonValue
from ruamel.yaml import YAML

from benchmarks.support.random_prose import RandomProse
from tests.agent_programs.agent_harness import FakeToolServer, build_plan_script, build_tool_script
from tests.support.sessions.puppet_model import PuppetModel, ScriptStep, build_finish
from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness
from turnlog.contract.session_requests import OpenSessionRequest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.library.segment_inputs import ImportSegments, SegmentInput
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import SubmitTurn
from turnlog.services.audit.session_record import SessionRecord, SessionRecordLoader
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS, BlueprintFolders
from turnlog.services.segments.segment_service import SegmentService
from turnlog.services.use_cases.sessions.session_opening import OpeningCommandBuilder
from turnlog.services.worker.model.model_types import ModelDelta, ModelRequest

MODEL: Final = "puppet/one"

TOOL: Final = "harbour_look"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedKind:
    """A blueprint as its sessions are played."""

    name: str
    """As the table shows it."""
    blueprint: str
    turns: int
    """Turns of a session."""
    text: int = 300
    """Characters of a typical text."""
    reply: int = 900
    result: int = 0
    """Characters of a typical tool result; 0 for no tools."""
    window: int | None = None
    """Tokens of every budget, where they are not those of the blueprint."""
    profile: str | None = None
    attributes: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


PLAYED_KINDS: Final = (
    PlayedKind(name="assistant", blueprint="assistant", turns=60),
    PlayedKind(name="agent", blueprint="agent", turns=40, result=1_600),
    PlayedKind(
        name="game-master",
        blueprint="game-master",
        turns=40,
        attributes={
            "entry_point": "ep.lighthouse",
            "world": "world.shoals",
            "ruleset": "ruleset.plain",
        },
    ),
    PlayedKind(
        name="uderia, plans",
        blueprint="uderia",
        turns=30,
        text=200,
        reply=500,
        result=1_600,
        profile="tool_enabled",
    ),
    PlayedKind(name="uderia, chat", blueprint="uderia", turns=40, reply=500, profile="llm_only"),
    PlayedKind(name="trickster", blueprint="trickster", turns=4, attributes={"task": "lucky-draw"}),
    PlayedKind(
        name="trickster in 2,800 tokens",
        blueprint="trickster",
        turns=4,
        text=200,
        reply=400,
        window=2_800,
        attributes={"task": "lucky-draw"},
    ),
    PlayedKind(name="araquem", blueprint="araquem", turns=30),
    PlayedKind(name="araquem in 1,800 tokens", blueprint="araquem", turns=30, window=1_800),
)


@dataclass(kw_only=True)
class SessionTemper:
    """How the turns of one session are."""

    kind: PlayedKind
    random: Random
    factor: float = field(init=False)
    growth: float = field(init=False)
    """By what share each turn is longer than the one before."""

    def __post_init__(self) -> None:
        self.factor = self.random.lognormvariate(0, 0.45)
        self.growth = self.random.choice((0.0, 0.0, 0.0, 0.03))

    def draw_length(self, typical: int, turn: int) -> int:
        """Return the characters of a text of a turn."""
        noise = self.random.lognormvariate(0, 0.5)
        return max(8, round(typical * self.factor * noise * (1 + self.growth) ** turn))


@dataclass
class StagedModel(PuppetModel):
    """Plays the scripts of a turn, and a summary wherever one is asked for."""

    summary: str = ""
    summary_request: str = ""
    """The message that asks for one."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `Model.stream`."""
        if self.summary_request and request.messages[-1].get("content") == self.summary_request:
            self.scripts.insert(0, [self.summary])
        async for each in super().stream(request):
            yield each
        self.requests.clear()


@dataclass(kw_only=True)
class PlayedSessions:
    """Plays sessions of one kind in memory."""

    kind: PlayedKind
    prose: RandomProse
    house: SessionHarness = field(init=False)
    model: StagedModel = field(init=False)
    servers: FakeToolServer = field(init=False)
    blueprint: Blueprint = field(init=False)

    def __post_init__(self) -> None:
        folders = BlueprintFolders()
        summary = (SHIPPED_BLUEPRINTS / "uderia/summary.md").read_text().strip()
        end = replace(build_finish(), usage=None)
        self.model = StagedModel(end=end, summary_request=summary)
        self.servers = FakeToolServer()
        self.house = SessionHarness(library=folders, model=self.model, servers=self.servers)
        self.blueprint = self._narrow_window(folders.load_blueprint(self.kind.blueprint))

    def _narrow_window(self, blueprint: Blueprint) -> Blueprint:
        if self.kind.window is None:
            return blueprint
        tokens = {"tokens": self.kind.window}
        budgets = {name: each.model_copy(update=tokens) for name, each in blueprint.budget.items()}
        return blueprint.model_copy(update={"budget": budgets})

    async def play_session(self, session: str, seed: int) -> SessionRecord:
        """Play one session and return its record."""
        temper = SessionTemper(kind=self.kind, random=Random(seed))  # noqa: S311 - the same each time
        material = await self._open_session(session)
        worker = self.house.build_worker()
        for turn in range(1, self.kind.turns + 1):
            command = self._script_turn(temper, turn, material)
            try:
                await self.house.sessions.handle(TENANT, session, command, TESTER)
            except Refused:  # The last phase takes no turn.
                break
            while opened := await self._find_opened_turn(session):
                await self.house.run_turn(opened, worker)
        return await SessionRecordLoader(self.house.sessions).load_record(TENANT, session)

    async def _find_opened_turn(self, session: str) -> RecordedEvent | None:
        """Return the event of the turn that is open: the last phase opens one of its own."""
        opened = (await self.house.load_state(session)).open
        if opened is None:
            return None
        events = self.house.list_events(session)
        submitted = (each for each in events if isinstance(each.event, TurnSubmitted))
        return next(each for each in submitted if each.envelope.id == opened.submission.event)

    async def _open_session(self, session: str) -> SessionMaterial:
        commands = OpeningCommandBuilder(self.house.library, MODEL)
        form = OpenSessionRequest(
            blueprint=self.kind.blueprint,
            attributes=dict(self.kind.attributes),
            profile=self.kind.profile,
        )
        opening = await commands.guard_opening(TENANT, form)
        command = await commands.build_command(self.house.blueprints, TENANT, opening)
        if self.kind.window is not None:
            ref = await self.house.blueprints.store_blueprint(TENANT, self.blueprint)
            command = replace(command, blueprint=ref)
        done = await self.house.sessions.handle(TENANT, session, command, TESTER)
        return await self.house.blueprints.load_material(done.state)

    def _script_turn(
        self, temper: SessionTemper, turn: int, material: SessionMaterial
    ) -> SubmitTurn:
        """Prepare the answers of a turn, and return the command that submits it."""
        kind, model, draw = self.kind, self.model, temper.draw_length
        model.summary = self._write(draw(700, turn))
        model.scripts = [*self._script_work(temper, turn), [self._write(draw(kind.reply, turn))]]
        text = self._write(draw(kind.text, turn))
        if kind.blueprint == "araquem":
            text = f"What is the price of LOGT11? {text}"
        return SubmitTurn(
            text=text,
            policies=material.blueprint.policies,
            phases=material.phases,
            inputs=self._write_inputs(temper, turn),
            remembered=material.has_memory,
        )

    def _script_work(self, temper: SessionTemper, turn: int) -> list[list[ScriptStep]]:
        """Return the answers before the reply, and queue the results of their tools."""
        if not self.kind.result:
            return []
        steps = temper.random.choice((1, 1, 2, 3))
        sizes = [temper.draw_length(self.kind.result, turn) for _ in range(steps)]
        self.servers.results = [self._write(each) for each in sizes]
        calls = [
            build_tool_script((TOOL, json.dumps({"what": f"{turn}.{step}"})), named=f"t{step}-{{}}")
            for step in range(steps)
        ]
        if self.kind.blueprint == "agent":
            return calls
        goals = (f"Look into {self._write(40)}" for _ in range(steps))
        return [build_plan_script(*((goal, [TOOL]) for goal in goals)), *calls]

    def _write_inputs(self, temper: SessionTemper, turn: int) -> dict[str, JsonValue]:
        if self.kind.blueprint != "game-master":
            return {}
        known: list[JsonValue] = [{"npc": "npc.mara", "tier": temper.random.randrange(3)}]
        state = temper.draw_length(600, turn) + round(turn * temper.factor * 500)
        return {
            "game_state": self._write(state),
            "player": self._write(temper.draw_length(150, 0)),
            "npcs": known,
        }

    def _write(self, characters: int) -> str:
        return self.prose.generate_text(characters)


async def import_shipped_segments(house: SessionHarness) -> None:
    """Import the segments that are shipped with the game master."""
    rows = YAML(typ="safe").load(SHIPPED_BLUEPRINTS / "game-master/segments/lighthouse.yaml")
    segments = SegmentService(house.build_library_parts("/test/library"))
    imported = ImportSegments(tuple(SegmentInput(**row) for row in rows))
    await segments.handle(TENANT, imported, TESTER)
