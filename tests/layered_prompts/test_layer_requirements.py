"""The tutor requirements T1 to T12 over HTTP; each test is named after its requirement."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.layered_prompts.tutor_service import (
    DRAW,
    FORBIDDEN,
    NOTE,
    REPLACEMENT,
    SHARE,
    SHARED,
    TutorService,
    answer_with_signal,
    answer_with_text,
    edit_file,
    join_tokens,
    list_event_names,
    list_tool_names,
    prepare_tutor_host,
    start_tutor_service,
)
from tests.support.servers.model_behaviours import AnswerBreak, ModelAnswer, ModelRefusal
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.content import compute_digest, encode_canonical
from turnlog.events.model.prompt_events import PromptsSnapshotted
from turnlog.events.model.session_events import PhaseEntered, SessionOpened
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import TurnCompleted, TurnSubmitted
from turnlog.projections.blueprint.schema.blueprint_model import compute_blueprint_digest
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders

pytestmark = pytest.mark.asyncio(loop_scope="module")

LANGUAGE = "Always respond in Lithuanian."

PATTERNS = "false urgency, borrowed authority, social proof"

CHECKLIST = (
    "asks who the source is, looks for a second source, reads the article before passing it on, "
    "asks why it has to be now"
)

PASS_CONDITIONS = (
    "names at least one technique or describes how it works, "
    "says what to check before sharing and why"
)

SCENE = (
    'In the class chat you have posted a headline, "From Monday on, every phone stays at the '
    'school gate!", and want the student to pass it on at once. The article below it says only '
    "that one school far away is thinking about lockers. Its source is a page without an author; "
    "a certain professor is said to be behind it, and nobody has ever heard of her."
)

TASK = f"""\
## What to do in this task
Persona mode: charming_friend
Current phase: talk
Patterns to embed: {PATTERNS}
Checklist: {CHECKLIST}
Pass conditions: {PASS_CONDITIONS}
Scene: {SCENE}"""

REVEAL = f"""\
## What to reveal now
The dialogue is over. Drop the adversarial stance and its rules, and speak openly.
Name each technique below, connect it to what the student actually said, and
explain what there is to learn from it. Quote the student: what they saw through, and
what they believed, which others would have believed too. If a technique never came
up, say what it would have looked like. End with one habit for next time, in a sentence
that is easy to remember.
Persona that you played: charming_friend
Current phase: debrief
Techniques that you used: {PATTERNS}
What the student could have done: {CHECKLIST}
What shows that the student has understood: {PASS_CONDITIONS}
Scene that you played: {SCENE}"""

REQUEST = "(The dialogue is over. Give me the debrief now.)"
"""The end of a debrief's prompt."""

LIMITS = """\
## Safety limits
Stay away from: self-harm, real political parties
Intensity at most: moderate"""

PATH = f"## What the student chose before\n{SHARED}"

DRAW_TASK = """\
## What to do in this task
Persona mode: generous_stranger
Current phase: talk
Patterns to embed: reciprocity, scarcity, foot in the door
Checklist: asks what the stranger gains, asks how a draw can be won that nobody entered, \
refuses the small favour
Pass conditions: says why the prize is bait, says how one small favour leads to the next"""

DRAW_LIMITS = """\
## Safety limits
Stay away from: self-harm, gambling addiction, family money
Intensity at most: low"""

BARE = """\
task: bare
safety: {content_boundaries: [weapons], intensity_ceiling: low}
phases:
  start: talk
  talk: {kind: freeform, ai_transitions: {on_success: end}}
  end: {kind: static}
"""


def build_share_prompt(
    tutor_service: TutorService, *, language: str = LANGUAGE, note: str | None = None
) -> str:
    """Return the whole system prompt of the dialogue about sharing."""
    names = ("persona", "behaviour", "safety")
    files = [tutor_service.read_prompt_file(f"default/{name}.md") for name in names]
    return "\n\n".join([*files, TASK, LIMITS, language, PATH, *([note] if note else [])])


