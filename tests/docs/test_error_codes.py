"""The catalogue of error codes has every code that is raised, and the page is what it says."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, get_args

from tests.conventions.source_tree import ROOT
from turnlog.projections.blueprint.bounded_json import InvalidJsonReason
from turnlog.services.api.published_errors.error_catalogue import ERROR_CODES
from turnlog.services.api.published_errors.installation_codes import INSTALLATION_CODES
from turnlog.services.api.published_errors.request_codes import REQUEST_CODES
from turnlog.services.api.published_errors.session_codes import SESSION_CODES
from turnlog.services.api.published_errors.turn_failures import TURN_FAILURES
from turnlog.services.extensions import plugins
from turnlog.services.extensions.resolver_contract import ResolverFailureCode
from turnlog.services.http.problem_details import ROUTING_CODES
from turnlog.services.worker.model.model_types import FailureCode
from turnlog.services.worker.tools.tool_server_types import ServerFailureCode

REFUSALS: Final = {
    "Refused": 0,
    "build_cursor_refusal": 0,
    "create_problem": 1,
    "_build_refusal": 4,
    "AnswerTooLarge": 1,
    "RequestRedirected": 1,
    "UnusableAnswer": 1,
}
"""What makes a refusal, with the place of the code among its arguments."""

CHOSEN_ELSEWHERE: Final = {
    "services/knowledge/nats_search.py": "what the projector refused, which is read there",
    "services/cli/client/service_client.py": "the code of an answer, which its service chose",
    "services/http/problem_details.py": "the code of an error that was raised elsewhere",
    "services/extensions/plugins.py": "unknown-KIND, by the groups of entry points",
    "services/http/strict_json.py": "the reason of InvalidJson",
}
"""Files where a code is no literal, with what it then is; the test adds those."""

FAULTS: Final = {
    "AttemptFault": "code",
    "TurnFailed": "code",
    "_fail_turn": "code",
    "fail_open_turn": "code",
}


@cache
def parse_sources() -> tuple[tuple[str, ast.Module], ...]:
    texts = {path: path.read_text() for path in sorted(ROOT.glob("*/src/turnlog/**/*.py"))}
    words = (*REFUSALS, *FAULTS, "TurnUnsettled")
    return tuple(
        (str(path).partition("/turnlog/")[2], ast.parse(text))
        for path, text in texts.items()
        if any(word in text for word in words)
    )


def iterate_calls(names: frozenset[str]) -> Iterator[tuple[str, ast.Module, ast.Call, str]]:
    for file, tree in parse_sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                if isinstance(node.func, ast.Attribute):
                    # `super().__init__` of a subclass of `Refused`, whose first argument is a text
                    name = "Refused" if node.func.attr == "__init__" else node.func.attr
                if name in names:
                    yield file, tree, node, name


def list_texts(value: ast.expr, tree: ast.Module) -> list[str] | None:
    """Return the texts that an expression may be; None where it is none of this module."""
    match value:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.IfExp(body=body, orelse=other):
            found = [list_texts(each, tree) for each in (body, other)]
            return [text for each in found if each for text in each] if all(found) else None
        case ast.Name(id=name):
            assigned = (
                list_texts(node.value, tree)
                for node in ast.walk(tree)
                if isinstance(node, ast.Assign | ast.AnnAssign)
                and isinstance(node.value, ast.Constant | ast.IfExp)
                and name in list_targets(node)
            )
            return [text for each in assigned if each for text in each] or None
        case _:
            return None


def list_targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [each.id for each in targets if isinstance(each, ast.Name)]


def is_code(text: str) -> bool:
    return all(part.isalpha() and part.islower() for part in text.split("-"))


def list_raised_codes() -> tuple[set[str], set[str]]:
    """Return the codes that the code raises, and the files with one that cannot be read."""
    codes: set[str] = set()
    unread: set[str] = set()
    for file, tree, call, name in iterate_calls(frozenset(REFUSALS)):
        place = REFUSALS[name]
        named = next((each.value for each in call.keywords if each.arg == "code"), None)
        value = named or (call.args[place] if len(call.args) > place else None)
        if value is None:
            continue
        is_refusal = isinstance(call.func, ast.Name)
        texts = list_texts(value, tree)
        if texts:
            codes |= {text for text in texts if is_code(text)}
        elif is_refusal and not is_parameter(value, tree):
            unread.add(file)
    return codes, unread


def is_parameter(value: ast.expr, tree: ast.Module) -> bool:
    """Return whether an expression is a parameter, whose callers are read themselves."""
    parameters = {
        each.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name in REFUSALS
        for each in node.args.args
    }
    return isinstance(value, ast.Name) and value.id in parameters


def list_written_groups() -> set[str]:
    groups = (getattr(plugins, name) for name in dir(plugins) if name.endswith("_GROUP"))
    return {f"unknown-{group.removeprefix('turnlog.').removesuffix('s')}" for group in groups}


def test_catalogue_has_exactly_the_codes_that_are_raised() -> None:
    codes, unread = list_raised_codes()
    assert unread <= set(CHOSEN_ELSEWHERE), "write the code as a literal, or name the file above"
    codes |= list_written_groups() | set(ROUTING_CODES.values()) | {"refused"}
    codes |= {reason for reason in get_args(InvalidJsonReason) if reason in ERROR_CODES}
    codes |= {"no-answer", "unsettled"}  # defaults of parameters
    assert codes == set(ERROR_CODES)


def test_no_code_is_in_two_tables() -> None:
    tables = (REQUEST_CODES, SESSION_CODES, INSTALLATION_CODES)
    assert sum(map(len, tables)) == len(ERROR_CODES)


def test_catalogue_has_every_failure_code_of_a_turn() -> None:
    known = {*get_args(FailureCode), *get_args(ServerFailureCode), *get_args(ResolverFailureCode)}
    for _, tree, call, _ in iterate_calls(frozenset(FAULTS)):
        given = [each.value for each in call.keywords if each.arg == "code"] + call.args[2:3]
        known |= {text for value in given for text in list_texts(value, tree) or ()}
    assert known | {"check_failed", "failed", "knowledge_unavailable"} == set(TURN_FAILURES)


def test_error_page_is_fresh() -> None:
    generator = runpy.run_path(str(ROOT / "docs/generate/error_codes.py"))
    written = Path(ROOT / "docs/reference/errors.md").read_text()
    assert generator["format_page"]() == written, "it is stale: run `make docs`"


def test_failure_texts_of_the_web_page_are_fresh() -> None:
    generator = runpy.run_path(str(ROOT / "docs/generate/failure_catalogue.py"))
    written: str = generator["TARGET"].read_text()
    assert generator["build_failure_catalogue"]() == written, "it is stale: run `make docs`"
