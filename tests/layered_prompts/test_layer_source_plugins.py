"""T13: a context level from an installed package, and an unknown one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.layered_prompts.tutor_service import (
    TutorService,
    prepare_tutor_host,
    start_tutor_service,
)
from tests.support.servers.openai_server import OpenAIServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODULE = '''\
"""What a school knows of its students."""

ASKED = []


async def profile(session, attributes):
    """Say how a student learns, and how often this was asked."""
    ASKED.append(session)
    return f"They learn by example, asked {ASKED.count(session)} time(s) in {attributes['task']}."
'''

METADATA = "Metadata-Version: 2.1\nName: school-profiles\nVersion: 1.0\n"

ENTRY_POINTS = "[turnlog.sources]\nschool_profile = school_profiles:profile\n"

LAYER = """\
  profile:
    source: school_profile
    when: {context: learning_profile}
    component: learning_profile
  redaction_note:
"""

CARTRIDGE = """\
task: TASK
ai_config: {context_requirements: LEVELS}
safety: {content_boundaries: [weapons], intensity_ceiling: low}
phases:
  start: talk
  talk: {kind: freeform, ai_transitions: {on_success: end}}
  end: {kind: static}
"""


def write_package(folder: Path) -> Path:
    """Write a package as an installer leaves it and return the folder for the path."""
    facts = folder / "school_profiles-1.0.dist-info"
    facts.mkdir(parents=True)
    (folder / "school_profiles.py").write_text(MODULE)
    (facts / "METADATA").write_text(METADATA)
    (facts / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tutor_service(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TutorService]:
    """A tutor service with that package and a layer from its source."""
    folder = tmp_path_factory.mktemp("school")
    variables = {"PYTHONPATH": str(write_package(folder / "packages"))}
    async with prepare_tutor_host(folder, provider, variables) as host:
        file = folder / "blueprints/trickster/blueprint.yaml"
        text = file.read_text().replace("  redaction_note:\n", LAYER)
        file.write_text(text.replace("student_path, redaction_note", "student_path, profile"))
        async with start_tutor_service(host, provider, folder / "said") as classroom:
            yield classroom


def write_task(tutor_service: TutorService, name: str, levels: str) -> str:
    return tutor_service.write_task(name, CARTRIDGE.replace("TASK", name).replace("LEVELS", levels))


async def test_t13_context_level_is_supplied_by_a_layer_source_of_a_package(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_session(
        write_task(tutor_service, "known", "[session_only, learning_profile]")
    )
    for _ in range(2):
        await tutor_service.submit_and_watch(session, "Labas")
    expected = "They learn by example, asked 1 time(s) in known."
    for call in ("1.1", "2.1"):
        assert (await tutor_service.fetch_system_prompt(session, call)).endswith(f"\n\n{expected}")
    assert tutor_service.sent["messages"][0]["content"].endswith(f"\n\n{expected}")
    parts = (await tutor_service.fetch_prompt(session, "2.1"))["manifest"]["parts"]
    (profile,) = [part for part in parts if part["layer"] == "profile"]
    assert profile["source"]["path"] == "source:school_profile"
    assert (profile["component"], profile["rule"]) == (
        "learning_profile", "when context learning_profile",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "levels"),
    [("silent", "[]"), ("only", "[session_only]"), ("unknown", "[full_history]")],
)
async def test_t13_unrequested_or_unknown_level_is_session_only(
    tutor_service: TutorService, name: str, levels: str
) -> None:
    session = await tutor_service.open_session(write_task(tutor_service, name, levels))
    await tutor_service.submit_and_watch(session, "Labas")
    assert (await tutor_service.fetch_system_prompt(session, "1.1")).endswith(
        "Always respond in Lithuanian."
    )
    parts = (await tutor_service.fetch_prompt(session, "1.1"))["manifest"]["parts"]
    (profile,) = [part for part in parts if part["layer"] == "profile"]
    assert (profile["treatment"], profile["rule"]) == ("absent", "when context learning_profile")
    logged = (tutor_service.trickster.parents[1] / "said").read_text()
    assert ("context-level-unknown" in logged and "full_history" in logged) == (name == "unknown")


async def test_t13_unregistered_layer_source_is_refused_at_opening(
    tutor_service: TutorService,
) -> None:
    file = tutor_service.trickster / "blueprint.yaml"
    file.write_text(file.read_text().replace("source: school_profile", "source: school_profil"))
    refused = await tutor_service.request_session("known")
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown-source")
    assert refused.json()["fix"] == "write `school_profile`"
