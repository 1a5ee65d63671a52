"""That no permission can be forgotten by `make privileges`, and that it takes away exactly one at a time."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.privileges.needs import NEEDS, UNENFORCED
from tests.privileges.permissions import Permission, Place, granted, without
from tests.privileges.report import BEGIN, DOCUMENT, END, Row, table
from tests.privileges.show import refused
from tests.privileges.stage import Observed
from tests.template import as_list

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY = Path(__file__).parents[2]
_QUEUE = Permission("TickRole", "sqs:SendMessage*", "DecideQueue")


def test_every_permission_of_the_template_is_gone_through() -> None:
    """R11.1: each one is shown to be needed, or is known not to be asked for by the emulator; never both, and no other is."""
    passing = {each for each in granted() if each.action in UNENFORCED}
    assert set(NEEDS) | passing == set(granted())
    assert not set(NEEDS) & passing
    assert set(UNENFORCED) == {each.action for each in passing}


def test_what_a_failure_is_known_by_is_still_said() -> None:
    """R11.1: words of the product by which a refusal is known are words that its API says."""
    said = "".join(
        path.read_text(encoding="utf-8") for path in (REPOSITORY / "functions" / "api").glob("*.py")
    )
    words = {need.says for need in NEEDS.values() if need.says is not None}
    assert words
    assert {each for each in words if each not in said} == set()


def _allowed(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (action, resource)
        for statement in document["Statement"]
        for action in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    ]


@pytest.mark.parametrize("statement", [0, 1])
@pytest.mark.parametrize("resource", [0, 1])
@pytest.mark.parametrize("action", ["read", "write"])
def test_exactly_one_permission_is_taken_away(statement: int, resource: int, action: str) -> None:
    """R11.1: one action on one resource goes; the same action on another, and another on the same, stay."""
    document = {
        "Statement": [
            {"Effect": "Allow", "Action": ["read", "write"], "Resource": ["a", "b"]},
            {"Effect": "Allow", "Action": ["read", "write"], "Resource": ["c", "d"]},
        ]
    }
    left = _allowed(without("p", document, {(action, Place("p", statement, resource))}))
    assert sorted([*left, (action, "abcd"[2 * statement + resource])]) == sorted(_allowed(document))
    assert sorted(_allowed(without("other", document, {(action, Place("p", 0, 0))}))) == sorted(
        _allowed(document)
    )


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("User: x is not authorized to perform: sqs:SendMessageBatch because no", True),
        ("User: x is not authorized to perform: sqs:SendMessage because no", True),
        ("User: x is not authorized to perform: sqs:ReceiveMessage because no", False),
        ("Connection refused", False),
    ],
)
def test_only_a_refusal_of_that_action_counts(told: str, found: bool) -> None:  # noqa: FBT001 - a case's verdict
    """R11.1: work that fails for another reason does not show that the permission is needed."""
    assert (refused(_QUEUE, Observed(done=False, told=told), None) is not None) is found


def test_nothing_is_left_out_of_the_table() -> None:
    """R11.1: what was shown and what could not be are both told, each with its count."""
    trace = Permission("TickRole", "xray:PutTraceSegments", "*")
    text = table(
        [Row(_QUEUE, "not authorized", "a due policy is sent"), Row(trace, None, "no traces")],
        datetime(2026, 11, 29, tzinfo=UTC),
        300,
    )
    assert "2026-11-29, in 300 s: 1 permissions" in text
    assert "| tick | `sqs:SendMessage*` | DecideQueue | a due policy is sent | not authorized |" in text
    assert "| `xray:PutTraceSegments` | everything | tick | no traces |" in text


def test_the_published_table_is_of_the_template_as_it_stands() -> None:
    """R11.1: docs/security.md tells of every permission that is needed, by the last run of `make privileges`."""
    published = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    for each in NEEDS:
        row = f"| {each.role.removesuffix('Role').lower()} | `{each.action}` | {each.resource} |"
        assert row in published, f"run `make privileges`: {each} is not in {DOCUMENT.name}"
    for action in UNENFORCED:
        assert f"| `{action}` |" in published, f"run `make privileges`: {action} is not in {DOCUMENT.name}"
