"""Reading a request's body: JSON as RFC 8259 has it, of a bounded size and depth, and an object at the top."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from blsflow.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_BYTES: Final = 1024 * 1024
"""Of a body; the largest document that is meant to be sent (a command for 10,000 machines) is a tenth of it."""
DEEPEST: Final = 32
_LARGEST_EXACT: Final = 2**53


def with_text_body(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event with its body as text; raise a `Problem` for one that is too large or not UTF-8.

    Of the media type only the small form is left: upper and lower case mean the same in it (RFC 9110).
    """
    event = {**event, "headers": dict(map(_small_media_type, (event.get("headers") or {}).items()))}
    body = event.get("body")
    if not body:
        return {**event, "body": None, "isBase64Encoded": False}
    try:
        raw = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else body.encode()
        if len(raw) > MOST_BYTES:
            raise Problem("payload_too_large", f"send at most {MOST_BYTES} bytes", limit=MOST_BYTES)
        text = raw.decode()
    except ValueError as error:  # neither base64 nor UTF-8
        raise Problem("malformed_request", "the body is not UTF-8") from error
    return {**event, "body": text, "isBase64Encoded": False}


def _small_media_type(header: tuple[str, str]) -> tuple[str, str]:
    name, value = header
    return (name, value.lower()) if name.lower() == "content-type" else header


def strict_json(text: str) -> dict[str, Any]:
    """Parse a body; refused are NaN and Infinity, names that stand twice, what is too deep, and any top but an object."""
    try:
        document = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_number, object_pairs_hook=_without_twins
        )
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:  # JSONDecodeError, and an integer of more digits than Python reads
        raise Problem("malformed_request", f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Problem("malformed_request", "the body has to be a JSON object")
    _check_depth(document, DEEPEST)
    return document


def _refuse_constant(name: str) -> object:
    message = f"{name} is not a JSON number"
    raise ValueError(message)


def _number(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        message = "a number is too large"
        raise ValueError(message)
    # 3.0 is the integer 3, as JSON Schema has it; beyond 2**53 a float no longer says which integer it is
    return int(value) if value.is_integer() and abs(value) <= _LARGEST_EXACT else value


def _without_twins(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, value in pairs:
        if name in document:
            message = f"an object has the name {name[:40]!r} twice"
            raise ValueError(message)
        document[name] = value
    return document


def _check_depth(value: object, left: int) -> None:
    if not left:
        raise _too_deep()
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        _check_depth(child, left - 1)


def _too_deep() -> Problem:
    return Problem("malformed_request", f"the body is nested deeper than {DEEPEST} levels", limit=DEEPEST)
