"""Checks a Turnlog bundle with nothing but Python's standard library: `python3 -I verify.py`.

It reads the files beside it, uses no network and trusts nothing it reads. It compares each event
with the digest in the next event, each blob with its name, each prompt, rebuilt part by part, with
the digest recorded when it was sent, and the ends of the sessions with a signed checkpoint. It
cannot detect changes made before anything was signed. The exit code is 0 if all is as recorded and
signed, 6 if some of it is not signed, and 5 if anything differs. Needs Python 3.10 or later.
"""

from __future__ import annotations

import argparse
import hmac
import json
import re
import sys
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from turnlog.services.bundle.check_lines import (
    MALFORMED,
    VerificationFailure,
    compute_digest,
    describe_error,
    encode_canonical,
    escape_text,
    is_object,
    parse_object,
    run_check,
)
from turnlog.services.bundle.condensed_arguments import condense_arguments
from turnlog.services.bundle.condensed_history import condense_run, drop_results
from turnlog.services.bundle.ed25519_signatures import is_signed
from turnlog.services.bundle.inlined_tools import inline_tool
from turnlog.services.bundle.merkle_paths import summarise_heads
from turnlog.services.bundle.part_values import (
    collect_text_digests,
    format_resolution,
    format_value,
    get_text,
)
from turnlog.services.bundle.prompt_media import add_media, place_media, write_sent_messages
from turnlog.services.bundle.round_messages import ROUND_ROLES, add_round_part, place_reasoned_parts
from turnlog.services.bundle.sealed_events import (
    check_erased_events,
    clear_words,
    list_source_erasures,
    open_event,
)

EXIT_FAILED = 5  # Exit code when something differs from the record
EXIT_UNWITNESSED = 6  # Exit code when nothing differs, and some of it is not signed
VERDICTS = {0: "verified", EXIT_UNWITNESSED: "UNWITNESSED", EXIT_FAILED: "NOT VERIFIED"}
MAX_FILE = 64 * 1024 * 1024  # Bytes of a file that is read whole; a blob is far smaller
MAX_LINE = 4 * 1024 * 1024  # Bytes of an event, which is at most a message of the log
DIGEST_FORM = re.compile("(hmac-)?sha256:[0-9a-f]{64}")
SESSION_FORM = re.compile("[A-Za-z0-9_-]{1,64}")
UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # What no event can hold is U+FFFD in it
SUBMISSION_TYPES = {"turnlog.turn-submitted.v1", "turnlog.turn-queued.v1"}
UNANSWERED_TYPES = {"turnlog.turn-failed.v1", "turnlog.turn-cancelled.v1"}
MAX_RESULTS, MAX_RESULT = 16, 1_000  # Results, and characters of each, that follow outcomes
BLOB_SOURCES = {"path", "segment", "retrieved", "handed"}  # One names each kind of stored text
REPLY_REASONING_FIELD = "answer.reasoning"  # The one dotted path that leads to a text of a model
CHILD_CLAIM_TYPES = {"turnlog.child-requested.v1", "turnlog.child-settled.v1"}
REPLY_TYPES = {"turnlog.turn-completed.v1", "turnlog.reply-redacted.v1"}
Json = Any
JsonDict = dict[str, Json]
Messages = list[JsonDict]
NO_DATA: JsonDict = {}  # Of a text that the manifest itself has


# The record of a session: events in order, each with the digest of the stored bytes before it.


