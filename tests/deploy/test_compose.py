"""The content of the compose files: their form, secrets, settings and service options."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.deploy.compose_file import (
    CLUSTER_FILE,
    CLUSTER_SECRETS,
    COMPOSE_FILE,
    RESET,
    ROOT,
    SECRETS,
    ComposeService,
    UnknownMergeError,
    UnsetVariableError,
    load_compose_file,
    load_services,
    parse_duration,
    parse_size,
    resolve_compose_files,
    validate_document,
)
from turnlog.services.cli.environment import PROCESSES, format_variable
from turnlog.services.platform.nats_logins import PASSWORD_VARIABLES

SERVICES = load_services()
CLUSTER = load_services(CLUSTER_SECRETS, CLUSTER_FILE)
SERVERS = [service for name, service in CLUSTER.items() if name.startswith("nats-")]
ALL = [*SERVICES.values(), *SERVERS]
ROLES = {service.role: service for service in SERVICES.values() if service.role}
OURS = [service for service in ALL if "build" in service.stanza]

NGINX_CONFIG = ROOT / "deploy/nginx/compose.conf"


def get_service_name(service: ComposeService) -> str:
    return service.name


def test_compose_files_match_the_compose_schema() -> None:
    validate_document(resolve_compose_files(SECRETS))
    validate_document(resolve_compose_files(CLUSTER_SECRETS, CLUSTER_FILE))


@pytest.mark.parametrize(
    "wrong",
    [{"comand": ["turnlog"]}, {"healthcheck": {"test": "curl"}}, {"stop_grace_period": "20"}],
)
def test_unknown_key_or_form_in_a_compose_file_is_detected(wrong: Mapping[str, Any]) -> None:
    document = dict(resolve_compose_files(SECRETS))
    document["services"] = document["services"] | {
        "gateway": document["services"]["gateway"] | wrong
    }
    with pytest.raises(jsonschema.ValidationError):
        validate_document(document)


def test_every_role_runs_beside_nats_and_postgres_and_behind_nginx() -> None:
    assert set(ROLES) == {"gateway", "worker", "projector"}
    assert set(SERVICES) == {"nginx", "nats", "postgres", "provision", *ROLES}


def test_list_in_both_files_that_the_tests_would_merge_wrongly_is_detected(tmp_path: Path) -> None:
    other = tmp_path / "other.yml"
    other.write_text("services: {worker: {networks: [inside]}}")
    with pytest.raises(UnknownMergeError):
        resolve_compose_files(SECRETS, other)


@pytest.mark.parametrize("secret", SECRETS)
def test_missing_password_prevents_the_start_and_the_error_names_its_file(
    secret: str,
) -> None:
    with pytest.raises(UnsetVariableError, match=r"deploy/example\.env"):
        resolve_compose_files(SECRETS | {secret: ""})
    assert re.search(rf"^{secret}=$", (ROOT / "deploy/example.env").read_text(), re.MULTILINE)


def test_cluster_requires_a_routes_password() -> None:
    with pytest.raises(UnsetVariableError, match=r"NATS_ROUTES_PASSWORD.*deploy/example\.env"):
        resolve_compose_files(SECRETS, CLUSTER_FILE)


def test_every_variable_of_the_files_is_in_the_example_with_its_default() -> None:
    example = (ROOT / "deploy/example.env").read_text()
    for file in (COMPOSE_FILE, CLUSTER_FILE):
        for name, default in re.findall(r"\$\{(\w+):(?:\?|-([^}]*))", file.read_text()):
            assert re.search(rf"^{name}={re.escape(default)}$", example, re.MULTILINE), name


@pytest.mark.parametrize("file", [COMPOSE_FILE, CLUSTER_FILE], ids=lambda file: file.name)
def test_no_secret_is_written_in_a_compose_file(file: Path) -> None:
    stanzas = load_compose_file(file)["services"].values()
    for stanza in (each for each in stanzas if each is not RESET):
        for name, value in stanza.get("environment", {}).items():
            if "PASSWORD" in name or re.search(r"://[^/]*:[^/]*@", value):
                assert re.search(r"\$\{\w+_PASSWORD:\?", value), name


@pytest.mark.parametrize("services", [SERVICES, CLUSTER], ids=["single", "cluster"])
@pytest.mark.parametrize("role", ROLES)
def test_every_setting_of_a_role_exists_and_has_a_valid_value(
    role: str, services: Mapping[str, ComposeService], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = PROCESSES[role]
    for name, value in services[role].environment.items():
        assert name in {format_variable(field) for field in settings.model_fields}
        monkeypatch.setenv(name, value)
    settings()


@pytest.mark.parametrize("service", OURS, ids=get_service_name)
def test_own_services_run_the_image_of_this_version(service: ComposeService) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert service.stanza["image"] == f"turnlog:{version}"


@pytest.mark.parametrize("service", ALL, ids=get_service_name)
def test_services_cannot_write_outside_their_volumes_or_gain_privileges(
    service: ComposeService,
) -> None:
    assert service.stanza["read_only"] is True
    assert service.stanza["cap_drop"] == ["ALL"]
    assert service.stanza["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("service", ALL, ids=get_service_name)
def test_services_have_limits_for_memory_and_log_size(
    service: ComposeService,
) -> None:
    assert 128 * 2**20 <= parse_size(service.stanza["mem_limit"]) <= 4 * 2**30
    logging = service.stanza["logging"]
    assert logging["driver"] == "json-file"
    assert parse_size(logging["options"]["max-size"]) * int(logging["options"]["max-file"]) < 2**30


@pytest.mark.parametrize("service", [SERVICES["nats"], *SERVERS], ids=get_service_name)
def test_nats_server_has_a_memory_goal_below_its_limit(service: ComposeService) -> None:
    goal = parse_size(service.environment["GOMEMLIMIT"])
    assert 0.8 < goal / parse_size(service.stanza["mem_limit"]) < 0.9


def test_nginx_is_not_root_and_its_version_is_pinned() -> None:
    stanza = SERVICES["nginx"].stanza
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", stanza["user"])
    assert re.fullmatch(r"nginx:\d+\.\d+\.\d+-alpine", stanza["image"])


@pytest.mark.parametrize("role", ROLES)
def test_stop_grace_period_of_a_role_exceeds_its_shutdown_grace(role: str) -> None:
    grace = PROCESSES[role].model_fields["grace"].default
    assert parse_duration(ROLES[role].stanza["stop_grace_period"]) > grace


@pytest.mark.parametrize("services", [SERVICES, CLUSTER], ids=["single", "cluster"])
@pytest.mark.parametrize("name", [name for name in SERVICES if name != "nats"])
def test_service_waits_until_its_dependencies_are_healthy(
    name: str, services: Mapping[str, ComposeService]
) -> None:
    service = services[name]
    spoken_to = {
        host
        for value in service.environment.values()
        for host in re.findall(r"//(?:[^/@]*@)?([a-z0-9-]+):\d+", value)
    }
    if name == "nginx":
        spoken_to = set(re.findall(r"default ([a-z]+):\d+;", NGINX_CONFIG.read_text()))
    conditions = {
        other: each["condition"] for other, each in service.stanza.get("depends_on", {}).items()
    }
    # No role may create the streams.
    if name in ROLES:
        assert conditions.pop("provision") == "service_completed_successfully"
    assert set(conditions) == spoken_to
    assert set(conditions.values()) <= {"service_healthy"}
    assert all("healthcheck" in services[name].stanza for name in spoken_to)


@pytest.mark.parametrize("role", ROLES)
def test_health_check_of_every_role_requests_its_readiness_address(role: str) -> None:
    place = ROLES[role].environment["TURNLOG_HTTP" if role == "gateway" else "TURNLOG_HEALTH"]
    assert f"127.0.0.1:{place.rpartition(':')[2]}/readyz" in ROLES[role].health_command[-1]


def test_only_nginx_is_published_and_on_localhost_only() -> None:
    published = {service.name: service.stanza.get("ports", []) for service in ALL}
    assert {name: ports for name, ports in published.items() if ports} == {
        "nginx": ["127.0.0.1:8700:8080"]
    }


def test_services_without_authentication_are_on_the_internal_network_only() -> None:
    networks = resolve_compose_files(SECRETS)["networks"]
    assert networks["inside"] == {"internal": True}
    assert networks["front"]["internal"] is True
    for service in (SERVICES["nats"], SERVICES["postgres"], *SERVERS):
        assert set(service.networks) == {"inside"}


def test_only_nginx_and_gateways_share_the_front_network() -> None:
    # With a second one the name server could answer with addresses of either.
    assert SERVICES["nginx"].networks.keys() & SERVICES["gateway"].networks.keys() == {"front"}
    members = {service.name for service in CLUSTER.values() if "front" in service.networks}
    assert members == {"nginx", "gateway"}


def test_no_gateway_can_get_the_address_of_the_trusted_proxy() -> None:
    (pool,) = resolve_compose_files(SECRETS)["networks"]["front"]["ipam"]["config"]
    address = ip_address(SERVICES["nginx"].networks["front"]["ipv4_address"])
    assert address in ip_network(pool["subnet"])
    assert address not in ip_network(pool["ip_range"])
    assert ip_network(pool["ip_range"]).subnet_of(ip_network(pool["subnet"]))  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ROLES)
def test_role_can_run_in_several_containers(role: str) -> None:
    service = ROLES[role]
    assert "ports" not in service.stanza
    assert not any("ipv4_address" in options for options in service.networks.values())
    assert all(volume.endswith(":ro") for volume in service.stanza.get("volumes", []))


@pytest.mark.parametrize("role", ["worker", "projector"])
def test_role_that_calls_a_provider_has_outside_network_and_key_file(role: str) -> None:
    assert set(ROLES[role].networks) == {"inside", "outside"}
    assert ROLES[role].stanza["env_file"] == [{"path": f"deploy/{role}.env", "required": False}]
    ignored = (ROOT / "deploy/.gitignore").read_text().splitlines()
    assert f"{role}.env" in ignored


def test_embedder_of_the_projector_is_a_variable() -> None:
    chosen = load_services(SECRETS | {"EMBEDDER": "litellm:openai/one"})["projector"]
    assert chosen.environment["TURNLOG_EMBEDDER"] == "litellm:openai/one"


def test_cluster_servers_differ_only_in_name_and_volume() -> None:
    common = []
    for service in SERVERS:
        stanza = dict(service.stanza)
        *configuration, volume = stanza.pop("volumes")
        assert volume == f"log-{service.name[-1]}:/var/lib/nats"
        environment = dict(stanza.pop("environment"))
        assert environment.pop("NATS_SERVER_NAME") == service.name
        common.append((stanza, environment, configuration))
    assert common == [common[0]] * 3


def test_cluster_server_runs_with_the_options_of_the_single_server() -> None:
    own = {"command", "environment", "volumes", "stop_signal", "stop_grace_period"}
    single, clustered = (
        {name: value for name, value in service.stanza.items() if name not in own}
        for service in (SERVICES["nats"], SERVERS[0])
    )
    assert clustered == single


def test_cluster_server_stops_in_lame_duck_mode_within_its_grace_period() -> None:
    config = (ROOT / "deploy/nats/cluster.conf").read_text()
    duration = re.search(r'^lame_duck_duration: "(\w+)"$', config, re.MULTILINE)
    assert duration
    for service in SERVERS:
        assert service.stanza["stop_signal"] == "SIGUSR2"
        grace = parse_duration(service.stanza["stop_grace_period"])
        assert grace > parse_duration(duration[1])


def test_roles_list_every_server_of_a_cluster() -> None:
    names = [service.name for service in SERVERS]
    for role in (*ROLES, "provision"):
        environment = CLUSTER[role].environment
        clients = environment["TURNLOG_NATS_URL"].split(",")
        login = f"{role}:{SECRETS[PASSWORD_VARIABLES[role]]}"
        assert clients == [f"nats://{login}@{name}:4222" for name in names]
        monitors = environment["TURNLOG_NATS_MONITOR"].split(",")
        assert monitors == [f"http://{name}:8222" for name in names]


def test_gateway_and_worker_have_the_same_blueprints_and_model() -> None:
    shared = ("TURNLOG_BLUEPRINTS", "TURNLOG_MODEL")
    gateway, worker = ROLES["gateway"], ROLES["worker"]
    assert [gateway.environment[name] for name in shared] == [
        worker.environment[name] for name in shared
    ]
    assert gateway.stanza["volumes"] == worker.stanza["volumes"]


@pytest.mark.parametrize("access", ["open", "passwords"])
def test_every_mounted_path_exists_in_the_repository(access: str) -> None:
    variables = CLUSTER_SECRETS | {"NGINX_ACCESS": access}
    for files in ([], [CLUSTER_FILE]):
        named_volumes = set(resolve_compose_files(variables, *files)["volumes"])
        for service in load_services(variables, *files).values():
            for volume in service.stanza.get("volumes", []):
                source = volume.split(":")[0]
                assert source in named_volumes or (COMPOSE_FILE.parent / source).exists(), volume
