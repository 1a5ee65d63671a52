"""`python -m tests.rules`: which rules of docs/behaviour.md the tests hold, by the names in their docstrings.

A rule is a paragraph that begins with its bold name, ``**R3.4**``; one that is not built yet says so right after
it, ``**R3.4** *(not built yet)*``. A test names the rules that it holds in its docstring.

Exit code 1: a test without a docstring or naming no rule at all, a name that no rule has, or a built rule that no test names.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

REPOSITORY = Path(__file__).resolve().parents[1]
NOT_BUILT = " *(not built yet)*"

_RULE = re.compile(r"^\*\*(R\d+\.\d+)\*\*(.*)$", re.MULTILINE)
_NAME = re.compile(r"\bR\d+\.\d+\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Test:
    """A test function, by its place, with the rules that its docstring names; None: it has no docstring."""

    place: str
    rules: frozenset[str] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """What holding the tests against the rules came to; rules and places are in the order of their sources."""

    held: int
    unheld: tuple[str, ...]
    not_built: tuple[str, ...]
    without_docstring: tuple[str, ...]
    without_rule: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def has_finding(self) -> bool:
        """Whether something has to be mended."""
        return bool(self.unheld or self.without_docstring or self.without_rule or self.unknown)


def rules_of(document: str) -> dict[str, bool]:
    """Return the rules of a document in its order, and whether each is built.

    Raises:
        ValueError: a rule stands there twice.
    """
    rules: dict[str, bool] = {}
    for name, rest in _RULE.findall(document):
        if name in rules:
            raise ValueError(f"{name} stands there twice")
        rules[name] = not rest.startswith(NOT_BUILT)
    return rules


def read_tests(source: str, path: str) -> Iterator[Test]:
    """Yield every test function of a module, also those in classes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            docstring = ast.get_docstring(node)
            yield Test(
                place=f"{path}:{node.lineno} {node.name}",
                rules=None if docstring is None else frozenset(_NAME.findall(docstring)),
            )


def cover(rules: Mapping[str, bool], tests: Iterable[Test]) -> Coverage:
    """Hold tests against rules."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    without_docstring, without_rule, unknown = [], [], []
    for test in tests:
        if test.rules is None:
            without_docstring.append(test.place)
            continue
        if not test.rules:
            without_rule.append(test.place)
        for name in sorted(test.rules):
            places[name].append(test.place)
            if name not in rules:
                unknown.append(f"{test.place}: {name}")
    return Coverage(
        held=sum(name in places for name in rules),
        unheld=tuple(name for name, built in rules.items() if built and name not in places),
        not_built=tuple(name for name, built in rules.items() if not built and name not in places),
        without_docstring=tuple(without_docstring),
        without_rule=tuple(without_rule),
        unknown=tuple(unknown),
    )


def report(coverage: Coverage) -> Iterator[str]:
    """Yield the lines that tell people what was found."""
    yield f"{coverage.held} rules are named by tests"
    if coverage.not_built:
        yield f"not built yet, and named by no test: {' '.join(coverage.not_built)}"
    findings = {
        "built, but named by no test": coverage.unheld,
        "a test without a docstring": coverage.without_docstring,
        "a test whose docstring names no rule": coverage.without_rule,
        "a test that names a rule which docs/behaviour.md does not have": coverage.unknown,
    }
    for finding, found in findings.items():
        yield from (f"{finding}: {each}" for each in found)


def main(repository: Path = REPOSITORY) -> int:
    """Print what was found in a repository; return 1 if something has to be mended."""
    rules = rules_of((repository / "docs" / "behaviour.md").read_text(encoding="utf-8"))
    tests = [
        test
        for path in sorted((repository / "tests").rglob("test_*.py"))
        for test in read_tests(path.read_text(encoding="utf-8"), str(path.relative_to(repository)))
    ]
    coverage = cover(rules, tests)
    sys.stdout.write("\n".join(report(coverage)) + "\n")
    return int(coverage.has_finding)


if __name__ == "__main__":
    sys.exit(main())
