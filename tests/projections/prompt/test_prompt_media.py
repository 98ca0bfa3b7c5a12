"""Pictures, recordings and files in prompts: where they stand, and how a prompt is read back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.support.sessions.prompt_assembly import (
    REPLY_CALL,
    assemble_next_prompt,
    build_blobs,
    fetch_prompt_texts,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.content import compute_digest, encode_canonical
from turnlog.events.errors import Corrupt
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.content_parts import MediaKind, MediaPart
from turnlog.events.model.manifest import PromptPart
from turnlog.projections.audit.record.prompt_readback import read_prompt
from turnlog.projections.audit.verify.prompt_reproduction import reproduce_by_reference
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.prompt.budget.budget_error import BudgetExceeded
from turnlog.projections.prompt.request_dialect import PLAIN_DIALECT
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import ExcludeTurn, FixContext, SubmitTurn
from turnlog.projections.session_views.session_history import build_history
from turnlog.projections.testing import (
    SessionScenario,
    claim_turn,
    complete_turn,
    get_attempt,
    submit_turn,
)
from turnlog.services.bundle.verifier import EventChain, verify_prompt
from turnlog.services.cli.views.prompt_view import split_prompt

WRITTEN = """\
blueprint: guide
version: 1
layers:
  persona: {file: persona.md}
forms: {framed: {open: "<{layer}>", close: "</{layer}>"}}
calls:
  reply:
    messages: [{system: [persona]}, {history: recent}, {user: [input], form: framed}]
