"""Codes for those who install, configure or write blueprints, and of what a client finds out."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from turnlog.services.api.published_errors.error_code import ErrorCode, ExitCode

INSTALLATION_CODES: Final[Mapping[str, ErrorCode]] = {
    "approval-needed": ErrorCode(
        "A client waited for a turn that waits for a person itself; the turn goes on.",
        "decide the approvals, and go on with the stream of the turn",
        status=None,
        retry="later",
    ),
    "bad-address": ErrorCode(
        "An address is not `host:port`.",
        "write 127.0.0.1:0",
        status=None,
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "bad-credentials": ErrorCode(
        "The file with the password of the embedded nats-server is damaged.",
        "restore it, or delete it: the next start writes a new password",
        status=None,
        contains=("field",),
    ),
    "bad-database": ErrorCode(
        "The address of the database cannot be read.",
        "use sqlite:///path or postgresql://user@host/name",
        status=None,
        contains=("field",),
    ),
    "bad-option": ErrorCode(
        "An option of a command does not go with the rest.",
        "see --help of the command",
        status=None,
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "bad-pattern": ErrorCode(
        "A pattern of a safety rule cannot be searched in linear time.",
        "rewrite the pattern",
        contains=("field",),
    ),
    "bad-prompt-file": ErrorCode(
        "A prompt file is not text in UTF-8, or too large.",
        "correct the file",
        contains=("field",),
    ),
    "bad-schema": ErrorCode(
        "A file with a JSON Schema is not a JSON object.",
        "fix the file",
    ),
    "bad-setting": ErrorCode(
        "A setting, or a file that it names, has an impossible value.",
        "change its value; `turnlog config show` lists the settings",
        status=None,
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "bad-tool": ErrorCode(
        "A registered tool cannot be called as a tool.",
        "correct its function",
    ),
    "beyond-loopback": ErrorCode(
        "The embedded nats-server would listen beyond this machine without TLS.",
        "listen on 127.0.0.1, or run a nats-server of your own with TLS and give its url",
        status=None,
        contains=("field",),
    ),
    "bug": ErrorCode(
        "An error that nobody expected.",
        "tell the operator; the log of the gateway says more",
        status=HTTPStatus.INTERNAL_SERVER_ERROR,
    ),
    "corrupt": ErrorCode(
        "Stored bytes are not what Turnlog wrote.",
        "tell the operator; `verify` names the first bad event",
        status=HTTPStatus.INTERNAL_SERVER_ERROR,
        exit_code=ExitCode.VERIFICATION_FAILED,
    ),
    "data-dir-in-use": ErrorCode(
        "Another Turnlog runs on the data directory.",
        "stop it, or give another data directory",
        status=None,
        exit_code=ExitCode.CONFLICT,
        retry="later",
        contains=("field",),
    ),
    "faulty-blueprint": ErrorCode(
        "A blueprint or a file beside it has faults, each with its line.",
        "correct the file; `turnlog blueprint check` lists the faults",
        contains=("field", "faults"),
    ),
    "file-exists": ErrorCode(
        "The file to write is there already.",
        "name another file",
        status=None,
        exit_code=ExitCode.CONFLICT,
        contains=("field",),
    ),
    "folder-exists": ErrorCode(
        "The folder to write is there already.",
        "name another place",
        status=None,
        exit_code=ExitCode.CONFLICT,
    ),
    "log-rolled-back": ErrorCode(
        "The log lacks events that were read from it.",
        "tell the operator; writes are accepted again when log and read models agree",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        exit_code=ExitCode.VERIFICATION_FAILED,
    ),
    "no-answer": ErrorCode(
        "A client got no answer, although it sent the request several times.",
        "see whether the service runs, and send the request again with its key",
        status=None,
        retry="yes",
    ),
    "no-key-file": ErrorCode(
        "A key would be written into a data directory that is not the service's.",
        "name the file of the signing key; a missing one is created",
        status=None,
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "no-service": ErrorCode(
        "The command needs a running service.",
        "start it with `turnlog up`, or give its address with --url",
        status=None,
        retry="later",
    ),
    "no-withheld-text": ErrorCode(
        "Nothing was withheld from the turn before it was recorded.",
        "read the turn itself",
        status=None,
        exit_code=ExitCode.NOT_FOUND,
        contains=("field",),
    ),
    "not-for-up": ErrorCode(
        "A setting names what a data directory provides by itself.",
        "unset it; or start roles with `turnlog run`, and give commands their --url",
        status=None,
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "not-stopped": ErrorCode(
        "The read models of the session are not stopped.",
        "see `/v1/quarantine` for those that are",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "other-release": ErrorCode(
        "The service is another release and answered what this one cannot read.",
        "use the command line of the service's release",
        status=None,
    ),
    "other-signer": ErrorCode(
        "The wanted signer has not signed the checkpoint.",
        "take a checkpoint that this signer has signed",
        status=None,
        exit_code=ExitCode.VERIFICATION_FAILED,
        contains=("field",),
    ),
    "path-outside": ErrorCode(
        "A blueprint names a file outside of its folder.",
        "name a file beside the blueprint",
        contains=("field",),
    ),
    "prompt-missing": ErrorCode(
        "A prompt file of the blueprint does not exist.",
        "add the file, or choose another value",
        contains=("field",),
    ),
    "still-stopped": ErrorCode(
        "The event that stopped a session's read models cannot be folded yet.",
        "release it with a version of Turnlog that can fold this event",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "unavailable": ErrorCode(
        "A part of the installation cannot be reached.",
        "send the very same request again",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        exit_code=ExitCode.ERROR,
        contains=("Retry-After",),
    ),
    "unknown-cartridge": ErrorCode(
        "The blueprint has no such cartridge.",
        "add it, or choose another value",
        contains=("field",),
    ),
    "unknown-check": ErrorCode(
        "No installed package registers such a check.",
        "install the package, or correct the name",
        retry="later",
        contains=("field",),
    ),
    "unknown-data-dir": ErrorCode(
        "No service runs, and there is no such data directory.",
        "start one with `turnlog up`, or name the place with --data-dir or --url",
        status=None,
        exit_code=ExitCode.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-embedder": ErrorCode(
        "No installed package registers such an embedder, or it has no such model.",
        "install the package, or correct `TURNLOG_EMBEDDER`",
        retry="later",
        contains=("field",),
    ),
    "unknown-reranker": ErrorCode(
        "No installed package registers such a reranker.",
        "install the package that registers it, or write a name that is registered",
        retry="later",
        contains=("field",),
    ),
    "unknown-file": ErrorCode(
        "A file that the blueprint names does not exist.",
        "add it",
        contains=("field",),
    ),
    "unknown-resolver": ErrorCode(
        "No installed package registers such a resolver.",
        "install the package, or correct the name",
        retry="later",
        contains=("field",),
    ),
    "unknown-schema": ErrorCode(
        "A schema that the blueprint names does not exist.",
        "add the file, or correct the name",
    ),
    "unknown-setting": ErrorCode(
        "No process has a setting of this name.",
        "correct the name; `turnlog config show` lists the settings",
        status=None,
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "unknown-source": ErrorCode(
        "No installed package registers such a source.",
        "install the package, or correct the name",
        retry="later",
        contains=("field",),
    ),
    "unknown-step": ErrorCode(
        "No installed package registers such a ladder step.",
        "install the package, or correct the name",
        retry="later",
        contains=("field",),
    ),
    "unknown-tool": ErrorCode(
        "No installed package registers such a tool.",
        "install the package, or correct the name",
        retry="later",
        contains=("field",),
    ),
    "unsettled": ErrorCode(
        "A client waited for a turn that was not settled in time; the turn goes on.",
        "wait again; the turn is recorded",
        status=None,
        retry="yes",
    ),
}
"""The codes that name a setting, a file or a part of the installation."""
