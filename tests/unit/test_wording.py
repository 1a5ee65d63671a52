"""Texts that people write: what a name may have, what a longer text, and when either says something."""

from __future__ import annotations

import re

import pytest

from blsflow.domain.wording import NAME_PATTERN, is_name, is_prose, says_something

BOTH = ["coin A", "矿场 一", "⛏️ rigs", "عربي", "a\u200bb", "a\u00a0b", "~", ""]
ONLY_PROSE = ["two\nlines", "tab\there", "\r\n", "a\u2028b", "\u202egnol", "\u2066x\u2069"]
NEITHER = ["\x00", "\x07", "\x1b[2J", "\x7f", "\x9b31m", "\x85", "\x0b", "\x0c", "\ud800"]


@pytest.mark.parametrize("text", [*BOTH, *ONLY_PROSE, *NEITHER])
def test_which_characters_a_text_may_have(text: str) -> None:
    """R9.2: no control characters anywhere, no line breaks and no overrides of direction in names."""
    assert is_name(text) is (text in BOTH)
    assert is_prose(text) is (text not in NEITHER)


@pytest.mark.parametrize("text", [each for each in (*BOTH, *ONLY_PROSE, *NEITHER) if each != "\ud800"])
def test_the_published_pattern_says_the_same(text: str) -> None:
    """R9.1: what the document allows is what the code takes."""
    assert (re.search(NAME_PATTERN, text) is not None) is is_name(text)


@pytest.mark.parametrize("text", ["", " \n", "\u200b", "\u2060\u200d", "\u00a0", "\u202e", "\ufeff"])
def test_what_cannot_be_seen_says_nothing(text: str) -> None:
    """R9.2: a name or a reason that nobody sees is none."""
    assert not says_something(text)
    assert says_something(f"{text}x")
