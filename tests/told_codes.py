"""Every code that the product tells people, found in its source: in the named SQL statements and in Python.

A site that cannot be read fails the tests that use this: codes and parameters are written as literals where they are told.
Longer than most, because the readings of SQL and of Python stand side by side and are held to the same rules.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import blsflow.domain
import blsflow.ports
from blsflow.domain.conversation import RunAlert, RunState
from blsflow.domain.events import Level
from blsflow.domain.execution import JobState
from blsflow.domain.units import HashFamily
from blsflow.flow.benchmark import STEPS
from blsflow.ports.sampling import ExecutionStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "layers/core/blsflow"
STATEMENTS = SOURCE / "adapters/postgres/sql"

NOT_FOR_PEOPLE: frozenset[type[StrEnum]] = frozenset({HashFamily, Level, RunAlert, ExecutionStatus})
"""Lists of names that are no codes of their own: units, levels, and the two that codes are composed of."""
COMPOSED: Mapping[str, Collection[str]] = {
    "attempt_": list(RunAlert),
    "run_": [state for state in RunState if state.is_end and state is not RunState.SUCCEEDED],
    "job_": [state for state in JobState if state.is_end and state is not JobState.SUCCEEDED],
    "execution_": list(ExecutionStatus),
}
"""Codes that are composed of a prefix and a name of a closed list."""

_TOLD_COLUMNS = frozenset({"reason", "state", "cause", "outcome", "restore_status"})
_LISTED_COLUMNS = "state|action|cause|expected|outcome|mode|execution_mode|step|benchmark_step|restore_action"
_TOLD_NAMES = frozenset({"reason", "cause", "waiting_for", "failed_for", "problem"})
_TOLD_BY = re.compile(r"objection|why|waiting_for|^_end$|_status$")
_TELLING_CALLS = frozenset(
    {"end_unsent", "_end_unsent", "_end_all_unsent", "_not_taken", "postpone_benchmark", "rescue_benchmark",
     "begin_benchmark_step"}
)  # fmt: skip
_CODE = re.compile(r"^[a-z][a-z0-9_]*$")
_TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\w+|\|\||\s+|.", re.DOTALL)
_INSERT = re.compile(r"insert into smart_schedule_(?P<table>\w+)(?: as \w+)?\s*\(")
_TELLING_TABLES = frozenset({"log_events", "outbox"})


class UnreadableSiteError(Exception):
    """A place that tells people something, and does not say what in a way that can be read from its source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """One place where an event or a notification is written; ``required`` are always there, ``optional`` sometimes."""

    where: str
    code: str
    required: frozenset[str]
    optional: frozenset[str] = frozenset()


def told_messages(sql: Mapping[str, str], python: Mapping[str, str]) -> list[Site]:
    """Return each place that writes a log event or a notification, in texts of statements and modules by their names."""
    trees = {name: ast.parse(text) for name, text in python.items()}
    details = _freeze_details(trees.values())
    return [
        *(site for name, text in sql.items() for site in _sql_sites(name, text)),
        *(site for name, tree in trees.items() for site in _python_sites(name, tree, details)),
    ]


def told_words(sql: Mapping[str, str], python: Mapping[str, str]) -> dict[str, str]:
    """Return each code of a state, an action, a reason or a cause, with where it was found."""
    found = dict.fromkeys(STEPS, "the steps of a benchmark run")
    for enum in set(_enums()) - NOT_FOR_PEOPLE:
        found |= {str(member): enum.__name__ for member in enum}
    for name, text in sql.items():
        found |= dict.fromkeys(_words_of_statements(text), name)
    for name, text in python.items():
        found |= dict.fromkeys(_words_of_module(ast.parse(text)), name)
    return found


def statements() -> dict[str, str]:
    """Return the product's SQL files, and its schema, by name."""
    files = [*sorted(STATEMENTS.glob("*.sql")), ROOT / "docs/schema.sql"]
    return {path.name: path.read_text(encoding="utf-8") for path in files}


def modules() -> dict[str, str]:
    """Return the product's Python modules by path."""
    return {
        str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8")
        for path in sorted(SOURCE.rglob("*.py"))
    }