@dataclass(kw_only=True)
class EventChain:
    """The events of a session, up to the first break in the chain."""

    events: list[JsonDict] = field(default_factory=list[JsonDict])
    heads: list[str] = field(default_factory=list[str])
    """Digest of each event's stored bytes."""
    turns: dict[int, list[Json]] = field(default_factory=dict[int, list[Json]])
    """Turn to its text, reply, work summary, role and more, of the first `learnt_count` events."""
    learnt_count: int = 0
    erased: dict[int, str] = field(default_factory=dict[int, str])
    """Event to the name of its keys, where there is none for it."""
    gone: list[str] = field(default_factory=list[str])  # Names of keys removed in the library

    def read_lines(
        self, lines: Iterable[bytes], tenant: str, name: str, keys: Mapping[str, str] = NO_DATA
    ) -> None:
        """Read lines; raise at the first that does not continue the one before, or open."""
        for place, line in enumerate(lines, 1):
            stored = line.removesuffix(b"\n")
            event = parse_object(stored, f"event {place}")
            sequence = event.get("sequence")
            if (event.get("tenant"), event.get("subject")) != (tenant, name):
                raise VerificationFailure(
                    f"event {sequence}: it belongs to session {event.get('subject')!a}"
                )
            if not isinstance(sequence, int) or sequence < place:
                raise VerificationFailure(f"event {sequence}: it stands behind event {place - 1}")
            if sequence > place:
                raise VerificationFailure(f"event {place}: it is missing before event {sequence}")
            if event.get("prevhash") != (self.heads[-1] if self.heads else None):
                raise VerificationFailure(
                    f"event {max(1, place - 1)}: event {place} does not continue its bytes"
                )
            try:
                self.events.append(self.open_line(place, event, keys.get(str(place))))
            except (VerificationFailure, *MALFORMED) as error:
                raise VerificationFailure(f"event {place}: {describe_error(error)}") from None
            self.heads.append(compute_digest(stored))
        check_erased_events(self.erased, self.events, self.gone)

    def open_line(self, place: int, event: JsonDict, key: str | None) -> JsonDict:
        """Return an event as it opens; without its words, which are noted as erased."""
        if "sealed" not in event or key is not None:
            return open_event(event, key)
        self.erased[place] = str(event["sealedof"])
        return {**event, "data": clear_words(event["data"])}

    def replay_turns(self, upto: int) -> dict[int, list[Json]]:
        """Return the turns as of a sequence; later redactions are not applied."""
        if upto < self.learnt_count:
            self.turns, self.learnt_count = {}, 0
        for event in self.events[self.learnt_count : upto]:
            apply_event(self.turns, str(event["type"]), int(event["sequence"]), event["data"])
        self.learnt_count = max(self.learnt_count, upto)
        return self.turns

    def has_children(self) -> bool:
        return any(event["type"] == "turnlog.child-requested.v1" for event in self.events)

    def iterate_calls(self) -> Iterator[tuple[int, JsonDict]]:
        """Yield each call with a recorded prompt that can be read, with its event's sequence."""
        for place, event in enumerate(self.events, 1):
            if event["type"] == "turnlog.context-assembled.v1" and place not in self.erased:
                yield place, event["data"]


def apply_event(turns: dict[int, list[Json]], kind: str, sequence: int, data: JsonDict) -> None:
    """Note what an event changes of its turn: text, reply, work, role, outcomes and results."""
    turn = data.get("turn")
    if kind in SUBMISSION_TYPES:
        text, role, has_media = data.get("text"), data.get("role"), bool(data.get("parts"))
        turns[data["turn"]] = [text, None, None, role, [], {}, False, has_media]
    elif turn not in turns:
        return
    elif kind == "turnlog.tool-returned.v1":
        turns[turn][5][sequence] = get_text(data.get("summary") or data.get("text"))
    elif kind == "turnlog.text-redacted.v1":
        turns[turn][0] = turns[turn][0] and data["replacement"]
        # Pictures and files go with the whole text, and stay beside a part of it.
        turns[turn][7] = turns[turn][7] and bool(data.get("spans"))
    elif kind in REPLY_TYPES | UNANSWERED_TYPES:
        was = turns[turn][4][:1]
        results = [turns[turn][5].get(each) or "" for each in data.get("kept_results", ())]
        outcomes = [data["outcomes"], *results] if data.get("outcomes") else was
        reply = data.get("replacement") or data.get("text") or data.get("cut_reply")
        turns[turn][1:3] = [reply, data.get("work")]
        # A reply of a model mentions what its tools did, until it is withheld.
        turns[turn][4] = outcomes
        turns[turn][6] = kind == "turnlog.turn-completed.v1" and not data.get("fallback")


