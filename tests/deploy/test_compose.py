"""The content of docker-compose.yml: its form, secrets, settings and service options."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest

from tests.deploy.compose_file import (
    COMPOSE_FILE,
    ROOT,
    SECRETS,
    ComposeService,
    UnsetVariableError,
    load_compose_file,
    load_services,
    parse_duration,
    resolve_compose_file,
    validate_document,
)
from turnlog.services.cli.environment import PROCESSES, format_variable

SERVICES = load_services()
ROLES = {service.role: service for service in SERVICES.values() if service.role}
OURS = [service for service in SERVICES.values() if "build" in service.stanza]


def get_service_name(service: ComposeService) -> str:
    return service.name


def test_the_file_holds_nothing_that_compose_would_not_take() -> None:
    validate_document(resolve_compose_file(SECRETS))


@pytest.mark.parametrize(
    "wrong",
    [{"comand": ["turnlog"]}, {"healthcheck": {"test": "curl"}}, {"stop_grace_period": "20"}],
)
def test_a_word_or_a_form_that_compose_does_not_know_is_found(wrong: Mapping[str, Any]) -> None:
    document = dict(resolve_compose_file(SECRETS))
    document["services"] = document["services"] | {
        "gateway": document["services"]["gateway"] | wrong
    }
    with pytest.raises(jsonschema.ValidationError):
        validate_document(document)


def test_every_role_runs_once_beside_nats_and_postgres() -> None:
    assert set(ROLES) == {"gateway", "worker", "projector"}
    assert set(SERVICES) == {"nats", "postgres", *ROLES}


@pytest.mark.parametrize("secret", SECRETS)
def test_without_a_password_nothing_starts_and_the_message_says_where_it_belongs(
    secret: str,
) -> None:
    with pytest.raises(UnsetVariableError, match=r"deploy/example\.env"):
        resolve_compose_file(SECRETS | {secret: ""})
    assert re.search(rf"^{secret}=$", (ROOT / "deploy/example.env").read_text(), re.MULTILINE)


def test_no_secret_is_written_in_the_file() -> None:
    for stanza in load_compose_file()["services"].values():
        for name, value in stanza.get("environment", {}).items():
            if "PASSWORD" in name or re.search(r"://[^/]*:[^/]*@", value):
                assert re.search(r"\$\{\w+_PASSWORD:\?", value), name


@pytest.mark.parametrize("role", ROLES)
def test_every_setting_in_the_file_is_one_of_its_role_and_has_a_value_it_takes(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = PROCESSES[role]
    for name, value in ROLES[role].environment.items():
        assert name in {format_variable(field) for field in settings.model_fields}
        monkeypatch.setenv(name, value)
    settings()


@pytest.mark.parametrize("service", OURS, ids=get_service_name)
def test_our_services_run_the_image_of_this_version(service: ComposeService) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert service.stanza["image"] == f"turnlog:{version}"


@pytest.mark.parametrize("service", SERVICES.values(), ids=get_service_name)
def test_no_service_may_write_outside_its_volumes_or_gain_rights(service: ComposeService) -> None:
    assert service.stanza["read_only"] is True
    assert service.stanza["cap_drop"] == ["ALL"]
    assert service.stanza["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_longer_to_stop_than_it_takes_to_hand_back_its_work(role: str) -> None:
    grace = PROCESSES[role].model_fields["grace"].default
    assert parse_duration(ROLES[role].stanza["stop_grace_period"]) > grace


@pytest.mark.parametrize("service", SERVICES.values(), ids=get_service_name)
def test_a_service_waits_until_those_it_speaks_to_are_healthy(service: ComposeService) -> None:
    spoken_to = {
        host
        for value in service.environment.values()
        for host in re.findall(r"//(?:[^/@]*@)?([a-z]+):\d+", value)
    }
    waited_for = service.stanza.get("depends_on", {})
    assert set(waited_for) == spoken_to
    assert {each["condition"] for each in waited_for.values()} <= {"service_healthy"}
    assert all("healthcheck" in SERVICES[name].stanza for name in spoken_to)


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_asked_how_it_is_where_it_tells(role: str) -> None:
    place = ROLES[role].environment["TURNLOG_HTTP" if role == "gateway" else "TURNLOG_HEALTH"]
    assert f"127.0.0.1:{place.rpartition(':')[2]}/readyz" in ROLES[role].health_command[-1]


def test_only_the_gateway_is_reached_from_outside_and_from_this_host_alone() -> None:
    published = {name: service.stanza.get("ports", []) for name, service in SERVICES.items()}
    assert {name: ports for name, ports in published.items() if ports} == {
        "gateway": ["127.0.0.1:8700:8700"]
    }


def test_the_parts_without_a_door_guard_are_reached_by_our_own_processes_alone() -> None:
    networks = resolve_compose_file(SECRETS)["networks"]
    assert networks["inside"] == {"internal": True}
    for name in ("nats", "postgres"):
        assert SERVICES[name].stanza["networks"] == ["inside"]


def test_gateway_and_worker_see_the_same_blueprints_and_the_same_model() -> None:
    shared = ("TURNLOG_BLUEPRINTS", "TURNLOG_MODEL")
    gateway, worker = ROLES["gateway"], ROLES["worker"]
    assert [gateway.environment[name] for name in shared] == [
        worker.environment[name] for name in shared
    ]
    assert gateway.stanza["volumes"] == worker.stanza["volumes"]


def test_every_folder_and_file_that_is_mounted_is_in_the_repository() -> None:
    named_volumes = set(resolve_compose_file(SECRETS)["volumes"])
    for service in SERVICES.values():
        for volume in service.stanza.get("volumes", []):
            source = volume.split(":")[0]
            assert source in named_volumes or (COMPOSE_FILE.parent / source).exists(), volume
