"""The check that every rule is held by a test, and that every test says which rule it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.rules import REPOSITORY, cover, main, read_tests, rules_of

if TYPE_CHECKING:
    from pathlib import Path

BEHAVIOUR = """
# Behaviour

**R1.1** It decides; R9.9 in a text is no rule.

**R1.2** *(not built yet)* It will decide more.

**R1.3** *(partly built)* It decides a little.
"""
TESTS = '''
def test_good():
    """R1.1: holds."""

class TestMore:
    async def test_two(self):
        """R1.3 and R1.2: both."""

def helper():
    pass
'''


def _repository(folder: Path, tests: str) -> Path:
    (folder / "docs").mkdir()
    (folder / "docs" / "behaviour.md").write_text(BEHAVIOUR)
    (folder / "tests" / "unit").mkdir(parents=True)
    (folder / "tests" / "unit" / "test_it.py").write_text(tests)
    return folder


def test_rules_are_the_paragraphs_that_begin_with_a_bold_name() -> None:
    """R11.4: a rule is known by its paragraph, and only one that says so is not built."""
    assert rules_of(BEHAVIOUR) == {"R1.1": True, "R1.2": False, "R1.3": True}


def test_a_rule_written_twice_is_refused() -> None:
    """R11.4: two paragraphs under one name would leave open which of them holds."""
    with pytest.raises(ValueError, match=r"R1\.1"):
        rules_of(BEHAVIOUR + "\n**R1.1** Again.\n")


def test_a_test_is_known_by_its_name_wherever_it_stands() -> None:
    """R11.4: functions of classes and coroutines are tests too, other functions are not."""
    found = {test.place.split()[-1]: test.rules for test in read_tests(TESTS, "t.py")}
    assert found == {"test_good": frozenset({"R1.1"}), "test_two": frozenset({"R1.2", "R1.3"})}


def test_a_clean_repository_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """R11.4: every built rule is named and every test names one: nothing to mend."""
    assert main(_repository(tmp_path, TESTS)) == 0
    assert capsys.readouterr().out == "3 rules are named by tests\n"


@pytest.mark.parametrize(
    ("tests", "finding"),
    [
        (TESTS.replace("R1.1", "R1.2"), "built, but named by no test: R1.1"),
        (
            TESTS.replace('"""R1.1: holds."""', "pass"),
            "a test without a docstring: tests/unit/test_it.py:2 test_good",
        ),
        (TESTS.replace("R1.1: holds", "Holds"), "names no rule: tests/unit/test_it.py:2 test_good"),
        (TESTS.replace("R1.1:", "R1.1 and R7.7:"), "does not have: tests/unit/test_it.py:2 test_good: R7.7"),
    ],
)
def test_what_has_to_be_mended_fails(
    tests: str, finding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """R11.4: an unnamed built rule, a silent test and an unknown name each fail and are told by their place."""
    assert main(_repository(tmp_path, tests)) == 1
    assert finding in capsys.readouterr().out


def test_a_rule_that_is_not_built_is_listed_and_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """R11.4: what is still to come needs no test yet, and is not forgotten either."""
    assert main(_repository(tmp_path, TESTS.replace("R1.3 and R1.2", "R1.3"))) == 0
    assert "not built yet, and named by no test: R1.2" in capsys.readouterr().out


def test_the_rules_of_this_repository_are_complete() -> None:
    """R11.4: the eleven chapters are there, each numbered from 1 without a hole."""
    rules = rules_of((REPOSITORY / "docs" / "behaviour.md").read_text(encoding="utf-8"))
    chapters: dict[int, list[int]] = {}
    for name in rules:
        chapter, number = map(int, name[1:].split("."))
        chapters.setdefault(chapter, []).append(number)
    assert list(chapters) == list(range(1, 12))
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in chapters.values())


def test_cover_counts_each_rule_once() -> None:
    """R11.4: two tests of one rule make one held rule."""
    tests = [*read_tests(TESTS, "a.py"), *read_tests(TESTS, "b.py")]
    assert cover({"R1.1": True}, tests).held == 1
