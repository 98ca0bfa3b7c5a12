from __future__ import annotations

import pytest

from tests.services.cli.conftest import RunCommand
from turnlog.events.errors import Refused
from turnlog.services.cli.environment import read_settings
from turnlog.services.platform.process_settings import (
    AllInOneSettings,
    GatewaySettings,
    WorkerSettings,
)


def test_a_setting_is_shown_with_where_it_comes_from(
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
def test_a_variable_nobody_knows_is_refused_with_the_nearest_that_is_known(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("TURNLOG_CONCURENCY", "3")
    ran = turnlog(*command)
    assert ran.code == 2
    assert "TURNLOG_CONCURENCY" in ran.err
    assert "write TURNLOG_CONCURRENCY" in ran.err


def test_a_value_that_cannot_be_is_refused_by_the_name_of_its_variable(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_CONCURRENCY", "many")
    ran = turnlog("run", "worker")
    assert ran.code == 2
    assert "TURNLOG_CONCURRENCY" in ran.err


def test_an_option_goes_before_the_environment_and_is_named_when_it_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TURNLOG_MODEL", "openai/one")
    environ = {"TURNLOG_MODEL": "openai/one"}
    assert read_settings(AllInOneSettings, environ, {"model": "openai/two"}).model == "openai/two"
    assert read_settings(AllInOneSettings, environ, {"model": None}).model == "openai/one"
    with pytest.raises(Refused) as refused:
        read_settings(WorkerSettings, environ, {"ack_wait": -1})
    assert refused.value.field == "--ack-wait"


def test_hosts_are_names_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"TURNLOG_HOSTS": "Turnlog.example, [fd00::7],"}
    monkeypatch.setenv(*environ.popitem())
    assert read_settings(GatewaySettings, {}).hosts == ("turnlog.example", "[fd00::7]")


@pytest.mark.parametrize("host", ["https://turnlog.example", "turnlog.example:443", "*", "a b"])
def test_a_host_with_more_than_its_name_is_refused(
    turnlog: RunCommand, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("TURNLOG_HOSTS", host)
    ran = turnlog("run", "gateway")
    assert ran.code == 2
    assert "TURNLOG_HOSTS" in ran.err
    assert "without scheme and port" in ran.err
