"""The storm in brief, and that it finds what it is there to find. At length: `make storm`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.storm.happenings import ENOUGH_SEQUENCES, missing, summary
from tests.storm.run import storm

if TYPE_CHECKING:
    from blsflow.adapters.postgres.connection import DatabaseAddress

SEQUENCES = int(os.environ.get("STORM_SEQUENCES", "2000"))
FIRST_SEED = 1
MOST_EVENTS = 3
"""Short sequences, for the time that a test may take; `make storm` plays longer ones."""


@pytest.mark.timeout(0)
def test_whatever_comes_in_whatever_order_the_invariants_hold(
    database_server: DatabaseAddress, database_template: DatabaseAddress, capsys: pytest.CaptureFixture[str]
) -> None:
    """R2.1, R3.2, R3.10, R4.2, R5.3, R5.4, R6.2, R8.4, R10.1: crashes, duplicates, delays, refusals, nonsense and people."""
    result = storm(
        database_server,
        database_template.dbname,
        seeds=range(FIRST_SEED, FIRST_SEED + SEQUENCES),
        processes=len(os.sched_getaffinity(0)),
        most_events=MOST_EVENTS,
    )
    assert not result.failures, "\n\n".join(result.failures)
    assert result.sequences == SEQUENCES
    with capsys.disabled():
        sys.stdout.write(f"\n{summary(result.happened)}\n")
    if SEQUENCES >= ENOUGH_SEQUENCES:
        assert not missing(result.happened)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("mutation", ["resent", "never_marked_published"])
def test_a_product_that_is_broken_on_purpose_is_found_out(
    database_server: DatabaseAddress, database_template: DatabaseAddress, mutation: str
) -> None:
    """R5.3, R10.1: a storm that would not see a command sent twice, or a notification told twice, proves nothing."""
    result = storm(
        database_server, database_template.dbname, seeds=range(1, 401), processes=2, mutation=mutation
    )
    assert result.failures
