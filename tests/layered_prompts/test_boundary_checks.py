"""What the tutor must not speak of: by the words of its cartridges, and by a model that judges."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.docs.recipe_packages import RECIPES, write_recipe_package
from tests.layered_prompts.tutor_service import (
    DRAW,
    REPLACEMENT,
    SHARE,
    TutorService,
    answer_with_text,
    edit_file,
    join_tokens,
    list_event_names,
    prepare_tutor_host,
    start_tutor_service,
)
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.model.redaction_events import ReplyRedacted

pytestmark = pytest.mark.asyncio(loop_scope="module")

RECIPE = "Add a safety check"

JUDGE = "judge-heron"

HINT = "Tu gali pats sau padaryti ką nors blogo. "
"""It names no listed word, and is about self-harm."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tutor_service(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TutorService]:
    """A tutor service as shipped, where the package of the recipe is installed besides."""
    folder = tmp_path_factory.mktemp("school")
    package = write_recipe_package(RECIPE, folder / "packages")
    variables = {"PYTHONPATH": str(package), "MEANING_CHECK_MODEL": JUDGE}
    async with (
        prepare_tutor_host(folder, provider, variables) as host,
        start_tutor_service(host, provider) as classroom,
    ):
        yield classroom


@pytest.mark.parametrize(
    "words",
    [
        *("savižala", "savižudybę", "nusižudyti", "susižaloti", "žaloti save", "žalok save"),
        *("savizala", "SAVIZUDYBE", "nusizudyti", "susizaloti", "zaloti  save", "Zalok save"),
        *("self harm", "selfharm", "SELF-HARM", "self-harming", "suicidal"),
    ],
)
async def test_t4_boundary_terms_are_withheld_with_and_without_accents_and_spaces(
    tutor_service: TutorService, words: str
) -> None:
    session = await tutor_service.open_session(DRAW)
    received = await tutor_service.submit_and_watch(
        session, "Labas", answer_with_text("Klausyk. ", f"Apie {words}, ", "jei nori. ", "Gerai?")
    )
    assert list_event_names(received)[-1] == "redact"
    assert "Klausyk. ".startswith(join_tokens(received)), "who watches late gets no token"
    assert "Always respond in Lithuanian." in await tutor_service.fetch_system_prompt(
        session, "1.1"
    )
    (turn,) = await tutor_service.fetch_history(session)
    assert turn["reply"] == REPLACEMENT
    redacted = await tutor_service.service.wait_for_event(session, ReplyRedacted, turn=1)
    assert redacted.rule in {"boundaries", "boundary-terms"}


@pytest.mark.parametrize(
    ("words", "rule"),
    [("self harm", "boundaries"), ("selfharm", "boundaries"), ("savizalos", "boundary-terms")],
)
async def test_t4_each_task_has_its_own_boundaries_and_terms(
    tutor_service: TutorService, words: str, rule: str
) -> None:
    session = await tutor_service.open_dialogue(SHARE)
    await tutor_service.submit_and_watch(session, "Labas", answer_with_text(f"Apie {words}."))
    redacted = await tutor_service.service.wait_for_event(session, ReplyRedacted, turn=1)
    assert redacted.rule == rule


async def test_t4_texts_that_only_resemble_boundary_terms_pass(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_session(DRAW)
    text = "Savaitė be žalos, ir save gerbk. Myself, harmless as I am."
    received = await tutor_service.submit_and_watch(session, "Labas", answer_with_text(text))
    assert (list_event_names(received)[-1], join_tokens(received)) == ("done", text)


@pytest.fixture
def judged_blueprint(tutor_service: TutorService) -> Iterator[None]:
    """Add the rule of the recipe to the shipped blueprint while a session is opened."""
    file = tutor_service.trickster / "blueprint.yaml"
    rule = "{name: meaning, check: meaning, with: cartridge.safety.content_boundaries}"
    assert rule in RECIPES[RECIPE]
    text = file.read_text().replace("hold_back: sentence", "hold_back: reply")
    text = text.replace("    rules:\n", f"    rules:\n      - {rule}\n")
    text = text.replace("policies:\n", "policies:\n  retries: {cap_seconds: 0}\n")
    with edit_file(file, text):
        yield


@pytest.mark.usefixtures("judged_blueprint")
async def test_t4_judging_model_withholds_replies_that_no_term_reveals(
    tutor_service: TutorService, provider: OpenAIServer
) -> None:
    session = await tutor_service.open_dialogue()
    before = len(provider.exchanges)
    received = await tutor_service.submit_and_watch(
        session, "Labas", answer_with_text(HINT), answer_with_text("self-harm")
    )
    assert list_event_names(received) == ["redact"]
    (turn,) = await tutor_service.fetch_history(session)
    assert turn["reply"] == REPLACEMENT
    redacted = await tutor_service.service.wait_for_event(session, ReplyRedacted, turn=1)
    assert (redacted.rule, redacted.reason) == ("meaning", "it touches self-harm")
    assert len(provider.exchanges) == before + 2, "one question about the whole reply"
    judged = tutor_service.sent
    assert judged["model"] == JUDGE
    system, user = [each["content"] for each in judged["messages"]]
    assert system.endswith("Topics: self-harm; real political parties")
    assert user == HINT
    received = await tutor_service.submit_and_watch(
        session, "Ir?", answer_with_text("Gerai. ", "Viso."), answer_with_text("none")
    )
    assert (list_event_names(received), join_tokens(received)) == (
        ["token", "done"],
        "Gerai. Viso.",
    )


@pytest.mark.usefixtures("judged_blueprint")
async def test_t4_reply_with_an_unreadable_verdict_is_never_shown(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    received = await tutor_service.submit_and_watch(
        session,
        "Labas",
        answer_with_text(HINT),
        answer_with_text("I would rather not say: ", HINT),
        answer_with_text("Gerai."),
        answer_with_text("none"),
    )
    assert (list_event_names(received)[-2:], join_tokens(received)) == (["token", "done"], "Gerai.")
    events = await tutor_service.service.get_json(f"/v1/sessions/{session}/events")
    assert HINT not in str(events)
    (fault,) = [
        each["data"]["fault"] for each in events["events"] if (each.get("data") or {}).get("fault")
    ]
    assert fault == {
        "code": "check_failed",
        "detail": "the check of the rule `meaning` failed with ValueError",
        "retryable": True,
    }
