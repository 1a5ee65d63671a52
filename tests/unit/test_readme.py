"""What the READMEs tell people to type exists, in both languages alike."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest
import typer.main
from typer.core import TyperGroup
from typer.testing import CliRunner

from blsflow_cli.main import app
from local.stack.processes import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

READMES = ("README.md", "README.zh.md")
DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")])

_BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
_INLINE = re.compile(r"`((?:make|blsflow) [^`]+)`")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def _text(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def _commands(name: str, program: str) -> list[list[str]]:
    """Every command of a program that a document names, in its blocks or within its text, as words."""
    text = _text(name)
    lines = [
        line for language, block in _BLOCK.findall(text) if language == "sh" for line in block.splitlines()
    ]
    lines += _INLINE.findall(_BLOCK.sub("", text))
    return [words[1:] for line in lines if (words := shlex.split(line))[:1] == [program]]


def _options(words: list[str]) -> set[str]:
    """The options of the command that the words name."""
    command = typer.main.get_command(app)
    while isinstance(command, TyperGroup):
        assert words[0] in command.commands, f"there is no command {words[0]!r}"
        command, words = command.commands[words[0]], words[1:]
    return {option for parameter in command.params for option in parameter.opts}


def _in_readmes(program: str) -> list[list[str]]:
    return sorted({tuple(words): words for name in READMES for words in _commands(name, program)}.values())


def _needs_nothing(words: list[str]) -> bool:
    """Whether it is told with all that it takes, and that is no deployment."""
    return (words[0] == "schema" and len(words) > 1) or any(word.startswith("examples/") for word in words)


@pytest.mark.parametrize("words", _in_readmes("make"), ids=" ".join)
def test_every_make_target_exists(words: list[str]) -> None:
    """R11.4: whatever a README says to make is a target."""
    targets = re.findall(r"^([a-z]+):.*##", _text("Makefile"), re.MULTILINE)
    assert words[0] in targets


@pytest.mark.parametrize("words", _in_readmes("blsflow"), ids=" ".join)
def test_every_command_exists(words: list[str]) -> None:
    """R11.5: whatever a README says to run is a command that has those options."""
    assert {word for word in words if word.startswith("--")} <= _options(words)


@pytest.mark.parametrize(
    "words", [words for words in _in_readmes("blsflow") if _needs_nothing(words)], ids=" ".join
)
def test_commands_that_need_nothing_run_as_written(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """R4.4: the examples that need no database run in a checkout, without a finding."""
    monkeypatch.chdir(REPOSITORY)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert result.output


def test_both_languages_show_the_same_blocks_and_headings() -> None:
    """R11.5: the two READMEs are kept in step: the same commands and pictures, as many headings of each level."""
    english, chinese = map(_text, READMES)
    assert _BLOCK.findall(english) == _BLOCK.findall(chinese)
    levels = [re.findall(r"^#+", _BLOCK.sub("", text), re.MULTILINE) for text in (english, chinese)]
    assert levels[0] == levels[1]
    links = [set(_LINK.findall(text)) - set(READMES) for text in (english, chinese)]
    assert links[0] == links[1]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    """R11.4: the repository stands alone: every relative link in its documents leads to one of its own files."""
    for link in _LINK.findall(document.read_text(encoding="utf-8")):
        assert (document.parent / link).resolve().is_relative_to(REPOSITORY), link
        assert (document.parent / link).exists(), link
