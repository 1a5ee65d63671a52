"""The storm in brief, and that it finds what it is there to find. At length: `make storm`."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from blsflow.ports.errors import PublishFailed, StoreUnavailable, WorkflowUnavailable
from tests.storm.happenings import ENOUGH_SEQUENCES, missing, summary
from tests.storm.run import storm
from tests.storm.story import Story

if TYPE_CHECKING:
    from blsflow.adapters.postgres.address import DatabaseAddress

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


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (PublishFailed("x"), {"refuses"}),
        (PublishFailed("x"), {"is_unclear"}),
        (WorkflowUnavailable("x"), {"unavailable"}),
        (StoreUnavailable("x"), {"lost"}),
    ],
)
def test_a_failure_is_forgiven_while_what_it_did_not_reach_is_away(error: Exception, away: set[str]) -> None:
    """R10.1: a product that calls its own faults somebody else's is found out."""
    report = SimpleNamespace(failures={1: error})
    _story(away)._finish(report)
    with pytest.raises(type(error)):
        _story(set())._finish(report)


def _story(away: set[str]) -> Story:
    story = object.__new__(Story)
    story.stage = SimpleNamespace(  # type: ignore[assignment]
        publisher=SimpleNamespace(refuses="refuses" in away, is_unclear="is_unclear" in away),
        states=SimpleNamespace(unavailable="unavailable" in away),
        storm_plan=SimpleNamespace(lost="lost" in away),
    )
    return story
