import math
from datetime import UTC, datetime

import pytest

from blsflow.domain.reading import Known, Reading, Stale, Unknown

TAKEN_AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
STALE = Stale(last_value=5.0, taken_at=TAKEN_AT, reason="stale")
UNKNOWN = Unknown(reason="missing")


@pytest.mark.parametrize("reading", [STALE, UNKNOWN])
def test_what_is_not_known_has_no_value(reading: Reading) -> None:
    """R2.1: a stale or unknown input has nothing that could be computed with, and no number in its place."""
    with pytest.raises(AttributeError):
        _ = reading.value  # type: ignore[union-attr] # that mypy refuses it too is the point
    with pytest.raises(TypeError):
        float(reading)  # type: ignore[arg-type] # likewise


@pytest.mark.parametrize("reading", [Known(value=5.0, taken_at=TAKEN_AT), STALE, UNKNOWN])
def test_a_reading_is_neither_true_nor_false(reading: Reading) -> None:
    """R2.1: `reading or 0` fails instead of turning an unknown input into 0."""
    with pytest.raises(TypeError, match="look at its state"):
        bool(reading)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_known_value_is_finite(value: float) -> None:
    """R2.1: NaN and infinity are never known."""
    with pytest.raises(ValueError, match="finite"):
        Known(value=value, taken_at=TAKEN_AT)


def test_a_known_value_has_an_aware_time() -> None:
    """R2.1: without a zone, the age of a value could not be told."""
    with pytest.raises(ValueError, match="aware"):
        Known(value=1.0, taken_at=TAKEN_AT.replace(tzinfo=None))