def _enums() -> Iterator[type[StrEnum]]:
    for package in (blsflow.domain, blsflow.ports):
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for member in vars(importlib.import_module(info.name)).values():
                if isinstance(member, type) and issubclass(member, StrEnum) and member is not StrEnum:
                    yield member


# ---------------------------------------------------------------- SQL


def _sql_sites(file: str, text: str) -> Iterator[Site]:
    for statement in text.split("-- name: ")[1:]:
        name = f"{file}, {statement.partition(chr(10))[0]}"
        yield from _statement_sites(name, _without_comments(statement))


def _without_comments(text: str) -> str:
    return "".join(token for token in _TOKEN.findall(text) if not token.startswith("--"))


def _statement_sites(where: str, text: str) -> Iterator[Site]:
    for table, row in _inserted(text):
        if table not in _TELLING_TABLES or re.fullmatch(r"\w\.code|:event_code", row.get("code", "")):
            continue  # the latter is what Python wrote, and is read there
        params = re.fullmatch(r"jsonb_build_object\((.*)\)", row.get("params", ""), re.DOTALL)
        if params is None or "code" not in row:
            raise UnreadableSiteError(where)
        keys = [_literal(key.strip(), where) for key in _split(params[1], ",")[::2] if params[1]]
        for code in _codes_of(row["code"], where):
            yield Site(where=where, code=code, required=frozenset(keys))


