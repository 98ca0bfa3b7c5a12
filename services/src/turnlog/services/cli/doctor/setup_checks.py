"""Checks of what is configured: read models, keys, blueprints, tools, prices and the model.

Each check returns a `CheckFinding` and changes nothing: no stream is provisioned, no schema and no
key is made, and no model is called.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from turnlog.events.errors import Corrupt, Refused, TurnlogError
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.schema.schema_migration import (
    SCHEMA_REVISION,
    read_schema_revision,
)
from turnlog.services.audit.checkpoint_signatures import KEY_FILE as SIGNING_KEY_FILE
from turnlog.services.blueprints.blueprint_folders import create_blueprint_folders
from turnlog.services.blueprints.blueprint_views import create_blueprint_list
from turnlog.services.caches.session_snapshots import KEY_FILE
from turnlog.services.cli.checkpoints.checkpoint_folder import CheckpointFolder, describe_age
from turnlog.services.cli.doctor.check_findings import (
    CheckFinding,
    report_failure,
    report_good,
    report_warning,
)
from turnlog.services.cli.views.text_format import format_count
from turnlog.services.extensions.mcp_servers_file import load_tools_file
from turnlog.services.integrity.stopped_rows import require_sound_sessions
from turnlog.services.model_facts.dialects_file import load_dialects_file
from turnlog.services.model_facts.model_prices import ModelPrices
from turnlog.services.platform.clock import read_clock
from turnlog.services.platform.nats_server import LOG_DIRECTORY
from turnlog.services.platform.process_settings import (
    AllInOneSettings,
    GatewaySettings,
    ProcessSettings,
    WorkerSettings,
)
from turnlog.services.platform.secret_masking import hide_credentials
from turnlog.services.worker.model.direct_model import find_chat_endpoint, is_protocol_model
from turnlog.services.worker.model.model_types import ModelFailure
from turnlog.services.worker.model.scripted_model import SCRIPTED_PROVIDER, ScriptFolder
from turnlog.services.worker.tools.mcp_server_settings import check_endpoints


async def check_database(url: str) -> CheckFinding:
    """Compare the schema of the read models with the one this release writes."""
    what, address = "read models", hide_credentials(url)
    try:
        store = open_store(url)
        try:
            revision = await _read_revision(store)
        finally:
            await store.close()
    except TurnlogError as error:
        fix = "start it, create it, or correct TURNLOG_DATABASE_URL"
        return report_failure(what, f"{address}: {error}", fix)
    if revision is None:
        return report_good(
            what, f"{address}: none yet; this release makes schema {SCHEMA_REVISION}"
        )
    if revision > SCHEMA_REVISION:
        detail = f"{address}: schema {revision}, this release knows {SCHEMA_REVISION}"
        return report_failure(what, detail, "run the later release, or `turnlog rebuild` elsewhere")
    if revision < SCHEMA_REVISION:
        return report_good(
            what, f"{address}: schema {revision}; the next start makes it {SCHEMA_REVISION}"
        )
    return report_good(what, f"{address}: schema {revision}")


async def _read_revision(store: ReadModelStore) -> str | None:
    """Return the revision; a SQLite file is opened read-only, because a connection creates it."""
    if store.engine.dialect.name != "sqlite":
        return await read_schema_revision(store)
    return _read_sqlite_revision(Path(store.engine.url.database or ""))


async def check_stopped_sessions(url: str, tenant: str) -> CheckFinding:
    """Check whether sessions are stopped or have stray messages, as far as there are rows."""
    what = "sessions"
    try:
        store = open_store(url)
        try:
            if await _read_revision(store) == SCHEMA_REVISION:
                await require_sound_sessions(store, tenant)
        finally:
            await store.close()
    except Corrupt as stopped:
        fix = "`turnlog quarantine list` names them; a stopped one goes on in a fork"
        return report_warning(what, stopped.detail, fix)
    except TurnlogError as error:
        return report_warning(what, f"not checked: {error}", "see the read models above")
    return report_good(what, "none is stopped")


def _read_sqlite_revision(file: Path) -> str | None:
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database,
    ):
        row = database.execute("SELECT version_num FROM alembic_version").fetchone()
        return None if row is None else str(row[0])
    return None


def check_directory_key(settings: AllInOneSettings) -> CheckFinding:
    """Say which key snapshots are signed with by `turnlog up`."""
    if settings.snapshot_key:
        return report_good("snapshot key", "TURNLOG_SNAPSHOT_KEY")
    file = settings.data_dir.absolute() / KEY_FILE
    state = "" if file.exists() else ", to be made"
    return report_good("snapshot key", f"{file}{state}")


def check_shared_key(settings: ProcessSettings) -> CheckFinding:
    """Check that processes of their own have a snapshot key, which only their settings can give."""
    if settings.snapshot_key:
        return report_good("snapshot key", "TURNLOG_SNAPSHOT_KEY")
    detail = "none: a process believes only its own snapshots and folds again after its start"
    fix = "give all processes the same TURNLOG_SNAPSHOT_KEY"
    return report_warning("snapshot key", detail, fix)


def check_checkpoint_folder(folder: Path) -> CheckFinding:
    """Say when the last checkpoint in a folder was taken."""
    newest = CheckpointFolder(folder).find_newest()
    if newest is None:
        fix = f"`turnlog checkpoint --every 1h --to {folder}`, on another machine than the log's"
        return report_warning("checkpoints", f"none in {folder}", fix)
    return report_good("checkpoints", f"the last {describe_age(newest, read_clock())}: {newest}")


def check_checkpoints(data_dir: Path) -> CheckFinding:
    """Check whether a checkpoint was ever signed here; where it is stored is not known."""
    key = data_dir / SIGNING_KEY_FILE
    if key.is_file():
        since = time.strftime("%Y-%m-%d", time.localtime(key.stat().st_mtime))
        return report_good("checkpoints", f"signed since {since}, by {key}")
    if not (data_dir / LOG_DIRECTORY).is_dir():
        return report_good("checkpoints", "nothing to sign yet")
    fix = "`turnlog checkpoint FILE`, and keep it where nobody who writes to the log can write"
    return report_warning("checkpoints", "none was signed here, so a cut end would not show", fix)


def check_blueprints(settings: GatewaySettings) -> CheckFinding:
    """Check that the folders are there and that their blueprints can be used."""
    what = "blueprints"
    missing = [str(folder) for folder in settings.blueprints if not folder.is_dir()]
    if missing:
        fix = "correct TURNLOG_BLUEPRINTS"
        return report_warning(what, f"no folder {', '.join(missing)}", fix)
    try:
        found = create_blueprint_list(create_blueprint_folders(settings))
    except Refused:  # The tools file has a finding of its own.
        return report_warning(what, "not read, because the tools file is faulty", "correct it")
    usable = format_count(len(found.blueprints), "usable blueprint")
    if found.faulty:
        names = ", ".join(each.blueprint for each in found.faulty)
        return report_warning(what, f"{usable}; faulty: {names}", "run `turnlog blueprint check`")
    places = ", ".join(map(str, settings.blueprints)) or "no folders of your own"
    return report_good(what, f"{usable}; {places}")


def check_tools(file: Path | None, environ: Mapping[str, str]) -> CheckFinding:
    """Check that the tools file can be used by gateway and worker."""
    if file is None:
        return report_good("tools file", "none configured")
    try:
        tools = load_tools_file(file)
        check_endpoints(tools, environ)
    except Refused as refused:
        return report_failure("tools file", refused.detail, "correct it")
    return report_good("tools file", f"{file}, {format_count(len(tools.servers), 'server')}")


def check_prices(file: Path | None) -> CheckFinding:
    """Check that the file of own prices can be used."""
    try:
        ModelPrices(file)
    except Refused as refused:
        return report_failure("prices", refused.detail, refused.fix)
    return report_good("prices", "those that litellm ships" if file is None else str(file))


def check_dialects(file: Path | None) -> CheckFinding:
    """Check that the file of the installation's own dialects can be used."""
    if file is None:
        return report_good("dialects", "those that are shipped")
    try:
        dialects = load_dialects_file(file)
    except Refused as refused:
        return report_failure("dialects", refused.detail, refused.fix)
    return report_good("dialects", f"{file}, {format_count(len(dialects), 'pattern')}")


