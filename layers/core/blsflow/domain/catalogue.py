"""The one catalogue of texts for people, in English and Chinese (R9.4): `texts.toml`, which says how it is written."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Language: TypeAlias = Literal["en", "zh"]

PLACE: Final = re.compile(r"\{(?P<name>\w+)(?::(?P<kind>\w+))?\}")
"""A parameter's place in a text."""
OPTIONAL: Final = re.compile(r"\[([^\[\]]*)\]")
"""A part that is left out where one of its parameters is not there."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The same text in both languages."""

    en: str
    zh: str

    def of(self, language: Language) -> str:
        """Return the text in one language."""
        return self.zh if language == "zh" else self.en


class Placeholder(NamedTuple):
    """A parameter's place: its name, how it is shown, and whether its part may be left out."""

    name: str
    kind: str
    optional: bool


class Catalogue(NamedTuple):
    """All texts by code: ``messages`` and ``findings`` with places for parameters, ``words`` that fit into them."""

    messages: Mapping[str, Texts]
    findings: Mapping[str, Texts]
    words: Mapping[str, Texts]


@cache
def catalogue() -> Catalogue:
    """Return the catalogue, read once; it comes with the code, and tests hold it to all codes that the code writes."""
    document = tomllib.loads(files("blsflow.domain").joinpath("texts.toml").read_text(encoding="utf-8"))
    return Catalogue(
        messages={code: Texts(**texts) for code, texts in document["messages"].items()},
        findings={code: Texts(**texts) for code, texts in document["findings"].items()},
        words={code: Texts(**texts) for code, texts in document["words"].items()},
    )


def word(code: str) -> Texts:
    """Return what a state, an action, a reason or a cause is called; a code without a text stands for itself."""
    return catalogue().words.get(code) or Texts(code, code)


def placeholders(text: str) -> Iterator[Placeholder]:
    """Return the places of a message: those of its optional parts first."""
    for part in OPTIONAL.findall(text):
        yield from (Placeholder(name, kind or "plain", optional=True) for name, kind in PLACE.findall(part))
    yield from (
        Placeholder(name, kind or "plain", optional=False)
        for name, kind in PLACE.findall(OPTIONAL.sub("", text))
    )