def _inserted(statement: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Return what a statement inserts: tables with the expression of each column."""
    for insert in _INSERT.finditer(statement):
        columns, _, rest = statement[insert.end() :].partition(")")
        names = [column.strip() for column in columns.split(",")]
        for select in _split(_until_closed(rest), "union all"):
            values = _split(_split(select.strip().removeprefix("select"), "from")[0], ",")
            row = dict(zip(names, (value.strip() for value in values), strict=False))
            yield insert["table"], row if len(values) == len(names) else {}


def _codes_of(expression: str, where: str) -> list[str]:
    composed = re.fullmatch(r"'(\w+)' \|\| \w+", expression)
    if composed is not None:
        prefix = str(composed[1])
        return [prefix + member for member in COMPOSED[prefix]]
    codes = _outcomes(expression)
    if not codes:
        raise UnreadableSiteError(where)
    return codes


def _outcomes(expression: str) -> list[str]:
    """Return the literals that an expression can come to: those of its conditions are none of them."""
    told = re.sub(r"\b(case|when)\b((?!\bthen\b|\bcase\b).)*\bthen\b", "then ", expression, flags=re.DOTALL)
    told = re.sub(r"\((?:select|exists)\b.*?\)", "", told, flags=re.DOTALL)
    return [text for text in re.findall(r"'([^']*)'", told) if _CODE.match(text)]


def _literal(text: str, where: str) -> str:
    if not re.fullmatch(r"'\w+'", text):
        raise UnreadableSiteError(f"{where}: parameter {text}")
    return text[1:-1]


def _until_closed(text: str) -> str:
    """Return what comes before the parenthesis that closes the common table expression, if there is one."""
    depth, end = 0, 0
    for token in _TOKEN.findall(text):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth < 0:
            break
        end += len(token)
    return text[:end]


def _split(text: str, separator: str) -> list[str]:
    """Split outside of parentheses, quotes and cases."""
    parts, depth, tokens = [""], 0, _TOKEN.findall(text.replace("union all", "union_all"))
    for token in tokens:
        depth += {"(": 1, ")": -1, "case": 1, "end": -1}.get(token, 0)
        if depth == 0 and token == separator.replace(" ", "_"):
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _words_of_statements(text: str) -> Iterator[str]:
    for listed in re.finditer(rf"\((?:{_LISTED_COLUMNS}) = ANY \(ARRAY\[(.*?)\]", text):
        yield from re.findall(r"'(\w+)'::text", listed[1])
    text = _without_comments(text)
    for _, row in _inserted(text):
        for column in _TOLD_COLUMNS & row.keys():
            yield from _outcomes(row[column])
    tokens = _TOKEN.findall(text)
    for index, token in enumerate(tokens):
        if token in _TOLD_COLUMNS and "".join(tokens[index + 1 : index + 4]).strip() == "=":
            yield from _outcomes(_expression("".join(tokens[index + 4 : index + 400])))
        if token.strip("'") in _TOLD_COLUMNS and token.startswith("'") and tokens[index + 1] == ",":
            yield from _outcomes(_expression("".join(tokens[index + 2 : index + 100])))


def _expression(text: str) -> str:
    depth, told = 0, ""
    for token in _TOKEN.findall(text):
        depth += {"(": 1, ")": -1, "case": 1, "end": -1}.get(token, 0)
        if depth < 0 or (
            depth == 0 and token in {",", ";", "where", "from", "returning", "and", "or", "then"}
        ):
            break
        told += token
    return told


# ---------------------------------------------------------------- Python


def _python_sites(name: str, tree: ast.AST, details: frozenset[str]) -> Iterator[Site]:
    for function in _functions(tree):
        for call in _calls(function, {"LogEvent", "Notification"}):
            where = f"{name}:{call.lineno}"
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            if isinstance(given["code"], ast.Subscript):
                continue  # a row that is read again
            codes = _constants(given["code"])
            if not codes:
                raise UnreadableSiteError(where)
            required, optional = _keys(given.get("params", ast.Dict([], [])), function, details, where)
            for code in codes:
                yield Site(where=where, code=code, required=required, optional=optional)


def _keys(
    node: ast.expr, function: ast.AST, details: frozenset[str], where: str
) -> tuple[frozenset[str], frozenset[str]]:
    if isinstance(node, ast.Name):
        node = _assigned(node.id, function, where)
    if not isinstance(node, ast.Dict):
        raise UnreadableSiteError(where)
    required: set[str] = set()
    optional: set[str] = set()
    for key, value in zip(node.keys, node.values, strict=True):
        if key is not None:
            required |= set(_constants(key))
        elif isinstance(value, ast.IfExp):
            for branch in (value.body, value.orelse):
                optional |= _keys(branch, function, details, where)[0]
        elif isinstance(value, ast.Attribute) and value.attr == "detail":
            optional |= details
        else:
            raise UnreadableSiteError(where)
    return frozenset(required), frozenset(optional)


def _assigned(name: str, function: ast.AST, where: str) -> ast.expr:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in node.targets
        ):
            return node.value
    raise UnreadableSiteError(where)


def _freeze_details(trees: Iterable[ast.AST]) -> frozenset[str]:
    """Return the figures that freezes come with: they are written as they are."""
    keys: set[str] = set()
    for tree in trees:
        for call in _calls(tree, {"Freeze"}):
            detail = next((each.value for each in call.keywords if each.arg == "detail"), ast.Dict([], []))
            keys |= _keys(detail, tree, frozenset(), f"a freeze in line {call.lineno}")[0]
    return frozenset(keys)


def _words_of_module(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg=str(name), value=value) if name in _TOLD_NAMES:
                yield from _constants(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in _TOLD_NAMES:
                yield from _constants(value)
            case ast.Call(args=arguments) if _called(node) in _TELLING_CALLS:
                for argument in arguments:
                    yield from _constants(argument)
            case ast.FunctionDef(name=name) if _TOLD_BY.search(name):
                yield from _words_of_answers(node)


def _words_of_answers(function: ast.AST) -> Iterator[str]:
    """Return what a function that says why can answer, directly or from a table of conditions by their codes."""
    for node in ast.walk(function):
        match node:
            case ast.Return(value=ast.expr() as value):
                yield from _constants(value)
            case ast.Dict(keys=keys):
                for key in keys:
                    yield from _constants(key) if key is not None else ()


def _constants(node: ast.expr) -> list[str]:
    """Return the codes that an expression can come to."""
    match node:
        case ast.Constant(value=str(text)) if _CODE.match(text):
            return [text]
        case ast.IfExp(body=body, orelse=orelse):
            return _constants(body) + _constants(orelse)
        case ast.BoolOp(values=nodes) | ast.Tuple(elts=nodes):
            return [code for each in nodes for code in _constants(each)]
        case ast.JoinedStr(values=[ast.Constant(value=str(prefix)), ast.FormattedValue()]) if (
            prefix in COMPOSED
        ):
            return [str(prefix) + name for name in COMPOSED[prefix]]
    return []


def _functions(tree: ast.AST) -> Iterator[ast.AST]:
    return (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _calls(tree: ast.AST, names: set[str]) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _called(node) in names)


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