def add_outcomes(turn: Sequence[Json], reply: str) -> str:
    """Put the outcomes and results of a turn's tools before its reply, as prompts do."""
    if not turn[4] or turn[6]:
        return reply
    cut = [each if len(each) <= MAX_RESULT else f"{each[:MAX_RESULT]}..." for each in turn[4][1:]]
    shown = cut[-MAX_RESULTS:]
    return "\n".join((turn[4][0], *shown)) + (f"\n\n{reply}" if reply else "")


def find_submission(events: Iterable[JsonDict], turn: int) -> tuple[int, JsonDict]:
    """Return what submitted a turn, after its sequence; 0 and nothing where nothing did."""
    for sequence, event in enumerate(events, 1):
        if event["type"] in SUBMISSION_TYPES and event["data"]["turn"] == turn:
            return sequence, event["data"]
    return 0, {}


# Rebuilding a prompt: its manifest says where the text of each part is and how it was edited.


def rebuild_messages(
    manifest: JsonDict, session: EventChain, blobs: Mapping[str, bytes]
) -> Messages:
    """Rebuild the messages of a call; raise where a text differs from the recorded digest."""
    messages: Messages = []
    known = session.events[: manifest["sequence"]]
    for part in manifest["parts"]:
        source, place = part.get("source"), part.get("message")
        if source is None or place is None:
            continue
        if "view" in source:
            join_run(messages, part, rebuild_run(part, session.replay_turns(manifest["sequence"])))
            continue
        if part.get("at") is not None:
            add_media(messages, part, known)
            continue
        text = part.get("before", "") + apply_edits(part, find_text(source, known, blobs))
        if part["role"] in ROUND_ROLES:
            event = known[int(source["sequence"]) - 1]["data"] if "sequence" in source else NO_DATA
            add_round_part(messages, part, event, text)
            continue
        if place == len(messages):
            messages.append({"role": part["role"], "content": ""})
        messages[place]["content"] += text + part.get("after", "")
    place_reasoned_parts(messages)
    for place in manifest.get("cache_marks", ()):
        messages[place]["cache_control"] = {"type": "ephemeral"}
    return [place_media(each) for each in messages]


def join_run(messages: Messages, part: JsonDict, run: Messages) -> None:
    """Add a run of history, of which the first text may join the message before it."""
    for each in run if part["source"].get("system_as_user") else ():
        each["role"] = each["role"].replace("system", "user")
    if run and part["message"] == len(messages) - 1:
        messages[-1]["content"] += part.get("before", "") + run.pop(0)["content"]
    messages += run


