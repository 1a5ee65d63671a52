"""What stands between a decision and its execution, in every combination."""

from __future__ import annotations

from itertools import product

import pytest

from blsflow.domain.gates import Gates, withheld
from blsflow.domain.policy import ExecutionMode
from tests.scenes import a_policy

EXECUTING = a_policy(execution_mode=ExecutionMode.EXECUTE)


@pytest.mark.parametrize(("enabled", "configured", "lease"), list(product([True, False], repeat=3)))
def test_acting_needs_the_switch_the_service_and_the_lease(
    *, enabled: bool, configured: bool, lease: bool
) -> None:
    """R4.2, R4.3: all three, or the move is withheld and says which one is missing, the deployment's switch first."""
    found = withheld(
        EXECUTING, Gates(execute_enabled=enabled, executor_configured=configured), lease_held=lease
    )
    if not enabled:
        assert found == "execute_disabled"
    elif not configured:
        assert found == "executor_unconfigured"
    else:
        assert found == (None if lease else "lease_not_held")


@pytest.mark.parametrize("mode", [ExecutionMode.SHADOW, ExecutionMode.DRY_RUN])
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("lease", [True, False])
def test_what_never_asks_to_act_is_not_withheld(mode: ExecutionMode, *, enabled: bool, lease: bool) -> None:
    """R4.1: shadow and dry run show what they would do, whatever the deployment allows."""
    gates = Gates(execute_enabled=enabled, executor_configured=enabled)
    assert withheld(a_policy(execution_mode=mode), gates, lease_held=lease) is None


def test_the_system_has_one_name_in_the_lease() -> None:
    """R4.2: the lease of another system, such as the legacy tick, is not ours."""
    assert Gates(execute_enabled=True, executor_configured=True).holder == "blsflow"
