from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.services.cli.conftest import RunCommand
from turnlog.events.errors import Refused
from turnlog.services.cli.environment import read_settings
from turnlog.services.platform.process_settings import (
    PROVIDED_BY_UP,
    AllInOneSettings,
    GatewaySettings,
    ProjectorSettings,
    WorkerSettings,
)


def test_config_show_prints_each_setting_with_its_origin(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_ACK_WAIT", "12")
    settings = {each["setting"]: each for each in turnlog("config", "show", "-o", "json").json}
    assert settings["ack_wait"] == {
        "setting": "ack_wait",
        "value": 12.0,
        "origin": "TURNLOG_ACK_WAIT",
        "processes": ["worker", "up"],
    }
    assert settings["http"]["origin"] == "default"


PROVIDED = {
    "TURNLOG_NATS_URL": "nats://10.0.0.1:4222",
    "TURNLOG_NATS_MONITOR": "http://10.0.0.1:8222",
    "TURNLOG_DATABASE_URL": "postgresql://10.0.0.1/turnlog",
    "TURNLOG_HEALTH": "127.0.0.1:8701",
}


@pytest.mark.parametrize("variable", PROVIDED)
def test_settings_provided_by_the_data_directory_are_refused(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    monkeypatch.setenv(variable, PROVIDED[variable])
    for command in (["up"], ["sessions"], ["show", "s"]):
        ran = turnlog(*command, "--data-dir", tmp_path)
        assert ran.code == 2
        assert f"not-for-up  {variable}" in ran.err
        assert "unset it" in ran.err
    assert list(tmp_path.iterdir()) == [], "nothing was started"


def test_every_setting_that_up_overrides_is_one_that_it_provides() -> None:
    up = AllInOneSettings(data_dir=Path("data"))
    for kind in (GatewaySettings, WorkerSettings, ProjectorSettings):
        taken = up.build_role_settings(kind, "nats://127.0.0.1:1", "http://127.0.0.1:2")
        replaced = {name for name in kind.model_fields if getattr(taken, name) != getattr(up, name)}
        assert replaced <= PROVIDED_BY_UP.keys()


def show_entries(turnlog: RunCommand, setting: str, data_dir: Path) -> dict[str, tuple[str, str]]:
    """Return the value and the origin of a setting by role."""
    shown = turnlog("config", "show", "-o", "json", "--data-dir", data_dir).json
    return {
        role: (each["value"], each["origin"])
        for each in shown
        if each["setting"] == setting
        for role in each["processes"]
    }


def test_config_show_prints_the_value_of_a_setting_for_each_role(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    of_directory = (
        f"sqlite:///{data_dir}/read-models.db",
        "its read models are in the data directory",
    )
    database = show_entries(turnlog, "database_url", data_dir)
    default = ("sqlite+aiosqlite:///turnlog.db", "default")
    assert database == {
        "gateway": default,
        "projector": default,
        "up": of_directory,
        "commands": of_directory,
    }
    assert show_entries(turnlog, "data_dir", data_dir)["up"] == (str(data_dir), "--data-dir")
    monkeypatch.setenv("TURNLOG_DATABASE_URL", "postgresql://me:hunter2@10.0.0.1/turnlog")
    database = show_entries(turnlog, "database_url", data_dir)
    assert database["gateway"] == ("postgresql://••••@10.0.0.1/turnlog", "TURNLOG_DATABASE_URL")
    assert database["up"][0] is None
    assert "TURNLOG_DATABASE_URL: refused" in database["up"][1]


def test_config_show_names_the_data_directory_file_of_a_value(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    assert "made at the next start" in show_entries(turnlog, "snapshot_key", tmp_path)["up"][1]
    key = tmp_path / "snapshot-key"
    key.write_text("5e" * 32)
    (tmp_path / "nats-address").write_text("127.0.0.1:4333\n")
    assert show_entries(turnlog, "snapshot_key", tmp_path) == {
        "gateway": (None, "default"),
        "worker": (None, "default"),
        "projector": (None, "default"),
        "up": ("••••", f"file {key}"),
        "commands": ("••••", f"file {key}"),
    }
    address = ("127.0.0.1:4333", f"file {tmp_path / 'nats-address'}")
    assert show_entries(turnlog, "nats", tmp_path) == {"up": address}


def test_config_show_says_whether_each_process_seals_and_why(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def show(setting: str = "sealing") -> dict[str, tuple[str, str]]:
        entries = show_entries(turnlog, setting, tmp_path)
        assert entries["up"] == entries["commands"]
        assert entries["gateway"] == entries["worker"] == entries["projector"]
        return {role: entries[role] for role in ("gateway", "up")}

    none = ("off", "there is no keyring")
    assert show() == {"gateway": none, "up": ("on", "the data directory is new")}
    keyring = tmp_path / "keyring"
    assert show("keyring")["up"] == (str(keyring), f"file {keyring}, made at the next start")
    (tmp_path / "jetstream/$G/streams/SESSIONS").mkdir(parents=True)
    assert show() == {"gateway": none, "up": none}
    assert show("keyring")["up"][0] is None
    keyring.write_text(f"1 {'5e' * 32}")
    found = ("on", "there is a keyring")
    assert show() == {"gateway": none, "up": found}
    assert show("keyring") == {
        "gateway": (None, "default"),
        "up": (str(keyring), f"file {keyring}"),
    }
    monkeypatch.setenv("TURNLOG_KEYRING", "elsewhere")
    assert show() == {"gateway": found, "up": found}
    monkeypatch.setenv("TURNLOG_SEALING", "off")
    assert show() == dict.fromkeys(("gateway", "up"), ("off", "TURNLOG_SEALING"))


def test_empty_environment_variable_counts_as_unset(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("TURNLOG_TOOLS", "TURNLOG_MODEL", "TURNLOG_NATS_URL"):
        monkeypatch.setenv(variable, "")
    assert read_settings(AllInOneSettings, os.environ).tools is None
    assert show_entries(turnlog, "model", tmp_path)["worker"] == ("scripted/demo", "default")


def test_config_show_masks_credentials_in_a_list_of_addresses(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TURNLOG_NATS_URL", "nats://me:hunter2@a:4222,nats://me:hunter2@b:4222")
    shown = show_entries(turnlog, "nats_url", tmp_path)["gateway"][0]
    assert shown == "nats://••••@a:4222,nats://••••@b:4222"


@pytest.mark.parametrize("proxies", ["10.0.0.1/8", "proxy.example", "10.0.0.1;10.0.0.2"])
def test_invalid_proxy_addresses_are_refused(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch, proxies: str
) -> None:
    monkeypatch.setenv("TURNLOG_ACTOR_PROXIES", proxies)
    ran = turnlog("run", "gateway")
    assert ran.code == 2
    assert "TURNLOG_ACTOR_PROXIES" in ran.err


def test_secrets_are_never_shown(turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLOG_NATS_URL", "nats://me:hunter2@10.0.0.1:4222")
    monkeypatch.setenv("TURNLOG_DATABASE_URL", "postgresql://host/db?password=hunter2")
    monkeypatch.setenv("TURNLOG_SNAPSHOT_KEY", f"key://hunter2/{'5e' * 32}")
    for form in ("table", "json"):
        ran = turnlog("config", "show", "-o", form)
        assert "hunter2" not in ran.out + ran.err
        assert "5e5e" not in ran.out + ran.err
        assert "10.0.0.1:4222" in ran.out
        assert "postgresql://host/db" in ran.out


@pytest.mark.parametrize("command", [["config", "show"], ["up"], ["run", "worker"], ["doctor"]])
def test_unknown_environment_variable_is_refused_with_the_nearest_known_name(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("TURNLOG_CONCURENCY", "3")
    ran = turnlog(*command)
    assert ran.code == 2
    assert "TURNLOG_CONCURENCY" in ran.err
    assert "write TURNLOG_CONCURRENCY" in ran.err


def test_invalid_value_is_refused_with_the_name_of_its_variable(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_CONCURRENCY", "many")
    ran = turnlog("run", "worker")
    assert ran.code == 2
    assert "TURNLOG_CONCURRENCY" in ran.err


def test_option_overrides_the_environment_and_is_named_when_invalid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TURNLOG_MODEL", "openai/one")
    environ = {"TURNLOG_MODEL": "openai/one"}
    assert read_settings(AllInOneSettings, environ, {"model": "openai/two"}).model == "openai/two"
    assert read_settings(AllInOneSettings, environ, {"model": None}).model == "openai/one"
    with pytest.raises(Refused) as refused:
        read_settings(WorkerSettings, environ, {"ack_wait": -1})
    assert refused.value.field == "--ack-wait"


def test_hosts_setting_is_a_comma_separated_list_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"TURNLOG_HOSTS": "Turnlog.example, [fd00::7],"}
    monkeypatch.setenv(*environ.popitem())
    assert read_settings(GatewaySettings, {}).hosts == ("turnlog.example", "[fd00::7]")


@pytest.mark.parametrize("host", ["https://turnlog.example", "turnlog.example:443", "*", "a b"])
def test_host_with_scheme_or_port_is_refused(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("TURNLOG_HOSTS", host)
    ran = turnlog("run", "gateway")
    assert ran.code == 2
    assert "TURNLOG_HOSTS" in ran.err
    assert "without scheme and port" in ran.err
