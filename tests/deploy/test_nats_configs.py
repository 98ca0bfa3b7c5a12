"""The configurations of nats-server: what it takes, and what must stand in them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.deploy.compose_file import CLUSTER_FILE, CLUSTER_SECRETS, ROOT, load_services
from tests.deploy.compose_processes import BIN
from turnlog.services.platform.nats_logins import PASSWORD_VARIABLES

FOLDER = ROOT / "deploy/nats"

SERVICES = load_services(CLUSTER_SECRETS) | load_services(CLUSTER_SECRETS, CLUSTER_FILE)

VARIABLES = SERVICES["nats"].environment | SERVICES["nats-1"].environment

CONFIGS = ("nats.conf", "cluster.conf")

INCLUDED = "users.conf"


def check_config(config: Path, without: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "nats-server", "-t", "-c", config],
        env={name: value for name, value in VARIABLES.items() if name != without},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", CONFIGS)
def test_nats_server_accepts_the_configuration_and_rejects_unknown_keys(
    name: str, tmp_path: Path
) -> None:
    checked = check_config(FOLDER / name)
    assert checked.returncode == 0, checked.stderr
    (tmp_path / INCLUDED).write_text((FOLDER / INCLUDED).read_text())
    misspelt = tmp_path / name
    misspelt.write_text((FOLDER / name).read_text().replace("sync_interval", "sync_intervall"))
    assert check_config(misspelt).returncode != 0


@pytest.mark.parametrize(
    "variable",
    [
        "NATS_SERVER_NAME",
        *PASSWORD_VARIABLES.values(),
        "NATS_ROUTES_PASSWORD",
        "NATS_ROUTES",
    ],
)
def test_cluster_server_does_not_start_without_a_required_variable(variable: str) -> None:
    checked = check_config(FOLDER / "cluster.conf", without=variable)
    assert checked.returncode != 0
    assert variable in checked.stderr


@pytest.mark.parametrize("name", CONFIGS)
def test_every_acknowledgement_of_a_server_waits_for_fsync(name: str) -> None:
    config = (FOLDER / name).read_text()
    assert re.search(r"^jetstream \{\n(?:  .*\n)*?  sync_interval: always$", config, re.MULTILINE)


@pytest.mark.parametrize("name", [*CONFIGS, INCLUDED])
def test_configuration_has_one_setting_per_line(name: str) -> None:
    lines = [line.strip() for line in (FOLDER / name).read_text().splitlines()]
    settings = [line for line in lines if line and not line.startswith("#")]
    setting = r'\w+: (?:"[^"]*"|\$?\w+)'
    block = r'(?:\w+ )?\{|\}|\w+: \[|\]|"[^"]*"|include "[^"]*"'
    assert all(re.fullmatch(f"{setting}|{block}", line) for line in settings)


def test_cluster_configuration_contains_every_setting_of_the_single_server() -> None:
    def list_settings(name: str) -> set[str]:
        lines = (FOLDER / name).read_text().splitlines()
        return {line for line in lines if line and not line.lstrip().startswith("#")}

    assert list_settings("nats.conf") - list_settings("cluster.conf") == {"server_name: turnlog"}
