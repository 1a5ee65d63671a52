"""Which characters a text that people write may have: it is stored, and shown in logs and mails as it is. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_CONTROLS: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff"
_UNWRITABLE: Final = re.compile(f"[{_CONTROLS}]")
_UNNAMEABLE: Final = re.compile(f"[{_CONTROLS}\t\n\r\u2028-\u202e\u2066-\u2069]")
_UNSEEN: Final = {"Cf", "Cn", "Co"}

NAME_PATTERN: Final = r"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$"
PROSE_PATTERN: Final = r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]*$"
"""The same for documents, as JSON Schema has it."""


def is_name(text: str) -> bool:
    """Whether a text is one line and shows in the order in which it is written: no control characters, no overrides."""
    return _UNNAMEABLE.search(text) is None


def is_prose(text: str) -> bool:
    """Whether a text has no control characters but line breaks and tabs."""
    return _UNWRITABLE.search(text) is None


def says_something(text: str) -> bool:
    """Whether anything of a text can be seen."""
    return any(not char.isspace() and unicodedata.category(char) not in _UNSEEN for char in text)