history: {recent: {condense: repeats}}
profiles: {chat: {default: true, call: reply}}
"""

BLUEPRINT = parse_blueprint(WRITTEN)

UNFRAMED = parse_blueprint(WRITTEN.replace(", form: framed", ""))

FILES = {"persona": "You are a guide."}

PICTURE, DOCUMENT, SOUND = b"picture bytes", b"document bytes", b"sound bytes"

BYTES = {compute_digest(each): each for each in (PICTURE, DOCUMENT, SOUND)}

_KINDS: dict[bytes, tuple[MediaKind, str]] = {
    PICTURE: ("image", "image/png"),
    DOCUMENT: ("file", "application/pdf"),
    SOUND: ("audio", "audio/wav"),
}


def build_part(data: bytes, at: int = 0, name: str | None = None) -> MediaPart:
    kind, media_type = _KINDS[data]
    return MediaPart(
        kind=kind,
        digest=compute_digest(data),
        size=len(data),
        media_type=media_type,
        name=name,
        at=at,
    )


def submit_parts(text: str, *parts: MediaPart) -> SubmitTurn:
    return SubmitTurn(text=text, policies=Policies(), parts=parts)


def run_turn(
    session: SessionScenario, asked: SubmitTurn, blueprint: Blueprint
) -> tuple[SessionScenario, AssembledPrompt]:
    """Submit a turn, record its prompt with the digest of its body, and answer it."""
    claimed = session.apply_steps(asked, claim_turn())
    found = assemble_next_prompt(claimed, blueprint, FILES)
    fixed = FixContext(
        attempt=get_attempt(claimed.opened_state),
        model="openai/test",
        parameters={},
        manifest=found.manifest,
        body_digest=compute_digest(found.request.build_chat_body(BYTES)),
    )
    return claimed.apply_steps(fixed, complete_turn(f"Seen: {asked.text}")), found


def run_turns(
    *asked: SubmitTurn, blueprint: Blueprint = BLUEPRINT
) -> tuple[SessionScenario, AssembledPrompt]:
    """Run turns, and return the last prompt."""
    session = open_with_blueprint(blueprint, FILES)
    found: AssembledPrompt | None = None
    for each in asked:
        session, found = run_turn(session, each, blueprint)
    assert found is not None
    return session, found


def read_chain(session: SessionScenario) -> EventChain:
    """Return the session as the verifier of a bundle reads it."""
    chain = EventChain()
    chain.read_lines((each.stored for each in session.events), "acme", "s1")
    return chain


def list_media(found: AssembledPrompt) -> list[PromptPart]:
    return [part for part in found.manifest.parts if part.at is not None]


def test_picture_stands_at_its_place_in_the_text_of_its_message() -> None:
    _, found = run_turns(submit_parts("Who is this, and why?", build_part(PICTURE, 12, "ann.png")))
    message = found.request.messages[-1]
    assert message.encode_plain() == {
        "role": "user",
        "content": [
            {"type": "text", "text": "<input>\nWho is this,"},
            {
                "type": "image",
                "digest": compute_digest(PICTURE),
                "media_type": "image/png",
                "name": "ann.png",
            },
            {"type": "text", "text": " and why?\n</input>"},
        ],
    }
    assert message.canonical_bytes == encode_canonical(message.encode_plain()).encode()
    (part,) = list_media(found)
    assert (part.layer, part.item, part.message, part.at) == ("media", "ann.png", 1, 20)
    assert (part.digest, part.treatment, part.rule) == (
        compute_digest(PICTURE),
        "kept",
        "estimate",
    )


def test_message_without_media_has_the_canonical_form_of_a_text() -> None:
    _, found = run_turns(submit_turn("Hi"))
    assert found.request.messages[-1].canonical_bytes == (
        b'{"content":"<input>\\nHi\\n</input>","role":"user"}'
    )


def test_body_that_is_sent_has_the_bytes_in_the_parts_of_the_protocol() -> None:
    asked = submit_parts(
        "All three:",
        build_part(PICTURE, 10),
        build_part(DOCUMENT, 10, "report.pdf"),
        build_part(SOUND, 10),
    )
    _, found = run_turns(asked)
    body = json.loads(found.request.build_chat_body(BYTES))
    _, picture, document, sound, _ = body["messages"][-1]["content"]
    assert picture == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,cGljdHVyZSBieXRlcw=="},
    }
    assert document["file"] == {
        "filename": "report.pdf",
        "file_data": "data:application/pdf;base64,ZG9jdW1lbnQgYnl0ZXM=",
    }
    assert sound["input_audio"] == {"data": "c291bmQgYnl0ZXM=", "format": "wav"}


def test_body_cannot_be_written_without_the_bytes() -> None:
    _, found = run_turns(submit_parts("Who?", build_part(PICTURE)))
    with pytest.raises(Corrupt, match="bytes are not at hand"):
        found.request.build_chat_body({})


@pytest.mark.parametrize(
    "asked",
    [
        (submit_parts("Who?", build_part(PICTURE)),),
        (submit_parts("", build_part(PICTURE), build_part(SOUND)),),
        (submit_turn("Hi"), submit_parts("Two", build_part(PICTURE), build_part(DOCUMENT, 3))),
        (submit_parts("", build_part(SOUND)), submit_turn("And?"), submit_turn("So?")),
        (submit_parts("A", build_part(PICTURE)), submit_parts("B", build_part(PICTURE, 1))),
    ],
)
def test_prompt_with_media_reads_back_in_both_ways(asked: tuple[SubmitTurn, ...]) -> None:
    session, found = run_turns(*asked)
    assert read_prompt(found.manifest, session.events, build_blobs(FILES)) == found.request.messages
    chain = read_chain(session)
    blobs = {compute_digest(text): text.encode() for text in FILES.values()}
    plain = [each.encode_plain() for each in found.request.messages]
    rebuilt = [verify_prompt(call, chain, blobs | BYTES) for _, call in chain.iterate_calls()]
    assert rebuilt[-1] == plain


def test_question_keeps_its_picture_while_the_turn_is_in_the_window() -> None:
    session, found = run_turns(
        submit_parts("Who is this?", build_part(PICTURE, 12)), submit_turn("And her age?")
    )
    assert [len(each.media) for each in found.request.messages] == [0, 1, 0, 0]
    (part,) = list_media(found)
    assert (part.message, part.role, part.at) == (1, "user", 12)
    excluded = session.apply_steps(ExcludeTurn(1), submit_turn("Again?"))
    again = assemble_next_prompt(excluded, BLUEPRINT, FILES)
    assert list_media(again) == []


def test_turn_of_a_picture_alone_is_a_question_and_its_answer() -> None:
    _, found = run_turns(submit_parts("", build_part(PICTURE)), submit_turn("And now?"))
    system, question, answer, asked = found.request.messages
    assert (system.role, question.role, answer.role, asked.role) == (
        *("system", "user", "assistant", "user"),
    )
    assert question.encode_plain()["content"] == [
        {"type": "image", "digest": compute_digest(PICTURE), "media_type": "image/png"}
    ]


def test_picture_of_another_digest_does_not_read_back() -> None:
    session, found = run_turns(submit_parts("Who?", build_part(PICTURE)))
    parts = tuple(
        part if part.at is None else part.model_copy(update={"digest": compute_digest(SOUND)})
        for part in found.manifest.parts
    )
    altered = found.manifest.model_copy(update={"parts": parts})
    with pytest.raises(Corrupt, match="does not match"):
        read_prompt(altered, session.events, build_blobs(FILES))


def test_questions_with_pictures_are_not_condensed_as_repeated() -> None:
    asked = [submit_parts("What is shown in picture 1?", build_part(PICTURE))] * 4
    _, found = run_turns(*asked, submit_turn("Thanks"))
    assert [len(each.media) for each in found.request.messages if each.role == "user"] == [
        *([1] * 4),
        0,
    ]


def test_cache_prefix_reaches_over_the_pictures_of_earlier_questions() -> None:
    asked = submit_parts("Who is this?", build_part(PICTURE, 12))
    _, found = run_turns(asked, submit_turn("And her age?"), blueprint=UNFRAMED)
    prefix = found.manifest.prefix
    assert prefix is not None
    assert (prefix.call, prefix.messages, prefix.ended_by) == ("1.1", 2, None)
    _, found = run_turns(asked, asked, submit_turn("Thanks"), blueprint=UNFRAMED)
    prefix = found.manifest.prefix
    assert prefix is not None
    assert (prefix.call, prefix.messages, prefix.ended_by) == ("2.1", 4, None)


def write_budget(tokens: int, *steps: str, component: int | None = None) -> Blueprint:
    """Return the blueprint with a budget of these ladder steps."""
    ladder = f"[{', '.join(steps)}]"
    limits = f"tokens: {tokens}, ladder: {ladder}"
    if component is not None:
        limits = (
            f"tokens: {tokens}, components: {{media: {{tokens: {component}, ladder: {ladder}}}}}"
        )
    return parse_blueprint(
        WRITTEN.replace("{user: [input], form: framed}]", "{user: [input]}]\n    budget: window")
        + f"budget: {{window: {{{limits}}}}}\n"
    )


PORTRAITS = (
    submit_parts("Who is this?", build_part(PICTURE, 12, "ann.png")),
    submit_parts("And this?", build_part(PICTURE, 9, "bob.png")),
    submit_parts("And this?", build_part(PICTURE, 0)),
)


@pytest.mark.parametrize(
    "blueprint",
    [
        write_budget(1_700, "drop_images: oldest"),
        write_budget(9_999, "drop_images: oldest", component=1_600),
    ],
)
def test_oldest_pictures_are_dropped_first_and_a_line_says_so(blueprint: Blueprint) -> None:
    session, found = run_turns(*PORTRAITS, blueprint=blueprint)
    assert found.request.messages[1].encode_plain()["content"] == [
        {"type": "text", "text": "Who is this?"},
        {"type": "note", "text": "(a picture is left out: ann.png)"},
    ]
    assert [part.treatment for part in list_media(found)] == ["dropped", "kept", "kept"]
    dropped, *_ = list_media(found)
    assert (dropped.rule, dropped.tokens, dropped.saved) == ("drop_images", 8, 757)
    (step,) = found.manifest.steps
    assert (step.step, step.on) == ("drop_images", "media")
    assert found.manifest.tokens <= 1_700
    body = json.loads(found.request.build_chat_body(BYTES))
    assert body["messages"][1]["content"] == "Who is this?\n(a picture is left out: ann.png)"
    assert read_prompt(found.manifest, session.events, build_blobs(FILES)) == found.request.messages
    chain = read_chain(session)
    blobs = {compute_digest(text): text.encode() for text in FILES.values()}
    for _, call in chain.iterate_calls():
        verify_prompt(call, chain, blobs | BYTES)


def test_pictures_that_are_dropped_side_by_side_are_one_part_that_reads_back() -> None:
    asked = (
        *PORTRAITS,
        submit_parts("", build_part(PICTURE), build_part(SOUND)),
        submit_turn("Who was first?"),
    )
    session, found = run_turns(*asked, blueprint=write_budget(900, "drop_images: oldest"))
    dropped, *others = list_media(found)
    assert (dropped.treatment, dropped.rule) == ("dropped", "drop_images")
    assert [(each.message, each.at) for each in dropped.others] == [(3, 9), (5, 0)]
    assert [each.treatment for each in others] == ["kept", "kept"]
    lines = [each.note for message in found.request.messages for each in message.media if each.note]
    assert dropped.characters == sum(map(len, lines))
    assert dropped.saved == 3 * 765 - dropped.tokens
    assert read_prompt(found.manifest, session.events, build_blobs(FILES)) == found.request.messages
    spans = split_prompt(found.request.messages, found.manifest)
    assert [each.text for each in spans if each.part.treatment == "dropped"] == lines
    chain = read_chain(session)
    blobs = {compute_digest(text): text.encode() for text in FILES.values()}
    for _, call in chain.iterate_calls():
        verify_prompt(call, chain, blobs | BYTES)


def test_earlier_assembler_lists_each_dropped_picture() -> None:
    blueprint = write_budget(900, "drop_images: oldest")
    session = open_with_blueprint(blueprint, FILES)
    for asked in PORTRAITS:
        session, _ = run_turn(session, asked, blueprint)
    session = session.apply_steps(submit_turn("Who was first?"))
    parts = {
        version: list_media(assemble_by_version(session, blueprint, version)) for version in (6, 7)
    }
    assert [(each.treatment, len(each.others)) for each in parts[6]] == [
        *[("dropped", 0)] * 2,
        ("kept", 0),
    ]
    assert [(each.treatment, len(each.others)) for each in parts[7]] == [
        ("dropped", 1),
        ("kept", 0),
    ]
    sizes = [sum(len(each.model_dump_json()) for each in found) for found in parts.values()]
    assert sizes[1] < sizes[0]


def assemble_by_version(
    session: SessionScenario, blueprint: Blueprint, assembler: int
) -> AssembledPrompt:
    call = replace(REPLY_CALL, assembler=assembler)
    unfilled = plan_prompt(SessionMaterial(blueprint=blueprint), session.opened_state, call)
    return assemble(unfilled, fetch_prompt_texts(unfilled.needs, session.events, FILES))


def test_pictures_of_the_turn_itself_are_not_dropped() -> None:
    blueprint = write_budget(800, "drop_images: oldest", "drop_oldest_pairs: {}")
    _, found = run_turns(PORTRAITS[0], blueprint=blueprint)
    assert [part.treatment for part in list_media(found)] == ["kept"]
    with pytest.raises(BudgetExceeded, match="media 1530") as refused:
        run_turns(
            submit_parts("Both", build_part(PICTURE), build_part(PICTURE)), blueprint=blueprint
        )
    assert refused.value.tokens > 1_530


def test_dropping_old_turns_drops_their_pictures() -> None:
    blueprint = write_budget(900, "drop_oldest_pairs: {}")
    _, found = run_turns(*PORTRAITS, blueprint=blueprint)
    assert [len(each.media) for each in found.request.messages] == [0, 1]


def test_picture_that_takes_no_more_than_its_line_is_not_dropped() -> None:
    small = build_part(PICTURE, 0, "x" * 200).model_copy(update={"width": 1, "height": 1})
    blueprint = write_budget(300, "drop_images: oldest", "drop_oldest_pairs: {}")
    _, found = run_turns(submit_parts("A", small), submit_turn("B"), blueprint=blueprint)
    assert [part.treatment for part in list_media(found)] == ["kept"]


@pytest.mark.parametrize(
    ("media", "outcome"),
    [
        (BYTES, ("reproduced", "")),
        ({compute_digest(PICTURE): b"another"}, ("failed", "body")),
        ({}, ("reproduced", "")),
    ],
)
def test_body_with_a_picture_is_compared_where_its_bytes_are_at_hand(
    media: dict[str, bytes], outcome: tuple[str, str]
) -> None:
    session, found = run_turns(submit_parts("Who?", build_part(PICTURE)))
    (call,) = [each for each in session.events if isinstance(each.event, ContextAssembled)]
    assert isinstance(call.event, ContextAssembled)
    known = [each for each in session.events if each.sequence <= found.manifest.sequence]
    turns = {turn.turn: turn for turn in build_history(known)}
    made = reproduce_by_reference(call.event, known, turns, build_blobs(FILES), media=media)
    assert (made.outcome, made.first_difference) == outcome


@pytest.mark.parametrize(
    ("field", "texts", "rules"),
    [
        (
            "files",
            ["These?", "notes.txt:\nnotes", "(a file is left out)"],
            ["estimate", "no_files", "estimate"],
        ),
        (
            "audio",
            ["These?", "notes.txt:\nnotes", "(a recording is left out)"],
            ["estimate", "estimate", "no_audio"],
        ),
    ],
)
def test_line_is_in_the_place_of_what_the_model_does_not_read_and_texts_stay(
    field: str, texts: list[str], rules: list[str]
) -> None:
    notes = build_part(DOCUMENT, 6, "notes.txt").model_copy(
        update={"media_type": "text/plain", "digest": compute_digest(b"notes")}
    )
    parts = (notes, build_part(DOCUMENT, 6), build_part(SOUND, 6))
    session = open_with_blueprint(UNFRAMED, FILES).apply_steps(submit_parts("These?", *parts))
    call = replace(REPLY_CALL, dialect=PLAIN_DIALECT.model_copy(update={field: False}))
    unfilled = plan_prompt(SessionMaterial(blueprint=UNFRAMED), session.opened_state, call)
    found = assemble(unfilled, fetch_prompt_texts(unfilled.needs, session.events, FILES))
    media = {**BYTES, compute_digest(b"notes"): b"notes"}
    (*_, message) = json.loads(found.request.build_chat_body(media))["messages"]
    assert [piece["text"] for piece in message["content"] if piece["type"] == "text"] == texts
    assert [part.rule for part in list_media(found)] == rules
    assert read_prompt(found.manifest, session.events, build_blobs(FILES)) == found.request.messages


def test_model_that_reads_no_pictures_gets_a_line_in_the_place_of_each() -> None:
    asked = (PORTRAITS[0], submit_parts("These?", build_part(PICTURE, 6), build_part(SOUND, 6)))
    session = open_with_blueprint(UNFRAMED, FILES)
    session, _ = run_turn(session, asked[0], UNFRAMED)
    session = session.apply_steps(asked[1])
    call = replace(REPLY_CALL, dialect=PLAIN_DIALECT.model_copy(update={"images": False}))
    unfilled = plan_prompt(SessionMaterial(blueprint=UNFRAMED), session.opened_state, call)
    found = assemble(unfilled, fetch_prompt_texts(unfilled.needs, session.events, FILES))
    body = json.loads(found.request.build_chat_body(BYTES))
    assert body["messages"][1]["content"] == "Who is this?\n(a picture is left out: ann.png)"
    assert [piece["type"] for piece in body["messages"][-1]["content"]] == [
        *("text", "text", "input_audio"),
    ]
    assert [(part.treatment, part.rule) for part in list_media(found)] == [
        *[("dropped", "no_images")] * 2,
        ("kept", "estimate"),
    ]
    assert read_prompt(found.manifest, session.events, build_blobs(FILES)) == found.request.messages
