from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blsflow.web.problems import Problem
from functions.api.reading import DEEPEST, MOST_BYTES, strict_json, with_text_body

if TYPE_CHECKING:
    from collections.abc import Callable

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def _read(raw: bytes) -> object:
    event = with_text_body({"body": base64.b64encode(raw).decode(), "isBase64Encoded": True})
    return None if event["body"] is None else strict_json(event["body"])


def _outcome(call: Callable[[], object]) -> object:
    """What it returns, or the code of its refusal."""
    try:
        return call()
    except Problem as refused:
        return refused.code


@given(raw=st.binary())
def test_any_bytes_are_an_object_or_a_refusal(raw: bytes) -> None:
    """R9.2: whatever arrives as a body, it is read as an object or refused as malformed, and nothing else happens."""
    found = _outcome(lambda: _read(raw))
    assert found is None or isinstance(found, dict) or found == "malformed_request"


@given(text=st.text(alphabet='{}[]":,0123456789eE+-.truefalsn\\u \x00\ufeff'))
def test_anything_that_looks_like_json_is_an_object_or_a_refusal(text: str) -> None:
    """R9.2: the same of texts that are nearly JSON."""
    found = _outcome(lambda: strict_json(text))
    assert isinstance(found, dict) or found == "malformed_request"


@given(document=st.dictionaries(st.text(), _JSON, max_size=4))
def test_a_document_is_read_as_it_was_written(document: dict[str, object]) -> None:
    """R9.2: what is JSON arrives with the same values, whether the gateway sent it as text or as base64."""
    text = json.dumps(document)
    assert strict_json(text) == document
    assert _read(text.encode()) == document
    assert with_text_body({"body": text, "isBase64Encoded": False})["body"] == text


@pytest.mark.parametrize(("text", "value"), [("3.0", 3), ("-0.0", 0), ("1e3", 1000), ("3.5", 3.5), ("3", 3)])
def test_a_whole_number_is_an_integer_however_it_is_written(text: str, value: float) -> None:
    """R9.2: as JSON Schema has it; a fraction stays one."""
    found = strict_json(f'{{"a": {text}}}')["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("text", ["1e17", "-1e17", "9007199254740994.0"])
def test_a_float_that_no_longer_says_which_integer_stays_one(text: str) -> None:
    """R9.2: an id that was rounded on its way is not taken for another."""
    assert isinstance(strict_json(f'{{"a": {text}}}')["a"], float)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}', '{"a": 1e999}', '{"a": 1, "a": 1}', '{"b": {"a": 1, "a": 2}}',
        "[]", "null", "1", '"a"', "", " ", "{", "{}{}", "\ufeff{}", '{"a": ' + "9" * 5000 + "}", '{"a": 01}', "{'a': 1}",
        "[" * 100_000, '{"a":' * 100_000,
    ],
)  # fmt: skip
def test_what_is_not_the_json_of_the_rfc_is_refused(text: str) -> None:
    """R9.2: no constants of JavaScript, no name twice, an object at the top, and nothing that exhausts the reader."""
    with pytest.raises(Problem) as refused:
        strict_json(text)
    assert refused.value.code == "malformed_request"


@pytest.mark.parametrize(("levels", "passes"), [(DEEPEST - 1, True), (DEEPEST, False), (10 * DEEPEST, False)])
def test_depth_is_bounded(levels: int, *, passes: bool) -> None:
    """R9.2: a body has so many levels and no more."""
    text = '{"a":' * levels + "1" + "}" * levels
    if passes:
        assert strict_json(text)
        return
    with pytest.raises(Problem, match="deeper"):
        strict_json(text)


@pytest.mark.parametrize("encoded", [True, False])
def test_size_is_bounded(*, encoded: bool) -> None:
    """R9.2: a byte too many is refused before anything is read of it."""
    for size, passes in ((MOST_BYTES, True), (MOST_BYTES + 1, False)):
        body = "a" * size
        event = {
            "body": base64.b64encode(body.encode()).decode() if encoded else body,
            "isBase64Encoded": encoded,
        }
        if passes:
            assert with_text_body(event)["body"] == body
            continue
        with pytest.raises(Problem) as refused:
            with_text_body(event)
        assert (refused.value.code, refused.value.params) == ("payload_too_large", {"limit": MOST_BYTES})


@pytest.mark.parametrize("body", ["!", "a", "\u00e9", base64.b64encode(b"\xff\xfe").decode(), "\ud800"])
def test_what_is_no_text_is_refused(body: str) -> None:
    """R9.2: neither base64 that is none nor bytes that are no UTF-8 reach the reader."""
    with pytest.raises(Problem) as refused:
        with_text_body({"body": body, "isBase64Encoded": True})
    assert refused.value.code == "malformed_request"
