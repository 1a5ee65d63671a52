import math
from datetime import UTC, datetime, timedelta

import pytest

from blsflow.domain.price_level import PriceLevel, observe

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    """Return the instant that many minutes into a series of readings."""
    return NOW + timedelta(minutes=minutes)


def watched(
    *readings: tuple[float, float], hold_sec: float = 1800.0
) -> tuple[PriceLevel | None, list[bool], list[float]]:
    """Observe (minute, value) pairs one after another with a factor of 3."""
    level, quarantined, jumps = None, [], []
    for minute, value in readings:
        level, held_back, jump = observe(level, value, at(minute), jump_factor=3.0, hold_sec=hold_sec)
        quarantined.append(held_back)
        jumps.append(jump)
    return level, quarantined, jumps


def test_the_first_reading_sets_the_level() -> None:
    """R2.1: a project that was never priced is not in quarantine."""
    level, quarantined, jumps = watched((0, 1.3))
    assert (level, quarantined, jumps) == (PriceLevel(level=1.3, level_at=at(0)), [False], [1.0])


def test_a_thousandfold_price_is_quarantined_and_named_as_such() -> None:
    """R2.1 (P05, P06): 1300 after 1.3 is a change of unit, not a profit; the jump is there to freeze on."""
    level, quarantined, jumps = watched((0, 1.29), (1, 1.31), (2, 1.3), (3, 1300.0))
    assert quarantined == [False, False, False, True]
    assert jumps[-1] == pytest.approx(1000.0)
    assert level is not None
    assert level.level == 1.3


def test_a_fall_is_a_jump_as_well() -> None:
    """R2.1: a price that falls beyond the factor is quarantined too."""
    _, quarantined, jumps = watched((0, 1300.0), (1, 1.3))
    assert quarantined == [False, True]
    assert jumps[-1] == pytest.approx(1000.0)


def test_exactly_the_factor_is_no_jump() -> None:
    """R2.1: only a jump beyond the factor is one."""
    assert watched((0, 1.0), (1, 3.0))[1] == [False, False]
    assert watched((0, 1.0), (1, 3.01))[1] == [False, True]


def test_a_new_level_is_trusted_once_it_has_held() -> None:
    """R2.1: the reading that completes the holding time is the new level."""
    level, quarantined, jumps = watched((0, 1.0), (1, 10.0), (16, 12.0), (30.9, 9.0), (31, 11.0), (32, 11.0))
    assert quarantined == [False, True, True, True, False, False]
    assert jumps[-2] == pytest.approx(1.1)
    assert level == PriceLevel(level=11.0, level_at=at(32))


def test_a_spike_leaves_no_trace() -> None:
    """R2.1: a reading back at the old level ends the quarantine, and a later jump starts anew."""
    level, quarantined, _ = watched((0, 1.0), (1, 10.0), (20, 1.1), (25, 10.0), (32, 10.0))
    assert quarantined == [False, True, False, True, True]
    assert level == PriceLevel(level=1.1, level_at=at(32), pending_level=10.0, pending_since=at(25))


def test_a_second_jump_restarts_the_quarantine() -> None:
    """R2.1: a level that did not hold does not lend its time to the next."""
    level, quarantined, _ = watched((0, 1.0), (1, 10.0), (20, 1000.0), (35, 1000.0), (50, 1000.0))
    assert quarantined == [False, True, True, True, False]
    assert level == PriceLevel(level=1000.0, level_at=at(50))


def test_the_level_follows_normal_drift() -> None:
    """R2.1: a price may rise tenfold in steps that are each within the factor."""
    assert watched((0, 1.0), (60, 2.5), (120, 6.0), (180, 15.0))[1] == [False] * 4


def test_a_repeated_or_older_reading_changes_nothing() -> None:
    """R2.1: the same reading seen by two ticks, or one that arrives late, leaves the state as it is."""
    level, _, _ = watched((0, 1.0), (10, 10.0))
    assert level is not None
    assert observe(level, 10.0, at(10), jump_factor=3.0, hold_sec=0.0) == (level, True, 10.0)
    assert observe(level, 1.0, at(5), jump_factor=3.0, hold_sec=0.0) == (level, False, 1.0)


def test_without_a_holding_time_nothing_is_held_back() -> None:
    """R2.1: a policy that sets no holding time trusts each jump at once."""
    level, quarantined, _ = watched((0, 1.0), (1, 10.0), hold_sec=0.0)
    assert quarantined == [False, False]
    assert level == PriceLevel(level=10.0, level_at=at(1))


@pytest.mark.parametrize(
    ("value", "factor"),
    [(math.nan, 3.0), (0.0, 3.0), (-1.0, 3.0), (math.inf, 3.0), (1.0, 1.0), (1.0, math.nan)],
)
def test_only_usable_readings_reach_a_level(value: float, factor: float) -> None:
    """R2.1: an unusable figure never becomes a level that others are held against."""
    with pytest.raises(ValueError, match="cannot hold"):
        observe(None, value, NOW, jump_factor=factor, hold_sec=60.0)
