"""Codes for those who install, configure or write blueprints, and of what a client finds out."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from turnlog.services.api.published_errors.error_code import ErrorCode, ExitCode

INSTALLATION_CODES: Final[Mapping[str, ErrorCode]] = {
    "answer-too-large": ErrorCode(
        meaning="An answer has a body, a line or an event beyond the limit of the client.",
        action="ask for less of it; a command may have been carried out",
        status=None,
    ),
    "approval-needed": ErrorCode(
        meaning="A client waited for a turn that waits for a person itself; the turn goes on.",
        action="decide the approvals, and go on with the stream of the turn",
        status=None,
        retry="later",
    ),
    "bad-address": ErrorCode(
        meaning="An address is not `host:port`.",
        action="write 127.0.0.1:0",
        status=None,
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "bad-answer": ErrorCode(
        meaning="What a client got is no answer of the service: compressed, or of another form.",
        action="see what answers at the address; a command may have been carried out",
        status=None,
    ),
    "bad-credentials": ErrorCode(
        meaning="The file with the password of the embedded nats-server is damaged.",
        action="restore it, or delete it: the next start writes a new password",
        status=None,
        contains=("field",),
    ),
    "bad-database": ErrorCode(
        meaning="The address of the database cannot be read.",
        action="use sqlite:///path or postgresql://user@host/name",
        status=None,
        contains=("field",),
    ),
    "bad-option": ErrorCode(
        meaning="An option of a command does not go with the rest.",
        action="see --help of the command",
        status=None,
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "bad-pattern": ErrorCode(
        meaning="A pattern of a safety rule cannot be searched in linear time.",
        action="rewrite the pattern",
        contains=("field",),
    ),
    "bad-prompt-file": ErrorCode(
        meaning="A prompt file is not text in UTF-8, or too large.",
        action="correct the file",
        contains=("field",),
    ),
    "bad-schema": ErrorCode(
        meaning="A file with a JSON Schema is not a JSON object.",
        action="fix the file",
    ),
    "bad-setting": ErrorCode(
        meaning="A setting, or a file that it names, has an impossible value.",
        action="change its value; `turnlog config show` lists the settings",
        status=None,
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "bad-tool": ErrorCode(
        meaning="A registered tool cannot be called as a tool.",
        action="correct its function",
    ),
    "beyond-loopback": ErrorCode(
        meaning="The embedded nats-server would listen beyond this machine without TLS.",
        action="listen on 127.0.0.1, or run a nats-server of your own with TLS and give its url",
        status=None,
        contains=("field",),
    ),
    "bug": ErrorCode(
        meaning="An error that nobody expected.",
        action="tell the operator; the log of the gateway says more",
        status=HTTPStatus.INTERNAL_SERVER_ERROR,
    ),
    "corrupt": ErrorCode(
        meaning="Stored bytes are not what Turnlog wrote.",
        action="tell the operator; `verify` names the first bad event",
        status=HTTPStatus.INTERNAL_SERVER_ERROR,
        exit_code=ExitCode.VERIFICATION_FAILED,
    ),
    "data-dir-in-use": ErrorCode(
        meaning="Another Turnlog runs on the data directory.",
        action="stop it, or give another data directory",
        status=None,
        exit_code=ExitCode.CONFLICT,
        retry="later",
        contains=("field",),
    ),
    "faulty-blueprint": ErrorCode(
        meaning="A blueprint or a file beside it has faults, each with its line.",
        action="correct the file; `turnlog blueprint check` lists the faults",
        contains=("field", "faults"),
    ),
    "file-exists": ErrorCode(
        meaning="The file to write is there already.",
        action="name another file",
        status=None,
        exit_code=ExitCode.CONFLICT,
        contains=("field",),
    ),
    "folder-exists": ErrorCode(
        meaning="The folder to write is there already.",
        action="name another place",
        status=None,
        exit_code=ExitCode.CONFLICT,
    ),
    "key-taken": ErrorCode(
        meaning="The tenant has a key of this name already.",
        action="use another name, or rotate that one",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "log-rolled-back": ErrorCode(
        meaning="The log lacks events that were read from it.",
        action="tell the operator; writes are accepted again when log and read models agree",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        exit_code=ExitCode.VERIFICATION_FAILED,
    ),
    "no-answer": ErrorCode(
        meaning="A client got no answer, although it sent the request several times.",
        action="see whether the service runs, and send the request again with its key",
        status=None,
        retry="yes",
    ),
    "no-key-file": ErrorCode(
        meaning="A key would be written into a data directory that is not the service's.",
        action="name the file of the signing key; a missing one is created",
        status=None,
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "no-service": ErrorCode(
        meaning="The command needs a running service.",
        action="start it with `turnlog up`, or give its address with --url",
        status=None,
        retry="later",
    ),
    "no-withheld-text": ErrorCode(
        meaning="Nothing was withheld from the turn before it was recorded.",
        action="read the turn itself",
        status=None,
        exit_code=ExitCode.NOT_FOUND,
        contains=("field",),
    ),
    "not-for-up": ErrorCode(
        meaning="A setting names what a data directory provides by itself.",
        action="unset it; or start roles with `turnlog run`, and give commands their --url",
        status=None,
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "not-stopped": ErrorCode(
        meaning="The read models of the session are not stopped.",
        action="see `/v1/quarantine` for those that are",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "other-release": ErrorCode(
        meaning="The service is another release and answered what this one cannot read.",
        action="use the command line of the service's release",
        status=None,
    ),
    "other-signer": ErrorCode(
        meaning="The wanted signer has not signed the checkpoint.",
        action="take a checkpoint that this signer has signed",
        status=None,
        exit_code=ExitCode.VERIFICATION_FAILED,
        contains=("field",),
    ),
    "path-outside": ErrorCode(
        meaning="A blueprint names a file outside of its folder.",
        action="name a file beside the blueprint",
        contains=("field",),
    ),
    "prompt-missing": ErrorCode(
        meaning="A prompt file of the blueprint does not exist.",
        action="add the file, or choose another value",
        contains=("field",),
    ),
    "redirected": ErrorCode(
        meaning="A client was sent to another address, where it does not go.",
        action="give the client the address of the service itself",
        status=None,
    ),
    "still-stopped": ErrorCode(
        meaning="The event that stopped a session's read models cannot be folded yet.",
        action="release it with a version of Turnlog that can fold this event",
        status=HTTPStatus.CONFLICT,
        contains=("field",),
    ),
    "unavailable": ErrorCode(
        meaning="A part of the installation cannot be reached.",
        action="send the very same request again",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        exit_code=ExitCode.ERROR,
        contains=("Retry-After",),
    ),
    "unknown-cartridge": ErrorCode(
        meaning="The blueprint has no such cartridge.",
        action="add it, or choose another value",
        contains=("field",),
    ),
    "unknown-check": ErrorCode(
        meaning="No installed package registers such a check.",
        action="install the package, or correct the name",
        retry="later",
        contains=("field",),
    ),
    "unknown-data-dir": ErrorCode(
        meaning="No service runs, and there is no such data directory.",
        action="start one with `turnlog up`, or name the place with --data-dir or --url",
        status=None,
        exit_code=ExitCode.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-embedder": ErrorCode(
        meaning="No installed package registers such an embedder, or it has no such model.",
        action="install the package, or correct `TURNLOG_EMBEDDER`",
        retry="later",
        contains=("field",),
    ),
    "unknown-reranker": ErrorCode(
        meaning="No installed package registers such a reranker.",
        action="install the package that registers it, or write a name that is registered",
        retry="later",
        contains=("field",),
    ),
    "unknown-file": ErrorCode(
        meaning="A file that the blueprint names does not exist.",
        action="add it",
        contains=("field",),
    ),
    "unknown-resolver": ErrorCode(
        meaning="No installed package registers such a resolver.",
        action="install the package, or correct the name",
        retry="later",
        contains=("field",),
    ),
    "unknown-schema": ErrorCode(
        meaning="A schema that the blueprint names does not exist.",
        action="add the file, or correct the name",
    ),
    "unknown-setting": ErrorCode(
        meaning="No process has a setting of this name.",
        action="correct the name; `turnlog config show` lists the settings",
        status=None,
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "unknown-source": ErrorCode(
        meaning="No installed package registers such a source.",
        action="install the package, or correct the name",
        retry="later",
        contains=("field",),
    ),
    "unknown-step": ErrorCode(
        meaning="No installed package registers such a ladder step.",
        action="install the package, or correct the name",
        retry="later",
        contains=("field",),
    ),
    "unknown-tool": ErrorCode(
        meaning="No installed package registers such a tool.",
        action="install the package, or correct the name",
        retry="later",
        contains=("field",),
    ),
    "not-given-up": ErrorCode(
        meaning="No deliveries of this session to the webhook were given up.",
        action="see `/v1/webhooks/{name}/deliveries` for the sessions that were",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "faulty-alert": ErrorCode(
        meaning="The rule of an alert cannot be what it is.",
        action="correct the field that `field` names, as `fix` says",
        contains=("field",),
    ),
    "too-many-alerts": ErrorCode(
        meaning="There would be more rules of alerts than may be.",
        action="remove some of them",
        contains=("field",),
    ),
    "unknown-alert": ErrorCode(
        meaning="There is no alert of this name.",
        action="see `/v1/alerts` for those there are",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "too-many-requests": ErrorCode(
        meaning="A key or a tenant sends more requests, or has more streams open, than its share.",
        action="send it again after `Retry-After`",
        status=HTTPStatus.TOO_MANY_REQUESTS,
        contains=("Retry-After",),
    ),
    "too-many-keys": ErrorCode(
        meaning="The tenant has as many keys as may be.",
        action="revoke those not in use",
        contains=("field",),
    ),
    "too-many-webhooks": ErrorCode(
        meaning="There are as many webhooks as may be.",
        action="remove one of them",
        contains=("field",),
    ),
    "unknown-key": ErrorCode(
        meaning="There is no key of this name or id, or it is revoked.",
        action="see `turnlog keys list` for those there are",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unknown-webhook": ErrorCode(
        meaning="There is no webhook of this name.",
        action="see `/v1/webhooks` for those there are",
        status=HTTPStatus.NOT_FOUND,
        contains=("field",),
    ),
    "unsettled": ErrorCode(
        meaning="A client waited for a turn that was not settled in time; the turn goes on.",
        action="wait again; the turn is recorded",
        status=None,
        retry="yes",
    ),
    "unprotected": ErrorCode(
        meaning="The gateway would answer everybody who reaches an address beyond this machine.",
        action="set `TURNLOG_ROOT_KEY`, or trust a proxy that signs people in",
        status=None,
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "webhook-taken": ErrorCode(
        meaning="There is a webhook of this name already.",
        action="use another name, or remove that one",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "webhook-target": ErrorCode(
        meaning="Webhooks may not be delivered to this address.",
        action="use an address of `TURNLOG_WEBHOOK_TARGETS`, or name its origin there",
        contains=("field",),
    ),
    "webhooks-off": ErrorCode(
        meaning="The installation has no key for the secrets of webhooks.",
        action="set `TURNLOG_WEBHOOK_KEY` in gateways and projectors, and start them again",
        contains=("field",),
    ),
}
"""The codes that name a setting, a file or a part of the installation."""