async def test_tested_blueprint_cartridge_and_files_are_the_shipped_ones(
    tutor_service: TutorService,
) -> None:
    """The folder is a copy, so that a test may edit a file; the record has the shipped digests."""
    session = await tutor_service.open_dialogue()
    await tutor_service.submit_and_watch(session, "Labas")
    events = [each.event for each in await tutor_service.load_events(session)]
    (opened,) = [event for event in events if isinstance(event, SessionOpened)]
    (pinned,) = [event for event in events if isinstance(event, PromptsSnapshotted)]
    shipped = BlueprintFolders().load_blueprint("trickster")
    cartridge = BlueprintFolders().read_cartridge(shipped, {"task": SHARE})
    assert opened.blueprint.digest == compute_blueprint_digest(shipped)
    assert opened.cartridge == compute_digest(encode_canonical(cartridge))
    assert {file.path: file.digest for file in pinned.layers.values()} == {
        path: compute_digest(tutor_service.read_prompt_file(path))
        for path in ("default/persona.md", "default/behaviour.md", "default/safety.md")
    }


async def test_t1_layers_are_in_order_joined_by_a_blank_line_and_absent_ones_leave_no_trace(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    await tutor_service.submit_and_watch(session, "Labas")
    expected = build_share_prompt(tutor_service)
    assert await tutor_service.fetch_system_prompt(session, "1.1") == expected
    assert tutor_service.sent["messages"][0]["content"] == expected
    parts = (await tutor_service.fetch_prompt(session, "1.1"))["manifest"]["parts"]
    absent = {part["layer"]: part["rule"] for part in parts if part["treatment"] == "absent"}
    assert absent == {
        "provider": "nothing to say",
        "redaction_note": "when reply_redacted",
        "withdrawn_note": "when text_redacted",
    }


async def test_t2_prompt_file_is_that_of_the_task_or_the_default_and_provider_file_task_only(
    tutor_service: TutorService,
) -> None:
    with edit_file(tutor_service.trickster / "default/behaviour.md", None):
        session = await tutor_service.open_session(DRAW)
        await tutor_service.submit_and_watch(session, "Labas")
    system = await tutor_service.fetch_system_prompt(session, "1.1")
    own = tutor_service.read_prompt_file(f"tasks/{DRAW}/openai.md")
    persona, safety = (
        tutor_service.read_prompt_file(f"tasks/{DRAW}/persona.md"),
        tutor_service.read_prompt_file("default/safety.md"),
    )
    layers = [persona, safety, own, DRAW_TASK, DRAW_LIMITS, LANGUAGE]
    assert system == "\n\n".join(layers)
    sources = {
        part["layer"]: part["source"]["path"]
        for part in (await tutor_service.fetch_prompt(session, "1.1"))["manifest"]["parts"]
        if part["source"] and "path" in part["source"]
    }
    assert sources == {
        "persona": f"tasks/{DRAW}/persona.md",
        "safety": "default/safety.md",
        "provider": f"tasks/{DRAW}/openai.md",
    }


async def test_t3_task_is_under_its_heading_and_an_empty_field_leaves_no_line(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_session(tutor_service.write_task("bare", BARE))
    await tutor_service.submit_and_watch(session, "Labas")
    system = await tutor_service.fetch_system_prompt(session, "1.1")
    task = system.partition("\n\n## What to do in this task")[2].partition("\n\n")[0]
    assert task == "\nCurrent phase: talk"


@pytest.mark.parametrize("levels", ["[]", "[full_history]", "[learning_profile, what_not]"])
async def test_t13_shipped_blueprint_treats_every_context_level_as_session_only(
    tutor_service: TutorService, levels: str
) -> None:
    plain, asking = ("session_only", levels.strip("[]").replace(", ", "-") or "none")
    prompts: list[str] = []
    for name, requested in ((plain, "[session_only]"), (asking, levels)):
        ai_config = f"ai_config: {{context_requirements: {requested}}}\nsafety:"
        if not (tutor_service.trickster / "tasks" / name).exists():
            tutor_service.write_task(name, BARE.replace("safety:", ai_config))
        session = await tutor_service.open_session(name)
        await tutor_service.submit_and_watch(session, "Labas")
        prompts.append(await tutor_service.fetch_system_prompt(session, "1.1"))
    assert prompts[0] == prompts[1]
    assert prompts[0].endswith(LANGUAGE)


async def test_t4_cartridge_without_safety_limits_is_refused_at_opening_with_file_and_line(
    tutor_service: TutorService,
) -> None:
    unsafe = BARE.replace("intensity_ceiling: low", "intensity_ceiling: ''")
    refused = await tutor_service.request_session(
        tutor_service.write_task("half-safe", unsafe), session="never"
    )
    assert refused.status_code == 422
    (fault,) = refused.json()["faults"]
    assert fault["field"] == "safety.intensity_ceiling"
    assert fault["detail"].startswith("trickster/tasks/half-safe/cartridge.yaml:2: ")
    unlimited = BARE.replace("safety:", "safely:")
    refused = await tutor_service.request_session(
        tutor_service.write_task("unsafe", unlimited), session="never"
    )
    missing = [each["field"] for each in refused.json()["faults"]]
    assert missing == ["safety.content_boundaries", "safety.intensity_ceiling"]
    assert (await tutor_service.service.http.get("/v1/sessions/never")).status_code == 404


async def test_t4_safety_limits_are_in_every_prompt(tutor_service: TutorService) -> None:
    session = await tutor_service.open_session(tutor_service.write_task("limited", BARE))
    await tutor_service.submit_and_watch(session, "Labas")
    limits = "## Safety limits\nStay away from: weapons\nIntensity at most: low"
    assert limits in (await tutor_service.fetch_system_prompt(session, "1.1")).split("\n\n")


@pytest.mark.parametrize(
    ("attributes", "language"),
    [
        ({}, "Lithuanian"),
        ({"locale": "lt-LT"}, "Lithuanian"),
        ({"locale": "fr"}, "French"),
        ({"locale": "uk"}, "Ukrainian"),
        ({"locale": "tlh"}, "tlh"),
    ],
)
async def test_t5_language_is_always_named(
    tutor_service: TutorService, attributes: dict[str, str], language: str
) -> None:
    session = await tutor_service.open_dialogue(**attributes)
    await tutor_service.submit_and_watch(session, "Labas")
    expected = build_share_prompt(tutor_service, language=f"Always respond in {language}.")
    assert await tutor_service.fetch_system_prompt(session, "1.1") == expected


@pytest.mark.parametrize(
    ("choice", "label"),
    [
        ("share", "Student selected 'Share without reading'"),
        ("read", "Student selected 'Read it first'"),
    ],
)
async def test_t6_choice_of_the_student_follows_the_language(
    tutor_service: TutorService, choice: str, label: str
) -> None:
    session = await tutor_service.open_dialogue(choice=choice)
    await tutor_service.submit_and_watch(session, "Labas")
    expected = build_share_prompt(tutor_service).removesuffix(SHARED) + label
    assert await tutor_service.fetch_system_prompt(session, "1.1") == expected


async def test_t6_task_without_choices_ends_with_the_language(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_session(DRAW)
    await tutor_service.submit_and_watch(session, "Labas")
    names = (f"tasks/{DRAW}/persona", "default/behaviour", "default/safety", f"tasks/{DRAW}/openai")
    files = [tutor_service.read_prompt_file(f"{name}.md") for name in names]
    expected = "\n\n".join([*files, DRAW_TASK, DRAW_LIMITS, LANGUAGE])
    assert await tutor_service.fetch_system_prompt(session, "1.1") == expected


SILENT = """\
task: silent
safety: {content_boundaries: [weapons], intensity_ceiling: low}
phases:
  start: first
  first:
    kind: static
    choices:
      left: {next: second}
      right: {next: second, context_label: Went right}
  second:
    kind: static
    choices: {on: {next: talk, context_label: Went on}, off: {next: talk}}
  talk: {kind: freeform, ai_transitions: {on_success: end}}
  end: {kind: static}
"""


@pytest.mark.parametrize(
    ("choices", "path"),
    [
        (("left", "off"), None),
        (("left", "on"), ["Went on"]),
        (("right", "on"), ["Went right", "Went on"]),
    ],
)
async def test_t6_choices_with_a_label_are_listed_in_order_and_others_leave_no_line(
    tutor_service: TutorService, choices: tuple[str, ...], path: list[str] | None
) -> None:
    if not (tutor_service.trickster / "tasks/silent").exists():
        tutor_service.write_task("silent", SILENT)
    session = await tutor_service.open_session("silent")
    for choice in choices:
        assert (
            await tutor_service.post_command(session, "choices", choice=choice)
        ).status_code == 200
    await tutor_service.submit_and_watch(session, "Labas")
    last = (await tutor_service.fetch_system_prompt(session, "1.1")).split("\n\n")[-1]
    expected = "\n".join(["## What the student chose before", *(path or ())])
    assert last == (expected if path else LANGUAGE)


async def test_t7_redaction_note_is_in_the_next_call_and_its_retry_and_in_no_later_one(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    exchange_count = len(tutor_service.provider.exchanges)
    await tutor_service.submit_and_watch(
        session, "Who are you?", answer_with_text("Hm. ", FORBIDDEN, "Soon.")
    )
    tutor_service.provider.queue_behaviours(ModelRefusal(status=500))
    await tutor_service.submit_and_watch(session, "Pardon?", answer_with_text("A friend."))
    await tutor_service.submit_and_watch(session, "Really?", answer_with_text("Of course."))
    sent: list[Any] = [
        exchange.body["messages"] for exchange in tutor_service.provider.exchanges[exchange_count:]
    ]
    plain, noted = (build_share_prompt(tutor_service, note=note) for note in (None, NOTE))
    assert [messages[0]["content"] for messages in sent] == [plain, noted, noted, plain]
    assert sent[1] == sent[2]
    assert sent[3][1:3] == [
        {"role": "user", "content": "Who are you?"},
        {"role": "assistant", "content": REPLACEMENT},
    ]
    assert "trick@example.org" not in str(sent)
    (first, *_) = await tutor_service.fetch_history(session)
    assert (first["text"], first["reply"], first["redacted"]) == ("Who are you?", REPLACEMENT, True)


async def test_t8_debrief_starts_itself_reveals_the_same_data_and_sees_the_whole_history(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    for n in range(2):
        await tutor_service.submit_and_watch(
            session, f"Why {n}?", answer_with_text(f"Because {n}.")
        )
    lesson = answer_with_text("Here is ", "how it went.")
    received = await tutor_service.submit_and_watch(
        session, "I see it now.", answer_with_signal("understood", "Well done."), lesson
    )
    assert received[-1].json["next_phase"] == "debrief"
    debrief_events = await tutor_service.watch_turn(session, 4)
    assert join_tokens(debrief_events) == "Here is how it went."
    assert debrief_events[-1].json == {"finish": "stop", "debrief_complete": True}
    files = [
        tutor_service.read_prompt_file(f"default/{name}.md")
        for name in ("persona", "behaviour", "safety")
    ]
    prompt = await tutor_service.fetch_prompt(session, "4.1")
    assert prompt["messages"][0]["content"] == "\n\n".join([*files, REVEAL, LIMITS, LANGUAGE, PATH])
    talk = ["Why 0?", "Because 0.", "Why 1?", "Because 1.", "I see it now.", "Well done."]
    assert [each["content"] for each in prompt["messages"][1:]] == [*talk, REQUEST]
    assert prompt["messages"][-1]["role"] == "user"
    assert prompt["messages"] == tutor_service.sent["messages"]
    assert (prompt["tools"], list_tool_names(tutor_service.sent), prompt["manifest"]["budget"]) == (
        [],
        [],
        None,
    )
    (submitted,) = [
        each.event
        for each in await tutor_service.load_events(session)
        if isinstance(each.event, TurnSubmitted) and each.event.turn == 4
    ]
    assert submitted.text is None
    assert (await tutor_service.fetch_session(session))["phase"] == "end"


async def test_t8_failed_debrief_is_repeated_when_requested_without_a_text(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    for n in range(2):
        await tutor_service.submit_and_watch(
            session, f"Why {n}?", answer_with_text(f"Because {n}.")
        )
    tutor_service.provider.queue_behaviours(
        answer_with_signal("understood", "Well done."), ModelRefusal(status=401)
    )
    await tutor_service.watch_turn(
        session, await tutor_service.service.submit_turn(session, "I see it now.")
    )
    assert list_event_names(await tutor_service.watch_turn(session, 4)) == ["failed"]
    response = await tutor_service.post_command(session, "turns", text="Hello?")
    assert (response.status_code, response.json()["code"]) == (409, "phase-takes-no-turns")
    assert "leave out the text" in response.json()["fix"]
    tutor_service.provider.queue_behaviours(answer_with_text("Here is how it went."))
    assert (await tutor_service.post_command(session, "turns")).json()["turn"] == 5
    assert join_tokens(await tutor_service.watch_turn(session, 5)) == "Here is how it went."
    assert (await tutor_service.fetch_session(session))["phase"] == "end"


@pytest.mark.slow("whole sessions run on a service of their own")
async def test_t9_prompt_files_are_pinned_at_the_first_call_also_across_restarts(
    provider: OpenAIServer, tmp_path: Path
) -> None:
    async with prepare_tutor_host(tmp_path, provider) as host:
        async with start_tutor_service(host, provider) as tutor_service:
            file, late = (
                tutor_service.trickster / f"default/{name}.md" for name in ("persona", "late")
            )
            session = await tutor_service.open_dialogue()
            file.write_text("You are the one between opening and first call.\n")
            await tutor_service.submit_and_watch(session, "One")
            file.write_text("You are too late.\n")
            late.write_text("Nobody looks here.\n")
            (tutor_service.trickster / f"tasks/{SHARE}/persona.md").write_text(
                "You are later still.\n"
            )
            (tutor_service.trickster / f"tasks/{SHARE}/openai.md").write_text("Nor here.\n")
            await tutor_service.submit_and_watch(session, "Two")
            first = await tutor_service.fetch_system_prompt(session, "1.1")
            assert first.startswith("You are the one between opening and first call.\n\n")
            assert await tutor_service.fetch_system_prompt(session, "2.1") == first
        async with start_tutor_service(host, provider) as tutor_service:
            await tutor_service.submit_and_watch(session, "Three")
            assert await tutor_service.fetch_system_prompt(session, "3.1") == first
            assert tutor_service.sent["messages"][0]["content"] == first
            new = await tutor_service.open_dialogue()
            await tutor_service.submit_and_watch(new, "One")
            system = await tutor_service.fetch_system_prompt(new, "1.1")
            assert system.startswith("You are later still.\n\n")
            assert "\n\nNor here.\n\n" in system


async def test_t9_file_missing_at_the_first_call_is_ignored_later(
    tutor_service: TutorService,
) -> None:
    persona, behaviour, safety = (
        tutor_service.trickster / f"default/{name}.md"
        for name in ("persona", "behaviour", "safety")
    )
    with edit_file(persona, None), edit_file(behaviour, None), edit_file(safety, None):
        session = await tutor_service.open_dialogue()
        await tutor_service.submit_and_watch(session, "One")
    await tutor_service.submit_and_watch(session, "Two")
    assert (await tutor_service.fetch_system_prompt(session, "1.1")).startswith(
        "## What to do in this task"
    )
    assert await tutor_service.fetch_system_prompt(
        session, "2.1"
    ) == await tutor_service.fetch_system_prompt(session, "1.1")


async def test_t10_over_budget_oldest_pairs_are_dropped_first_and_the_system_prompt_stays(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    for letter in "abcd":
        await tutor_service.submit_and_watch(
            session, letter * 100_000, answer_with_text(f"{letter}?")
        )
    prompt = await tutor_service.fetch_prompt(session, "4.1")
    assert [(each["role"], each["content"][:1]) for each in prompt["messages"]] == [
        ("system", "Y"), ("user", "c"), ("assistant", "c"), ("user", "d"),
    ]  # fmt: skip
    assert prompt["messages"][0]["content"] == build_share_prompt(tutor_service)
    manifest = prompt["manifest"]
    assert (manifest["budget"], manifest["counter"]["name"]) == (100_000, "chars/3")
    (cut,) = [part for part in manifest["parts"] if part["treatment"] == "dropped"]
    assert (cut["source"]["first"], cut["source"]["last"]) == (1, 2)
    messages = (await tutor_service.fetch_prompt(session, "2.1"))["messages"]
    assert [each["content"][:1] for each in messages[1:]] == ["a", "a", "b"]
    assert prompt["messages"][0] == messages[0]


async def list_tool_outcomes(tutor_service: TutorService, session: str) -> list[tuple[str, str]]:
    """Return each requested tool with its outcome."""
    events = [each.event for each in await tutor_service.load_events(session)]
    called = [event for event in events if isinstance(event, ToolCalled)]
    returned = [event for event in events if isinstance(event, ToolReturned)]
    pairs = zip(called, returned, strict=True)
    assert all((c.turn, c.id) == (r.turn, r.id) for c, r in pairs)
    return [(c.tool, r.outcome) for c, r in zip(called, returned, strict=True)]


async def list_phases(
    tutor_service: TutorService, session: str
) -> list[tuple[str, str | None, bool]]:
    """Return the phases of a session with their signals and whether they were forced."""
    events = [each.event for each in await tutor_service.load_events(session)]
    entered = [event for event in events if isinstance(event, PhaseEntered)]
    return [(event.phase, event.signal, event.forced) for event in entered]


async def test_t11_tool_is_offered_from_min_exchanges_on_with_the_signals_of_the_phase(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    offered: list[list[str]] = []
    for n in range(3):
        await tutor_service.submit_and_watch(session, f"Why {n}?")
        offered.append(list_tool_names(tutor_service.sent))
    assert offered == [[], [], ["transition_phase"]]
    (tool,) = (await tutor_service.fetch_prompt(session, "3.1"))["tools"]
    signal = tool["function"]["parameters"]["properties"]["signal"]
    assert signal["enum"] == ["understood", "partial", "max_reached"]
    assert signal["description"].splitlines() == [
        "How the dialogue has gone.",
        "understood: The student asks for the source or a second one before sharing, and says why.",
        "partial: The student suspects something, but does not say what or why.",
        "max_reached: The dialogue leads nowhere any more, and the student has not understood.",
    ]
    assert tutor_service.sent["tools"] == [tool]


async def test_t11_early_or_unknown_signal_is_refused_and_recorded_without_effect(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    early = await tutor_service.submit_and_watch(
        session, "One", answer_with_signal("understood", "Too early.")
    )
    invented = ModelAnswer(
        tokens=("Too clever.",),
        tool_calls=(
            ("transition_phase", '{"signal": "victory"}'),
            ("transition_phase", "not JSON"),
            ("transition_phase", '{"signal":' + "[" * 10_000),
            ("delete_everything", "{}"),
        ),
        finish="tool_calls",
    )
    await tutor_service.submit_and_watch(session, "Two")
    clever = await tutor_service.submit_and_watch(session, "Three", invented)
    assert [each[-1].json["next_phase"] for each in (early, clever)] == [None, None]
    assert await list_tool_outcomes(tutor_service, session) == [
        *[("transition_phase", "refused")] * 4,
        ("delete_everything", "refused"),
    ]
    session_view = await tutor_service.fetch_session(session)
    assert (session_view["phase"], session_view["exchanges"]) == ("talk", 3)
    assert [turn["reply"] for turn in await tutor_service.fetch_history(session)][::2] == [
        "Too early.", "Too clever.",
    ]  # fmt: skip


async def test_t11_signals_follow_the_cartridge_and_max_exchanges_forces_the_transition(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_session(DRAW)
    await tutor_service.submit_and_watch(session, "One")
    partly = await tutor_service.submit_and_watch(
        session, "Two", answer_with_signal("partial", "So so.")
    )
    assert partly[-1].json == {
        "phase_transition": "partial", "next_phase": "again", "exchanges_count": 2,
        "finish": "tool_calls",
    }  # fmt: skip
    # `again` has no way on for `partial`, so it is not offered there
    refused = await tutor_service.submit_and_watch(
        session, "Three", answer_with_signal("partial", "So so still.")
    )
    assert refused[-1].json["next_phase"] is None
    forced = await tutor_service.submit_and_watch(
        session, "Four", answer_with_text("Time is up."), answer_with_text("Now look.")
    )
    assert forced[-1].json == {
        "phase_transition": "max_reached", "next_phase": "debrief", "exchanges_count": 2,
        "finish": "stop",
    }  # fmt: skip
    assert (await tutor_service.watch_turn(session, 5))[-1].json == {
        "finish": "stop",
        "debrief_complete": True,
    }
    assert await list_tool_outcomes(tutor_service, session) == [
        ("transition_phase", "accepted"), ("transition_phase", "refused"),
    ]  # fmt: skip
    assert await list_phases(tutor_service, session) == [
        ("talk", None, False),
        ("again", "partial", False),
        ("debrief", "max_reached", True),
        ("end", "next", False),
    ]


async def test_t11_answer_with_a_signal_and_no_text_ends_the_phase(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_session(DRAW)
    await tutor_service.submit_and_watch(session, "One")
    wordless = ModelAnswer(
        tokens=(), tool_calls=(("transition_phase", '{"signal": "understood"}'),)
    )
    received = await tutor_service.submit_and_watch(
        session, "Two", wordless, answer_with_text("Now look.")
    )
    assert received[-1].json["next_phase"] == "debrief"
    assert (await tutor_service.watch_turn(session, 3))[-1].json == {
        "finish": "stop",
        "debrief_complete": True,
    }


async def test_t11_phase_accepts_only_turns_choices_and_signals_that_it_offers(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_session()
    taken = [
        await tutor_service.post_command(session, "turns", text="Labas"),
        await tutor_service.post_command(session, "choices", choice="burn"),
        await tutor_service.post_command(session, "phase", signal="understood"),
        await tutor_service.post_command(session, "choices", choice="read"),
        await tutor_service.post_command(session, "choices", choice="read"),
        await tutor_service.post_command(session, "phase", signal="understood"),
    ]
    assert [(each.status_code, each.json().get("code")) for each in taken] == [
        (409, "phase-takes-no-turns"),
        (409, "choice-not-offered"),
        (409, "signal-not-offered"),
        (200, None),
        (409, "choice-not-offered"),
        (409, "signal-not-offered"),
    ]
    assert taken[0].json()["fix"] == "choose one of: read, share"
    assert await list_phases(tutor_service, session) == [
        ("choose", None, False),
        ("talk", "choice", False),
    ]


async def test_t11_closed_session_refuses_choices_and_signals(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_session()
    assert (await tutor_service.post_command(session, "close")).status_code == 200
    taken = [
        await tutor_service.post_command(session, "choices", choice="read"),
        await tutor_service.post_command(session, "phase", signal="understood"),
    ]
    assert [each.json()["code"] for each in taken] == ["session-closed", "session-closed"]


async def test_t11_teacher_can_send_a_signal_that_the_phase_offers(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    for n in range(2):
        await tutor_service.submit_and_watch(session, f"Why {n}?")
    gate = asyncio.Event()
    tutor_service.provider.queue_behaviours(
        ModelAnswer(tokens=("Never ", "heard."), gates={1: gate})
    )
    turn = await tutor_service.service.submit_turn(session, "And?")
    busy = await tutor_service.post_command(session, "phase", signal="understood")
    assert (busy.status_code, busy.json()["code"]) == (409, "turn-open")
    gate.set()
    await tutor_service.watch_turn(session, turn)
    tutor_service.provider.queue_behaviours(answer_with_text("Now look."))
    assert (await tutor_service.post_command(session, "phase", signal="partial")).status_code == 200
    assert join_tokens(await tutor_service.watch_turn(session, 4)) == "Now look."
    assert (await list_phases(tutor_service, session))[-2:] == [
        ("debrief", "partial", False), ("end", "next", False),
    ]  # fmt: skip
    over = await tutor_service.post_command(session, "turns", text="More?")
    assert (over.status_code, over.json()["code"]) == (409, "phase-takes-no-turns")


async def test_t12_dialogue_streams_its_tokens_and_ends_with_the_phase_state(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    received = await tutor_service.submit_and_watch(
        session, "Labas", answer_with_text("Hello. ", "Have you ", "heard?")
    )
    assert [(each.name, each.json) for each in received] == [
        ("token", {"text": "Hello. "}),
        ("token", {"text": "Have you heard?"}),
        (
            "done",
            {
                "phase_transition": None,
                "next_phase": None,
                "exchanges_count": 1,
                "finish": "stop",
            },
        ),
    ]


async def test_t12_redacted_reply_ends_the_stream_with_reason_and_replacement(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    received = await tutor_service.submit_and_watch(
        session, "Labas", answer_with_text("Hello. ", FORBIDDEN, "Soon.")
    )
    assert list_event_names(received) == ["token", "redact"]
    assert received[-1].json == {"reason": "it matches a pattern", "replacement": REPLACEMENT}
    topic = await tutor_service.submit_and_watch(
        session, "And?", answer_with_text("Think of Self-Harm, ", "my friend.")
    )
    assert list_event_names(topic) == ["redact"]
    assert topic[-1].json == {"reason": "it names self-harm", "replacement": REPLACEMENT}


async def test_t12_failed_or_cancelled_turn_ends_the_stream_with_its_event(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    tutor_service.provider.queue_behaviours(ModelRefusal(status=401))
    failed = await tutor_service.watch_turn(
        session, await tutor_service.service.submit_turn(session, "One")
    )
    assert list_event_names(failed) == ["failed"]
    assert failed[-1].json == {"code": "unauthorised", "retryable": False, "partial": ""}
    tutor_service.provider.queue_behaviours(
        ModelAnswer(tokens=("Never. ", "Heard."), gates={1: asyncio.Event()})
    )
    exchange_count = len(tutor_service.provider.exchanges)
    turn = await tutor_service.service.submit_turn(session, "Two")
    await tutor_service.provider.wait_for_exchange(exchange_count + 1)
    assert (
        await tutor_service.service.http.post(f"/v1/sessions/{session}/cancel")
    ).status_code == 200
    assert (await tutor_service.watch_turn(session, turn))[-1].name == "cancelled"


async def test_t12_abandoned_attempt_is_announced_and_every_call_records_its_usage(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    broken = ModelAnswer(tokens=("Half. ", "An ans"), breaks=AnswerBreak(2, "disconnect"))
    usage = {"prompt_tokens": 300, "completion_tokens": 20}
    tutor_service.provider.queue_behaviours(broken, ModelAnswer(tokens=("Whole.",), usage=usage))
    turn = await tutor_service.service.submit_turn(session, "Labas")
    received = await tutor_service.watch_turn(session, turn)
    reset = list_event_names(received).index("attempt-reset")
    assert received[reset].json == {"attempt": 2}
    assert join_tokens(received[reset:]) == "Whole."
    (call,) = await tutor_service.service.list_calls(session)
    taken = [(each["outcome"], each["known"]) for each in call["attempts"]]
    assert taken == [("failed", "estimated"), ("answered", "reported")]
    assert (call["attempts"][1]["input_tokens"], call["attempts"][1]["output_tokens"]) == (300, 20)
    done = await tutor_service.service.list_events_of_type(session, TurnCompleted, turn)
    assert len(done) == 1
