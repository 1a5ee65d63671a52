"""Writing an answer: JSON as RFC 8259 has it, within what Lambda takes back from a function."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools.shared.json_encoder import Encoder

from blsflow.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_BYTES: Final = 5_500_000
"""Of a body within the function's own answer; Lambda refuses one of more than 6 MB, and API Gateway would say 500."""


def as_json(body: object) -> str:
    """Write a body, in UTF-8 as it is read by people too; `ValueError` if a number in it has no JSON form."""
    return json.dumps(body, separators=(",", ":"), cls=Encoder, allow_nan=False, ensure_ascii=False)


def require_bounded(response: Mapping[str, Any]) -> None:
    """Raise the `Problem` ``answer_too_large`` for an answer that could not be handed over."""
    body = response.get("body") or ""
    # as a runtime may write it: a text within JSON, whose own quotes take two bytes each, and other letters up to six
    size = len(json.dumps(body)) if 6 * len(body) > MOST_BYTES else 0
    if size > MOST_BYTES:
        raise Problem(
            "answer_too_large",
            f"the answer would take {size} bytes, and {MOST_BYTES} are the most: ask for fewer with limit, or for less",
            size=size,
            limit=MOST_BYTES,
        )