KEYLESS_PROVIDERS: Final = frozenset({"ollama", "ollama_chat", "bedrock", "vertex_ai", "sagemaker"})
"""Providers that are reached without a key in `PROVIDER_API_KEY`."""


def check_model(settings: WorkerSettings, environ: Mapping[str, str]) -> CheckFinding:
    """Check that the worker has what the configured model needs; the model is not called."""
    what, model = "model", settings.model
    if settings.scripts is not None and not settings.scripts.is_dir():
        return report_failure(what, f"no folder {settings.scripts}", "correct TURNLOG_SCRIPTS")
    if model == "off":
        return report_good(what, "off: no model is called")
    if settings.model_adapter == "direct" and is_protocol_model(model):
        return _check_direct_model(model, environ)
    provider, _, name = model.partition("/") if "/" in model else ("openai", "", model)
    if provider == SCRIPTED_PROVIDER:
        try:
            ScriptFolder(settings.scripts).load_script(name)
        except ModelFailure as failure:
            return report_failure(what, f"{model}: {failure}", "correct TURNLOG_MODEL")
        return report_good(what, f"{model}, a script and no provider")
    prefix = provider.upper()
    names = (f"{prefix}_API_KEY", f"{prefix}_API_BASE", f"{prefix}_BASE_URL")
    if provider in KEYLESS_PROVIDERS or any(environ.get(name) for name in names):
        return report_good(what, f"{model}, not called")
    fix = f"set {names[0]} in the environment of the worker"
    return report_warning(what, f"{model}: no {names[0]} here", fix)


def _check_direct_model(model: str, environ: Mapping[str, str]) -> CheckFinding:
    try:
        address = find_chat_endpoint(model, environ)
    except ModelFailure as failure:
        fix = "set it in the environment of the worker"
        return report_warning("model", f"{model}, without litellm: {failure.detail}", fix)
    url = hide_credentials(address.url)
    return report_good("model", f"{model}, without litellm at {url}, not called")
