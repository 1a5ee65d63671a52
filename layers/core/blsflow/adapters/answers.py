"""What the JSON answer of any service says, as far as that does not depend on its contract.

Texts come back bounded, and without characters that a database cannot keep (NUL, lone surrogates) or that would
break a log line.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from blsflow.adapters.http import HttpAnswer

MAX_TEXT_CHARS: Final = 500
BUSY: Final = frozenset({HTTPStatus.LOCKED, HTTPStatus.TOO_MANY_REQUESTS})
AMBIGUOUS_CLIENT_ERRORS: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT})
"""Client errors that do not say that nothing happened: a proxy gave up waiting, or the key is in use."""
SUCCESS: Final = range(200, 300)
CLIENT_ERROR: Final = range(400, 500)


class OutsideContractError(Exception):
    """An answer that the contract does not know; the message says what is wrong with it."""


def document_of(answer: HttpAnswer) -> dict[str, Any]:
    """Return the answer's JSON object; OutsideContractError if it is none."""
    if not isinstance(answer.body, dict):
        raise OutsideContractError("the answer is not a JSON object")
    return answer.body


def problem_code(answer: HttpAnswer) -> str:
    """Return the stable code of an RFC 9457 problem, or one made from the status."""
    return _member(answer, "code") or f"http_{answer.status}"


def problem_detail(answer: HttpAnswer) -> str:
    """Return a problem's words for a person, or nothing."""
    return _member(answer, "detail")


def described(answer: HttpAnswer) -> str:
    """Return status and code in one line, as the cause of something that stays open."""
    return f"http {answer.status}: {problem_code(answer)}"


def words(text: str) -> str:
    """Return a text for people, cut to MAX_TEXT_CHARS, with a blank for each character that cannot be shown."""
    return "".join(char if char.isprintable() else " " for char in text[:MAX_TEXT_CHARS]).strip()


def identifier(document: dict[str, Any], name: str, *, max_chars: int) -> str:
    """Return an id as it stands; OutsideContractError unless it is a text of 1 to max_chars characters that can be shown."""
    value = document.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= max_chars or not value.isprintable():
        raise OutsideContractError(f"the answer has no usable {name!r}")
    return value


def rows(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a list of objects; OutsideContractError if it is none."""
    value = document.get(name)
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise OutsideContractError(f"the answer has no list {name!r}")
    return value


def _member(answer: HttpAnswer, name: str) -> str:
    value = answer.body.get(name) if isinstance(answer.body, dict) else None
    return words(value) if isinstance(value, str) else ""
