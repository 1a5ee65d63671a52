"""Which other policy decides for a class or a single machine."""

from __future__ import annotations

from typing import Any

import pytest

from blsflow.domain.inputs import OtherPolicy, Scope
from blsflow.domain.policy import ExecutionMode, Policy, Window, WindowAction
from blsflow.domain.valuation import NO_RANK, overriding
from tests.scenes import NOW, a_class, a_policy, a_window_policy

CLASSES = (
    a_class(index=0, cluster_id=1, model="S19"),
    a_class(index=1, cluster_id=1, model="S21"),
    a_class(index=2, cluster_id=2, model="S21"),
)
EVERYWHERE = Scope(everything=True)
ALL_DAY = Window(id=1, starts="00:00", ends="24:00", action=WindowAction.STOP)
AFTERNOON = Window(id=1, starts="12:00", ends="13:00", action=WindowAction.STOP)
NOBODY = (0, NO_RANK)
DECIDING = a_policy(id=10)


def other(policy: Policy, scope: Scope = EVERYWHERE) -> OtherPolicy:
    """A rival with its scope."""
    return OtherPolicy(policy=policy, scope=scope)


def above(*others: OtherPolicy, deciding: Policy = DECIDING) -> list[int]:
    """Who decides for each class instead; 0: nobody."""
    return [policy_id for policy_id, _ in overriding(deciding, others, CLASSES, now=NOW).of_classes]


@pytest.mark.parametrize(
    ("deciding", "rival", "yields"),
    [
        (a_policy(id=10), a_window_policy(ALL_DAY, id=20), True),
        (a_policy(id=10, priority=99), a_window_policy(ALL_DAY, id=20), True),
        (a_policy(id=10), a_window_policy(AFTERNOON, id=20), False),
        (a_policy(id=10), a_window_policy(AFTERNOON, id=20, priority=99), False),
        (a_window_policy(ALL_DAY, id=10), a_policy(id=20, priority=99), False),
        (a_window_policy(AFTERNOON, id=10), a_policy(id=20), True),
        (a_policy(id=10), a_policy(id=20), False),
        (a_policy(id=10), a_policy(id=9), True),
        (a_policy(id=10), a_policy(id=20, priority=1), True),
        (a_policy(id=10, priority=1), a_policy(id=9), False),
        (a_window_policy(ALL_DAY, id=10), a_window_policy(ALL_DAY, id=9), True),
        (a_window_policy(ALL_DAY, id=10), a_window_policy(ALL_DAY, id=20, priority=1), True),
        (a_window_policy(ALL_DAY, id=10, priority=1), a_window_policy(ALL_DAY, id=9), False),
    ],
)
def test_windows_then_priority_then_id(deciding: Policy, rival: Policy, *, yields: bool) -> None:
    """R3.6: an active window outranks profit; among equals the higher priority, then the lower id."""
    assert above(other(rival), deciding=deciding) == [rival.id if yields else 0] * 3


@pytest.mark.parametrize(
    ("own", "rivals", "yields"),
    [
        (ExecutionMode.EXECUTE, ExecutionMode.EXECUTE, True),
        (ExecutionMode.EXECUTE, ExecutionMode.SHADOW, False),
        (ExecutionMode.EXECUTE, ExecutionMode.DRY_RUN, False),
        (ExecutionMode.SHADOW, ExecutionMode.EXECUTE, True),
        (ExecutionMode.SHADOW, ExecutionMode.SHADOW, True),
        (ExecutionMode.SHADOW, ExecutionMode.DRY_RUN, False),
        (ExecutionMode.DRY_RUN, ExecutionMode.SHADOW, True),
    ],
)
def test_one_that_only_watches_overrides_none_that_acts(
    own: ExecutionMode, rivals: ExecutionMode, *, yields: bool
) -> None:
    """R3.6: a policy yields only to those that go at least as far as itself."""
    rival = a_policy(id=9, execution_mode=rivals)
    found = above(other(rival), deciding=a_policy(id=10, execution_mode=own))
    assert found == [9 if yields else 0] * 3


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        (EVERYWHERE, [9, 9, 9]),
        (Scope(cluster_ids=frozenset({1})), [9, 9, 0]),
        (Scope(models=frozenset({"S21"})), [0, 9, 9]),
        (Scope(cluster_ids=frozenset({2}), models=frozenset({"S19"})), [9, 0, 9]),
        (Scope(machine_ids=frozenset({5})), [0, 0, 0]),
        (Scope(), [0, 0, 0]),
    ],
)
def test_only_where_the_rival_has_a_say(scope: Scope, covered: list[int]) -> None:
    """R3.6: whoever outranks decides for the machines of its own scope and no others."""
    assert above(other(a_policy(id=9), scope)) == covered


def test_a_rival_of_single_machines_overrides_those_alone() -> None:
    """R3.6: a policy over single machines is found by machine, beside whoever has the class."""
    found = overriding(
        DECIDING,
        (
            other(a_policy(id=8), Scope(machine_ids=frozenset({5, 6}))),
            other(a_policy(id=9), Scope(cluster_ids=frozenset({1}))),
            other(a_window_policy(ALL_DAY, id=20), Scope(machine_ids=frozenset({6}))),
        ),
        CLASSES,
        now=NOW,
    )
    assert [policy_id for policy_id, _ in found.of_classes] == [9, 9, 0]
    assert {machine: policy_id for machine, (policy_id, _) in found.of_machines.items()} == {5: 8, 6: 20}
    ranks = dict((*found.of_classes, *found.of_machines.values()))
    assert ranks[20] < ranks[8] < ranks[9] < ranks[0], (
        "the better rank decides where class and machine differ"
    )


def test_the_highest_of_several_rivals_is_named() -> None:
    """R3.6: the loser's record names the policy that decides, whatever order they are read in."""
    rivals: list[Any] = [
        other(a_policy(id=9)),
        other(a_policy(id=20, priority=5)),
        other(a_window_policy(ALL_DAY, id=30)),
        other(a_window_policy(ALL_DAY, id=40, priority=1)),
        other(a_window_policy(AFTERNOON, id=50, priority=9)),
        other(a_policy(id=1, execution_mode=ExecutionMode.DRY_RUN, priority=9)),
    ]
    assert above(*rivals) == above(*reversed(rivals)) == [40, 40, 40]


def test_nobody_above_is_the_worst_rank() -> None:
    """R3.6: a machine that nobody else claims is nobody's but the deciding policy's."""
    found = overriding(DECIDING, (), CLASSES, now=NOW)
    assert (found.of_classes, found.of_machines) == ((NOBODY,) * 3, {})
