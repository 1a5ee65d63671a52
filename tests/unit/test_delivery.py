"""SQS deliveries: the exact shape of the partial batch response, and each message by itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from blsflow.delivery import each_message

if TYPE_CHECKING:
    from collections.abc import Mapping


def event(*bodies: str) -> dict[str, Any]:
    """A delivery of these bodies, as messages m0, m1 ..."""
    return {"Records": [{"messageId": f"m{n}", "body": body} for n, body in enumerate(bodies)]}


def deliver(*bodies: str) -> tuple[dict[str, Any], list[Any], list[tuple[str, str]]]:
    """Return the response, the numbers that were handled, and whose failure was told with which kind of error."""
    handled: list[Any] = []
    told: list[tuple[str, str]] = []

    def handle(body: Mapping[str, Any]) -> None:
        if body["n"] < 0:
            raise ValueError(body)
        handled.append(body["n"])

    response = each_message(event(*bodies), handle, lambda at, why: told.append((at, type(why).__name__)))
    return response, handled, told


def test_a_batch_that_went_well_names_nobody() -> None:
    """R11.1: an empty list of failures, and nothing else, lets SQS delete the whole batch."""
    response, handled, told = deliver('{"n": 1}', '{"n": 2}')
    assert response == {"batchItemFailures": []}
    assert (handled, told) == ([1, 2], [])


def test_a_failure_names_its_own_message_only() -> None:
    """R11.1: what comes after a message that failed is handled all the same."""
    response, handled, told = deliver('{"n": 1}', '{"n": -1}', '{"n": 3}')
    assert response == {"batchItemFailures": [{"itemIdentifier": "m1"}]}
    assert (handled, told) == ([1, 3], [("m1", "ValueError")])


def test_what_is_no_object_fails_by_itself() -> None:
    """R11.1: bodies that are no JSON, or JSON of another kind, never reach the handler."""
    response, handled, told = deliver("", "{", "null", "[]", '"n"', "1", "{}", '{"n": 7}')
    assert response == {"batchItemFailures": [{"itemIdentifier": f"m{n}"} for n in range(7)]}
    assert handled == [7]
    kinds = ["JSONDecodeError", "JSONDecodeError", *["TypeError"] * 4, "KeyError"]
    assert told == [(f"m{n}", kind) for n, kind in enumerate(kinds)]


def test_an_empty_delivery_is_no_failure() -> None:
    """R11.1: nothing to do is done."""
    assert deliver()[0] == {"batchItemFailures": []}


@given(st.lists(st.one_of(st.integers(-3, 3).map(lambda n: json.dumps({"n": n})), st.text(max_size=5))))
def test_every_message_is_either_handled_or_named(bodies: list[str]) -> None:
    """R11.1: no message is both, none is neither, and both keep the order of the delivery."""
    response, handled, told = deliver(*bodies)
    named = [failure["itemIdentifier"] for failure in response["batchItemFailures"]]
    assert len(handled) + len(named) == len(bodies)
    assert named == [name for name, _ in told] == sorted(named, key=lambda name: int(name[1:]))
    assert set(map(frozenset, response["batchItemFailures"])) <= {frozenset({"itemIdentifier"})}
