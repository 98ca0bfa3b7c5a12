"""Blueprints on disk: create one from a shipped blueprint, check folders and their tool servers.

An existing folder is never overwritten. A new blueprint is checked at once.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.text import Text

from turnlog.client.operations import build_read
from turnlog.contract import api_paths
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE
from turnlog.projections.blueprint.loading.server_sources import ConfiguredServers
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    FaultyBlueprint,
)
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.services.api.service_payloads import BlueprintList
from turnlog.services.blueprints.blueprint_check import check_blueprint_folder
from turnlog.services.blueprints.blueprint_folders import (
    SHIPPED_BLUEPRINTS,
    BlueprintFolders,
    create_blueprint_folders,
    read_folder,
)
from turnlog.services.blueprints.blueprint_views import (
    create_blueprint_list,
    create_blueprint_schemas,
)
from turnlog.services.cli.actions.query_actions import fetch_blueprint
from turnlog.services.cli.blueprints.blueprint_view import (
    render_blueprint,
    render_blueprint_fault,
    render_blueprint_faults,
    render_blueprints,
    render_checked_servers,
)
from turnlog.services.cli.client.service_client import create_running_client
from turnlog.services.cli.client.service_location import find_service
from turnlog.services.cli.console import (
    OutputFormat,
    create_error_console,
    create_output_console,
    print_answer,
    print_json,
)
from turnlog.services.cli.environment import read_settings
from turnlog.services.cli.options import ReadTarget
from turnlog.services.cli.views.theme import MUTED
from turnlog.services.extensions.mcp_servers_file import (
    FaultyToolsFile,
    load_tools_file,
)
from turnlog.services.extensions.plugins import collect_installed
from turnlog.services.model_facts.dialects_file import FaultyDialectsFile, load_dialects_file
from turnlog.services.platform.process_settings import GatewaySettings
from turnlog.services.worker.tools.mcp_server_settings import check_endpoints, find_endpoint_faults
from turnlog.services.worker.tools.mcp_servers import McpToolServers
from turnlog.services.worker.tools.server_check import check_servers
from turnlog.services.worker.tools.worker_tool_servers import WorkerToolServers

_BLUEPRINT_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")

_BLUEPRINT_LINE: Final = re.compile(r"^blueprint: .*$", re.MULTILINE)


def create_blueprint_folder(name: str, pattern: str, parent: Path) -> None:
    """Copy a shipped blueprint to `parent / name` and print its faults and the next steps."""
    if not _BLUEPRINT_NAME.fullmatch(name):
        fix = "use a-z first, then a-z 0-9 _ -, at most 64 of them"
        raise Refused("bad-id", f"{name[:80]!r} is not a name", field="NAME", fix=fix)
    folder = parent / name
    if folder.exists():
        raise Refused("folder-exists", f"{folder} is there already", fix="choose another name")
    shutil.copytree(
        SHIPPED_BLUEPRINTS / pattern, folder, ignore=shutil.ignore_patterns("__pycache__")
    )
    file = folder / BLUEPRINT_FILE
    file.write_text(_BLUEPRINT_LINE.sub(f"blueprint: {name}", file.read_text(), count=1))
    create_output_console().print(
        render_blueprint_faults(str(folder), check_blueprint_folder(folder.absolute()))
    )
    create_output_console().print(Text(f"  {_describe_next_steps(parent, name)}", MUTED))


def _describe_next_steps(parent: Path, name: str) -> str:
    check, use = f"turnlog blueprint check {parent / name}", f"turnlog up --blueprints {parent}"
    return f"change it, `{check}`, `{use}`"


async def print_blueprint_list(
    target: ReadTarget, folders: Sequence[Path], environ: Mapping[str, str], output: OutputFormat
) -> None:
    """Print the blueprints of the running service; without one, those of the folders here.

    `folders` replace those of the settings, and are listed whether or not a service runs.
    """
    running = None if folders else find_service(target.url, target.data_dir)
    if running is not None:
        async with create_running_client(running) as service:
            found = await service.send(build_read(api_paths.BLUEPRINTS, BlueprintList))
    else:
        found = _list_local_blueprints(folders, environ)
    print_answer(found, render_blueprints(found), output)


async def print_blueprint(
    name: str,
    target: ReadTarget,
    folders: Sequence[Path],
    environ: Mapping[str, str],
    output: OutputFormat,
) -> None:
    """Print a blueprint of the running service; without one, of the folders here."""
    running = None if folders else find_service(target.url, target.data_dir)
    if running is not None:
        async with create_running_client(running) as service:
            found = await service.send(fetch_blueprint(name))
    else:
        local = _open_local_folders(folders, environ)
        found = create_blueprint_schemas(local.load_offered_blueprint(name))
    print_answer(found, render_blueprint(found), output)


def _list_local_blueprints(folders: Sequence[Path], environ: Mapping[str, str]) -> BlueprintList:
    return create_blueprint_list(_open_local_folders(folders, environ))


def _open_local_folders(folders: Sequence[Path], environ: Mapping[str, str]) -> BlueprintFolders:
    settings = read_settings(GatewaySettings, environ, {"blueprints": tuple(folders) or None})
    return create_blueprint_folders(settings)


def check_blueprint_folders(
    folders: Sequence[Path],
    tools_file: Path | None,
    dialects_file: Path | None,
    output: OutputFormat,
) -> bool:
    """Print the faults of these files and of each folder; return whether none is an error."""
    found: dict[str, tuple[BlueprintFault, ...]] = {}
    configured: ConfiguredServers | None = None
    if tools_file is not None:
        configured, found[str(tools_file)] = _check_tools_file(tools_file)
    if dialects_file is not None:
        found[str(dialects_file)] = _check_dialects_file(dialects_file)
    for folder in folders:
        found[str(folder)] = check_blueprint_folder(folder.absolute(), configured)
    _print_faults(found, output)
    return not any(fault.severity == "error" for faults in found.values() for fault in faults)


def _print_faults(found: Mapping[str, tuple[BlueprintFault, ...]], output: OutputFormat) -> None:
    if output == "json":
        print_json({place: [asdict(fault) for fault in faults] for place, faults in found.items()})
    else:
        for place, faults in found.items():
            create_output_console().print(render_blueprint_faults(place, faults))


async def check_blueprint_tools(
    blueprint: str, tools_file: Path | None, output: OutputFormat
) -> bool:
    """Print what each tool server of a blueprint offers; return whether nothing is wrong.

    No server is started while there is a fault with which no worker starts.
    """
    try:
        tools = load_tools_file(tools_file) if tools_file else None
        if tools is not None:
            check_endpoints(tools, os.environ)
    except FaultyToolsFile as faulty:
        _print_faults({str(tools_file): faulty.faults}, output)
        return False
    for warning in tools.warnings if tools else ():
        create_error_console().print(render_blueprint_fault(warning))
    try:
        found = read_folder(_find_folder(blueprint), tools.servers if tools else None)
    except FaultyBlueprint as faulty:
        _print_faults({blueprint: faulty.faults}, output)
        return False
    servers = WorkerToolServers(McpToolServers(tools=tools))
    try:
        vocabularies = collect_installed().vocabularies
        checked = await check_servers(
            SessionMaterial(blueprint=found, vocabularies=vocabularies), servers
        )
    finally:
        await servers.close()
    if output == "json":
        print_json([asdict(each) for each in checked])
    else:
        create_output_console().print(render_checked_servers(blueprint, checked))
    return all(each.is_right for each in checked)


def _find_folder(blueprint: str) -> Path:
    """Return a folder on disk, or that of the shipped blueprint of this name."""
    folder = Path(blueprint)
    return folder.absolute() if folder.is_dir() else BlueprintFolders().find_folder(blueprint)


def _check_dialects_file(file: Path) -> tuple[BlueprintFault, ...]:
    try:
        load_dialects_file(file)
    except FaultyDialectsFile as faulty:
        return faulty.faults
    return ()


def _check_tools_file(file: Path) -> tuple[ConfiguredServers, tuple[BlueprintFault, ...]]:
    """Return the servers of a tools file, none if it cannot be read, and all its faults."""
    try:
        tools = load_tools_file(file)
    except FaultyToolsFile as faulty:
        return {}, faulty.faults
    return tools.servers, (*tools.warnings, *find_endpoint_faults(tools, os.environ))
