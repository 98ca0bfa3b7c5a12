"""Webhooks on a terminal, against the service that runs in a data directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.cli.conftest import RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up
from turnlog.contract.webhook_payloads import DeliveryFailureView, WebhookView
from turnlog.events.errors import Refused
from turnlog.services.cli.doctor.webhook_checks import find_webhook_fault
from turnlog.services.platform.process_settings import AllInOneSettings
from turnlog.services.webhooks.webhook_keys import KEY_FILE_NAME, WebhookKey, apply_webhook_key

TARGET = "http://127.0.0.1:9"
"""The port that discards what it gets; nothing listens there."""


@pytest.fixture(scope="module")
def hooked_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A service that allows one target; yields the option that names its data directory."""
    folder = tmp_path_factory.mktemp("hooked") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNLOG_WEBHOOK_TARGETS", TARGET)
        with run_blocking_turnlog_up(folder):
            yield "--data-dir", str(folder)


def test_webhook_is_added_shown_paused_and_removed(
    turnlog: RunCommand, hooked_here: tuple[str, str]
) -> None:
    assert "there is no webhook" in turnlog("webhooks", "list", *hooked_here).out
    options = ("--types", "turn-completed", "--blueprint", "clerk", "--attribute", "desk=d")
    added = turnlog("webhooks", "add", "billing", f"{TARGET}/in", *options, *hooked_here)
    assert added.code == 0, added.err
    (secret,) = (each for each in added.out.split() if each.startswith("whsec_"))
    key = (Path(hooked_here[1]) / KEY_FILE_NAME).read_text().strip()
    listed = turnlog("webhooks", "list", *hooked_here)
    assert listed.out.splitlines()[1].split()[:3] == ["billing", "active", "0"]
    shown = turnlog("webhooks", "deliveries", "billing", *hooked_here).out
    for known in ("types turn-completed", "blueprint clerk", "desk=d", "no session is behind"):
        assert known in shown
    webhook = turnlog("webhooks", "deliveries", "billing", "-o", "json", *hooked_here)
    assert WebhookKey(key).derive_secret("default", webhook.json["webhook"]["id"]) == secret
    for command in ("pause", "resume", "redeliver"):
        changed = turnlog("webhooks", command, "billing", *hooked_here)
        assert changed.code == 0, changed.err
        assert ("paused" in changed.out) == (command == "pause")
        assert secret not in changed.out
    for text in (listed.out, shown, webhook.out):
        assert secret not in text
    assert "removed" in turnlog("webhooks", "remove", "billing", *hooked_here).out
    missing = turnlog("webhooks", "remove", "billing", *hooked_here)
    assert (missing.code, "unknown-webhook" in missing.err) == (3, True)


def test_doctor_counts_the_webhooks_of_a_running_service(
    turnlog: RunCommand, hooked_here: tuple[str, str]
) -> None:
    def find_webhooks() -> list[tuple[str, str]]:
        found = turnlog("doctor", "-o", "json", *hooked_here).json
        return [(each["verdict"], each["said"]) for each in found if each["what"] == "webhooks"]

    assert find_webhooks() == [], "there is none"
    turnlog("webhooks", "add", "sick", f"{TARGET}/in", *hooked_here)
    assert find_webhooks() == [("good", "1, none is stopped or gave up a session")]
    turnlog("webhooks", "remove", "sick", *hooked_here)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"status": "stopped"}, "billing is stopped: the receiver answered 503"),
        ({"given_up": 2}, "billing gave up 2 sessions: the receiver answered 503"),
        ({}, None),
    ],
)
def test_check_warns_of_stopped_webhooks_and_of_sessions_that_were_given_up(
    changes: dict[str, object], expected: str | None
) -> None:
    failure = DeliveryFailureView(
        at="2026-11-29T10:00:00Z", position=7, status=503, detail="the receiver answered 503"
    )
    view = WebhookView(
        name="billing",
        id="5e",
        url="https://hooks.example.org",
        alerts=False,
        types=(),
        blueprint=None,
        attributes={},
        added_at="2026-11-29T10:00:00Z",
        status="active",
        after=6,
        waiting=1,
        delivered=3,
        delivered_at=None,
        behind=1,
        given_up=0,
        failure=failure,
    )
    found = find_webhook_fault(view.model_copy(update=changes))
    assert (found.said if found else None) == expected
    assert found is None or "turnlog webhooks re" in found.fix


def test_target_that_is_not_allowed_is_refused_with_the_setting_to_change(
    turnlog: RunCommand, hooked_here: tuple[str, str]
) -> None:
    refused = turnlog("webhooks", "add", "other", "https://elsewhere.example/in", *hooked_here)
    assert refused.code == 1
    words = " ".join(refused.err.split())
    assert "no origin that webhooks may be delivered to" in words
    assert "TURNLOG_WEBHOOK_TARGETS" in words


def test_key_is_made_once_for_its_owner_only_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    settings = AllInOneSettings(data_dir=tmp_path)
    made = apply_webhook_key(settings).webhook_key
    assert made is not None
    file = tmp_path / KEY_FILE_NAME
    assert file.stat().st_mode & 0o777 == 0o600
    assert apply_webhook_key(settings).webhook_key == made
    assert made.get_secret_value() not in repr(apply_webhook_key(settings))
    file.write_text("5e5e")
    with pytest.raises(Refused, match="is not the key"):
        apply_webhook_key(settings)
