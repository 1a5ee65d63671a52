"""The ledger under whatever may come, in any order, on real PostgreSQL and a service over real HTTP.

`pytest tests/integration/test_ledger_machine.py --hypothesis-profile=nightly` drives it at length.
"""

from __future__ import annotations

import itertools
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from blsflow.adapters.postgres.connection import Session
from tests.integration.ledger_machine import Ledger
from tests.integration.standing import StandingScene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_BRIEFLY = settings(max_examples=15, stateful_step_count=30, derandomize=True)
_serial = itertools.count(1)


@contextmanager
def _scene(server: DatabaseAddress, template: str) -> Iterator[StandingScene]:
    name = f"ledger_{next(_serial)}"
    with closing(Session(server)) as maintenance:
        maintenance.run(f"create database {name} template {template} strategy file_copy")
        try:
            with StandingScene(replace(server, dbname=name)) as scene:
                yield scene
        finally:
            maintenance.run(f"drop database {name} with (force)")


@pytest.mark.timeout(0)
def test_the_ledger_holds_whatever_happens_in_whatever_order(
    database_server: DatabaseAddress, database_template: DatabaseAddress
) -> None:
    """R8.3, R8.4, R8.6, R8.7, R8.8, R8.11, R8.12, R5.3: the invariants hold after every step, and everything ends."""
    nightly = settings.get_current_profile_name() == "nightly"

    class Driven(Ledger):
        def __init__(self) -> None:
            self._place = _scene(database_server, database_template.dbname)
            super().__init__(self._place.__enter__())

        def teardown(self) -> None:
            try:
                super().teardown()
            finally:
                self._place.__exit__(None, None, None)

    run_state_machine_as_test(
        Driven,
        settings=settings(
            settings.default if nightly else _BRIEFLY,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
