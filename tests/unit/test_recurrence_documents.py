"""What a rule's document may say."""

import math
from datetime import UTC, datetime, time

import pytest

from blsflow.domain.errors import InvalidExecutionRequest
from blsflow.domain.recurrence import (
    Cron,
    Daily,
    Interval,
    Monthly,
    Once,
    Rule,
    Weekly,
    parse_rule,
    to_document,
)

DAILY: dict[str, object] = {"kind": "daily", "time_of_day": "08:00", "time_zone": "UTC"}
WEEKLY: dict[str, object] = {"kind": "weekly", "weekdays": [1], "time_of_day": "08:00", "time_zone": "UTC"}
MONTHLY: dict[str, object] = {"kind": "monthly", "day": 1, "time_of_day": "08:00", "time_zone": "UTC"}
INTERVAL: dict[str, object] = {"kind": "interval", "every_sec": 300, "time_zone": "UTC"}
ONCE: dict[str, object] = {"kind": "once", "at": "2026-03-08T02:30:00", "time_zone": "UTC"}
CRON: dict[str, object] = {"kind": "cron", "expression": "0 8 * * 1", "time_zone": "UTC"}

READ: list[tuple[dict[str, object], Rule]] = [
    (DAILY, Daily(time_of_day=time(8), time_zone="UTC")),
    (DAILY | {"time_of_day": "23:59:30"}, Daily(time_of_day=time(23, 59, 30), time_zone="UTC")),
    (WEEKLY | {"weekdays": [7, 1]}, Weekly(weekdays=frozenset({1, 7}), time_of_day=time(8), time_zone="UTC")),
    (MONTHLY | {"day": "last"}, Monthly(day="last", time_of_day=time(8), time_zone="UTC")),
    (MONTHLY | {"day": 31}, Monthly(day=31, time_of_day=time(8), time_zone="UTC")),
    (INTERVAL, Interval(every_sec=300, time_zone="UTC")),
    (
        INTERVAL | {"anchor": "2026-01-01T08:00:00+08:00", "time_zone": "Asia/Shanghai"},
        Interval(every_sec=300, time_zone="Asia/Shanghai", anchor=datetime(2026, 1, 1, tzinfo=UTC)),
    ),
    (ONCE, Once(at=datetime(2026, 3, 8, 2, 30), time_zone="UTC")),  # noqa: DTZ001 - a local time
    (
        ONCE | {"at": "2026-03-08T02:30:00Z"},
        Once(at=datetime(2026, 3, 8, 2, 30, tzinfo=UTC), time_zone="UTC"),
    ),
    (CRON, Cron(expression="0 8 * * 1", time_zone="UTC")),
]


@pytest.mark.parametrize(("document", "rule"), READ)
def test_a_document_is_read_as_its_rule_and_written_back(document: dict[str, object], rule: Rule) -> None:
    """R8.2: each kind of rule has a document, and a rule's own document is read as the same rule."""
    assert parse_rule(document) == rule
    assert parse_rule(to_document(rule)) == rule


BAD_ZONES: list[object] = [
    "UTC+3", "Europe", "", "America/New_Yrok", "europe", "../UTC", "a/../../b", "right/UTC", "localtime",
    "\0", "x" * 5000, None, 8,
]  # fmt: skip
BAD_VALUES: list[tuple[dict[str, object], str, list[object]]] = [
    (INTERVAL, "every_sec", [0, -1, "5", 1e-9, 300.0, 1.5, True, None, math.nan, math.inf, 10**18, [300]]),
    (INTERVAL, "anchor", ["2026-01-01T00:00:00", "yesterday", 0, None]),
    (CRON, "expression", ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 LW * */7"]),
    (CRON, "expression", ["", "* * * *", "0 0 8 * * *", "@daily", "60 * * * *", "*/0 * * * *", 5, None]),
    (DAILY, "time_of_day", ["24:00", "8:00", "08:60", "08:00Z", 8, None]),
    (WEEKLY, "weekdays", [[], [0], [8], [True], [1, True], ["mon"], [1.0], 1, "1", [[1]]]),
    (MONTHLY, "day", [0, 32, -1, True, 1.0, "first", "31", None]),
    (ONCE, "at", ["2026-02-30T00:00:00", "2026-03-08T25:00:00", "", 1, None]),
    *((document, "time_zone", BAD_ZONES) for document in (DAILY, WEEKLY, MONTHLY, INTERVAL, ONCE, CRON)),
    (DAILY, "kind", ["hourly", "", None, 1, ["daily"]]),
    (DAILY, "minute", [5]),
]
WRONG: list[tuple[dict[str, object], str]] = [
    *((document | {field: bad}, field) for document, field, values in BAD_VALUES for bad in values),
    *(({name: DAILY[name] for name in DAILY if name != missing}, missing) for missing in DAILY),
    ({"kind": "interval", "time_zone": "UTC"}, "every_sec"),
]


@pytest.mark.parametrize(("document", "field"), WRONG, ids=lambda value: repr(value)[:80])
def test_a_rule_that_cannot_be_meant_is_refused_by_its_field(document: dict[str, object], field: str) -> None:
    """R8.2: an invalid rule is `invalid_execution_request`, naming the field, its value and the cause."""
    with pytest.raises(InvalidExecutionRequest) as refused:
        parse_rule(document)
    error = refused.value
    assert (error.code, error.field) == ("invalid_execution_request", field)
    assert error.cause
    assert error.value is document.get(field)


@pytest.mark.parametrize("document", [None, [], "daily", 5])
def test_a_rule_that_is_no_object_is_refused(document: object) -> None:
    """R8.2: the whole rule is named if it is not an object."""
    with pytest.raises(InvalidExecutionRequest) as refused:
        parse_rule(document)  # type: ignore[arg-type]
    assert refused.value.field == "rule"


def test_one_bad_rule_leaves_the_others_readable() -> None:
    """R8.2: bad zones among stored rules each fail by themselves; the valid rule beside them is read."""
    stored = [
        DAILY | {"time_zone": zone}
        for zone in ("UTC+3", "Europe", "", "America/New_York", "America/New_Yrok")
    ]
    outcomes = []
    for document in stored:
        try:
            outcomes.append(parse_rule(document).time_zone)
        except InvalidExecutionRequest as error:
            outcomes.append(error.field)
    assert outcomes == ["time_zone", "time_zone", "time_zone", "America/New_York", "time_zone"]