def verify_prompt(call: JsonDict, session: EventChain, blobs: Mapping[str, bytes]) -> Messages:
    """Rebuild the messages of a call; compare request and body with the recorded digests."""
    manifest = call["manifest"]
    messages = rebuild_messages(manifest, session, blobs)
    offered = [part for part in manifest["parts"] if part.get("role") == "tools"]
    tools = [name_tool(part, json.loads(find_text(part["source"], (), blobs))) for part in offered]
    if (manifest.get("dialect") or {}).get("tool_refs") == "inline":
        tools = [inline_tool(tool) for tool in tools]
    request_settings = {"model": call["model"], "parameters": call["parameters"]}
    request = {**request_settings, "messages": messages, "tools": tools}
    if compute_digest(encode_canonical(request)) != manifest["digest"]:
        raise VerificationFailure("the request reads back as another one")
    sent_messages = write_sent_messages(messages, blobs)
    body = {
        **call["parameters"],
        "messages": sent_messages,
        "model": call["model"].partition("/")[2],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if tools:
        body["tools"] = tools
    stated = call.get("body_digest") if sent_messages is not None else None
    if stated not in {None, compute_digest(encode_canonical(body))}:
        raise VerificationFailure("the body that was sent reads back as another one")
    return messages


def name_tool(part: JsonDict, tool: JsonDict) -> JsonDict:
    """Return a tool with the name that the server was sent, if that is another one."""
    name = part.get("name")
    return {**tool, "function": {**tool["function"], "name": name}} if name else tool


def apply_edits(part: JsonDict, text: str) -> str:
    """Apply the recorded edits to a text: the excerpt, the cut and the indentation."""
    if part.get("excerpt"):
        text = text[part["excerpt"]["begin"] : part["excerpt"]["end"]]
    if part.get("condensed_to"):
        text = condense_arguments(text, part["condensed_to"])
    left = text[: part["cut"]["to"]] if part.get("cut") else text
    ends = (*part.get("indented", ()), len(left))
    done = " ".join(left[begin:end] for begin, end in pairwise((0, *ends)))
    if part.get("digest") not in {None, compute_digest(done.encode())}:
        raise VerificationFailure(
            f"part {part['layer']}: its text does not match the recorded digest"
        )
    return done


def find_text(source: JsonDict, known: Sequence[JsonDict], blobs: Mapping[str, bytes]) -> str:
    """Return the text of a part, from a blob, an event or the manifest."""
    if not BLOB_SOURCES.isdisjoint(source):
        if source["digest"] not in blobs:
            raise VerificationFailure(f"blob {source['digest']}: it is missing, or altered")
        return blobs[source["digest"]].decode()
    if "resolution" in source:
        resolution = known[int(source["resolution"]) - 1]["data"]
        return format_resolution(resolution, source["lines"], source.get("heading", ""))
    if "field" in source:
        value = known[int(source["sequence"]) - 1]["data"]
        for step in source["field"].split("."):
            value = value.get(step) if is_object(value) else None
        is_value = "." in source["field"] and source["field"] != REPLY_REASONING_FIELD
        return format_value(value if is_value else get_text(value))
    return str(source["text"])


def rebuild_run(part: JsonDict, turns: Mapping[int, Sequence[Json]]) -> Messages:
    """Rebuild a run of history: for each turn the user's text, then the reply."""
    source = part["source"]
    messages: Messages = []
    run: list[list[str]] = []
    numbers = range(source["first"], source["last"] + 1)
    for number in numbers:
        text, reply, work = (get_text(each) or "" for each in turns[number][:3])
        if source.get("condensed") == "results-1":
            work = drop_results(work)
        reply = add_outcomes(turns[number], reply)
        run.append([text, f"{work}\n\n{reply}" if source.get("work") and work else reply])
    for number, texts in zip(numbers, condense_run(source, run), strict=False):
        pairs = zip((turns[number][3] or "user", "assistant"), texts, strict=True)
        messages += [
            {"role": role, "content": text}
            for role, text in pairs
            if text or (turns[number][7] and role != "assistant")  # A picture without a word
        ]
    lines = [f"{each['role']} {compute_digest(each['content'].encode())}\n" for each in messages]
    if compute_digest("".join(lines).encode()) != part.get("digest"):
        raise VerificationFailure(
            f"turns {source['first']} to {source['last']}: "
            "their texts do not match the recorded digest"
        )
    return messages


# Files of the bundle. Nothing that is written in it leads outside its folder, or to a device.


def open_file(folder: Path, *names: str) -> BinaryIO:
    """Open a file of the bundle; raise where it, or the folder it lies in, is something else."""
    path = folder
    for name in names:
        path /= name
        if path.is_symlink():
            raise VerificationFailure(f"{'/'.join(names)}: it is a link")
    if path.exists() and not path.is_file():
        raise VerificationFailure(f"{'/'.join(names)}: it is not a file")
    return path.open("rb")


def read_file(folder: Path, *names: str) -> bytes:
    """Read a file of the bundle whole; raise where it is too large, or there is none."""
    with open_file(folder, *names) as file:
        raw = file.read(MAX_FILE + 1)
    if len(raw) > MAX_FILE:
        raise VerificationFailure(f"{'/'.join(names)}: it is larger than {MAX_FILE} bytes")
    return raw


def iterate_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a session's file; raise at the first that is longer than any event."""
    while line := file.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise VerificationFailure(f"a line is longer than {MAX_LINE} bytes")
        yield line


# The bundle: a manifest that lists its sessions and blobs, their files, and possibly a checkpoint.


@dataclass(kw_only=True)
class BundleFolder:
    """A bundle folder, with the blobs and sessions that passed their checks so far."""

    folder: Path
    manifest: JsonDict
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    sessions: dict[str, EventChain] = field(default_factory=dict[str, EventChain])
    unwitnessed: list[str] = field(default_factory=list[str])
    """What no checkpoint in the bundle covers."""

    def check_manifest(self) -> str:
        """Compare the list of sessions with the files; raise for a file that it does not name."""
        names = {f"{each['session']}.ndjson" for each in self.manifest["sessions"]}
        if (self.folder / "sessions").is_symlink():
            raise VerificationFailure("sessions: it is a link")
        for file in sorted((self.folder / "sessions").iterdir()):
            if file.name not in names:
                raise VerificationFailure(f"sessions/{file.name}: the manifest does not name it")
        return f"{len(names)} named, as there are files"

    def check_blobs(self) -> str:
        named = self.manifest["blobs"]
        for digest in named:
            if not DIGEST_FORM.fullmatch(digest):
                raise VerificationFailure(f"blob {digest!a}: it is not named by a digest")
            try:
                raw = read_file(self.folder, "blobs", digest.replace(":", "-"))
            except FileNotFoundError:
                continue
            if self.is_named_by(digest, raw):
                self.blobs[digest] = raw
        if bad := [digest for digest in named if digest not in self.blobs]:
            raise VerificationFailure(
                f"blob {bad[0]}: it is missing, or its bytes are not those it is named by"
            )
        return f"{len(named)}, each of the digest it is named by"

    def is_named_by(self, digest: str, raw: bytes) -> bool:
        """Return whether a blob has a digest; that of a sealed text is keyed."""
        if digest.startswith("sha256:"):
            return compute_digest(raw) == digest
        key = bytes.fromhex(self.manifest.get("blob_keys", {}).get(digest, ""))
        return digest == f"hmac-sha256:{hmac.digest(key, raw, 'sha256').hex()}"

    def check_session(self, stated: JsonDict) -> str:
        name = stated["session"]
        session = self.sessions[name] = EventChain(gone=list_source_erasures(self.manifest))
        if not SESSION_FORM.fullmatch(name):
            raise VerificationFailure("it is not named by the id of a session")
        with open_file(self.folder, "sessions", f"{name}.ndjson") as file:
            keys = stated.get("keys", {})
            session.read_lines(iterate_lines(file), self.manifest["tenant"], name, keys)
        if (len(session.heads), session.heads[-1:]) != (stated["events"], [stated["head"]]):
            raise VerificationFailure(
                f"event {stated['events']}: it is not the one that was exported as the last"
            )
        prompts = [self.rebuild_prompt(session, *made) for made in session.iterate_calls()]
        gone = f"; the words of {len(session.erased)} events are erased" if session.erased else ""
        sent = f"{len(prompts)} prompts as they were sent"
        return f"{stated['events']} events in one chain, {sent}{gone}"

    def find_prompt(self, name: str, call: str) -> Messages:
        """Return a prompt to print; raise where it is missing or differs from the record."""
        session = self.sessions.get(name, EventChain())
        made = [each for each in session.iterate_calls() if each[1].get("call") == call]
        if not made:
            raise VerificationFailure(f"session {name} has no call {call}")
        return self.rebuild_prompt(session, *made[-1])

    def rebuild_prompt(self, session: EventChain, place: int, call: JsonDict) -> Messages:
        """Rebuild the prompt of a call; raise where it differs from the record."""
        try:
            return verify_prompt(call, session, self.blobs)
        except (VerificationFailure, *MALFORMED) as error:
            raise VerificationFailure(
                f"event {place}: the prompt of call {call.get('call')}: {describe_error(error)}"
            ) from None

    def check_children(self) -> str:
        """Compare what sessions recorded of turns of their children with the children's record."""
        claims = [(name, *each) for name in self.sessions for each in self.iterate_claims(name)]
        for name, place, data, digest in claims:
            fault = self.find_child_fault(data, digest) or self.find_input_fault(name, data)
            if fault:
                raise VerificationFailure(
                    f"session {name}, event {place}: "
                    f"turn {data['child_turn']} of {data['session']} {fault}"
                )
        return f"{len(claims)} requests and ends of turns, as in the record of the child"

    def find_child_fault(self, data: JsonDict, digest: str | None) -> str | None:
        """Return what a child's record contradicts of its parent's event, or None.

        The digest is that of the text that the parent recorded. A child that is not in the bundle
        contradicts nothing but a reply.
        """
        turn, outcome = data["child_turn"], data.get("outcome")
        events = self.sessions.get(data["session"], EventChain()).events
        asked = collect_text_digests(events, turn, SUBMISSION_TYPES)
        replied = collect_text_digests(events, turn, REPLY_TYPES)
        if outcome is None and asked and digest not in asked:
            return "was asked something else than its parent wrote"
        if outcome == "answered" and digest not in replied:
            return "did not reply what its parent recorded"
        cut = any(e["type"] in UNANSWERED_TYPES and e["data"]["turn"] == turn for e in events)
        if outcome in {"failed", "cancelled"} and replied and not cut:
            return f"replied, and its parent recorded that it was {outcome}"
        return None

    def find_input_fault(self, parent: str, data: JsonDict) -> str | None:
        """Return which input a child's turn refers to that is not that of its parent's turn."""
        turn, child = data["turn"], self.sessions.get(data["session"], EventChain())
        _, asked = find_submission(child.events, data["child_turn"])
        sequence, own = find_submission(self.sessions[parent].events, turn)
        handed = {each["name"]: each["digest"] for each in own.get("parent_inputs", ())}
        # The child names the session that opened it, of which the parent here may be a fork.
        opener = child.events[0]["data"]["origin"]["session"] if asked else parent
        place = {"session": opener, "turn": turn, "sequence": sequence}
        for each in asked.get("parent_inputs", ()):
            text = own.get("inputs", {}).get(each["name"])
            digest = compute_digest(text.encode()) if text else handed.get(each["name"])
            if each["digest"].startswith("hmac-"):  # Its text is a blob here, if a prompt has it
                digest = each["digest"]
            if each != {"name": each["name"], "digest": digest, **place}:
                return f"refers to input {each['name']} of its parent's turn {turn}, not as it is"
        return None

    def find_plain_digest(self, digest: str | None) -> str | None:
        """Return the digest that compares with those of texts, for one that is keyed."""
        text = self.blobs.get(digest or "")
        return compute_digest(text) if text is not None else digest

    def iterate_claims(self, name: str) -> Iterator[tuple[int, JsonDict, str | None]]:
        """Yield what a session recorded of turns of its children, and the digest of the text."""
        texts = dict[Json, Json]()
        erased = self.sessions[name].erased
        for place, event in enumerate(self.sessions[name].events, 1):
            kind, data = event["type"], event["data"]
            key = (data.get("call"), data.get("id"))
            if place in erased or (kind in CHILD_CLAIM_TYPES and key not in texts):
                continue  # What was asked or answered is erased.
            if kind == "turnlog.tool-called.v1":
                texts[key] = data["arguments"]
            elif kind == "turnlog.child-requested.v1":
                query = parse_object(texts[key].encode(), "the query")["query"]
                query = UNSTORABLE.sub("\ufffd", query)
                yield place, data, compute_digest(query.encode())
            elif kind == "turnlog.tool-returned.v1":
                texts[key] = self.find_plain_digest(data.get("result"))
            elif kind == "turnlog.child-settled.v1":
                yield place, data, texts[key]

    def check_checkpoint(self, trusted: str | None) -> str:
        """Compare the ends of the sessions with the checkpoint, and collect what it leaves out.

        What the manifest states of a session is covered where it ends with the noted event.
        """
        signed = parse_object(read_file(self.folder, "checkpoint.json"), "checkpoint.json")
        noted = signed["checkpoint"]
        keys = [each["key"] for each in signed["signatures"]]
        for each in signed["signatures"]:
            if each["algorithm"] != "ed25519" or not is_signed(
                encode_canonical(summarise_heads(noted)),
                b64decode(each["signature"], validate=True),
                b64decode(each["key"], validate=True),
            ):
                raise VerificationFailure(f"the signature is not that of {each['key']}")
        if not keys or trusted not in {None, *keys}:
            raise VerificationFailure(f"it is not signed by {trusted or 'anybody'}")
        if noted["tenant"] != self.manifest["tenant"]:
            raise VerificationFailure(f"it is one of tenant {noted['tenant']}")
        for name, session in self.sessions.items():
            head = noted["sessions"].get(name)
            if trusted and not head:
                raise VerificationFailure(f"session {name}: nothing of it is signed")
            if head and session.heads[head["sequence"] - 1 :][:1] != [head["hash"]]:
                raise VerificationFailure(
                    f"session {name}, event {head['sequence']}: it is not the one noted"
                )
            first, last = head["sequence"] + 1 if head else 1, len(session.heads)
            if first <= last:
                self.unwitnessed.append(f"session {name}: events {first} to {last} are not signed")
        covered = sum(name in noted["sessions"] for name in self.sessions)
        return f"{covered} of the sessions as noted {noted['at']}, signed by {', '.join(keys)}"


def open_bundle(folder: Path) -> BundleFolder:
    listed = parse_object(read_file(folder, "manifest.json"), "manifest.json")
    return BundleFolder(folder=folder, manifest=listed)


def check_record(bundle: BundleFolder) -> bool:
    """Check what needs no signature, print a line for each, and return whether all is sound."""
    sound = [run_check("manifest", bundle.check_manifest), run_check("blobs", bundle.check_blobs)]
    for stated in bundle.manifest["sessions"]:
        sound += [run_check(f"session {stated['session']}", bundle.check_session, stated)]
    if any(each.has_children() for each in bundle.sessions.values()):
        sound += [run_check("children", bundle.check_children)]
    if not bundle.sessions:
        raise VerificationFailure("manifest.json: it names no session")
    return all(sound)


def check_bundle(bundle: BundleFolder, trusted: str | None) -> int:
    """Run all checks, print a line for each, and return the exit code."""
    is_sound = check_record(bundle)
    if trusted or (bundle.folder / "checkpoint.json").exists():
        is_sound &= run_check("checkpoint", bundle.check_checkpoint, trusted)
    else:
        bundle.unwitnessed.append("checkpoint: there is none, so nothing here is signed")
    for what in bundle.unwitnessed:
        print(escape_text(f"  --    {what}"))
    if not is_sound:
        return EXIT_FAILED
    return EXIT_UNWITNESSED if bundle.unwitnessed else 0


def main(folder: Path, words: Sequence[str]) -> int:
    """Check the bundle in a folder, print the results, and return the exit code."""
    parser = argparse.ArgumentParser(description="Checks the Turnlog bundle it lies in.")
    parser.add_argument("--key", help="the signer's public key, as you have it from the signer")
    parser.add_argument("--prompt", nargs=2, metavar=("SESSION", "CALL"), help="show it as well")
    arguments = parser.parse_args(words)
    try:
        bundle = open_bundle(folder)
        code = check_bundle(bundle, arguments.key)
        print(VERDICTS[code])
        if arguments.prompt:
            prompt = bundle.find_prompt(*arguments.prompt)
            prompt_json = json.dumps(prompt, indent=2, ensure_ascii=False)
            print("\n".join(map(escape_text, prompt_json.split("\n"))))
    except (VerificationFailure, OSError, *MALFORMED) as error:
        print(escape_text(f"FAILED  {describe_error(error)}"))
        return EXIT_FAILED
    return code


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent, sys.argv[1:]))
