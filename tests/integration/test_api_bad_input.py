"""Bad input of every kind to every operation of the document: always a refusal that names the field, never a change."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.api_operations import Operation, document, is_nullable, operations, resolved
from tests.integration.api_deployment import SCHEDULE, ApiDeployment, deployed
from tests.integration.api_scene import Answered, Api

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from blsflow.adapters.postgres.address import DatabaseAddress

ANN = Api(tenant="north-mining")
IDS = {"policy_id": 1, "schedule_id": 6}
"""A policy and a schedule that there are, so that nothing is refused for want of them."""
REFUSED = {400, 404, 405, 412, 413, 415, 422, 428}

WRONG = [
    "1; drop table smart_schedule_policy_groups",
    "' or 1=1 --",
    "$(id)",
    "`id`",
    "a,b",
    "\u0661",
    "+1",
    "1_0",
]
WRONG += [
    "1.0",
    "1e3",
    " 1",
    "0x1",
    "-1",
    "9" * 19,
    "9" * 5000,
    "\x00",
    "nan",
    "true",
    "\U0001f600",
    "%",
    "<a>",
]
BAD_PATHS = [*WRONG, "..", ".", "1\x00", "1\n", "~", "*", "\u202e1"]
RAW_PATHS = [
    "..%2f1",
    "%00",
    "%2e%2e",
    "1/",
    "1//",
    "/1",
    "..%2f..%2fhealth",
    "1%0a",
    "%ff",
    "1;a=b",
    "a/b/c/d/e/f",
    "1?",
]
QUERIES = {
    "integer": [*WRONG, "", "1,2"],
    "date-time": [
        *WRONG,
        "",
        "1700000000",
        "2027-01-01",
        "2027-01-01T00:00:00",
        "2027-13-01T00:00:00Z",
        "now",
    ],
    "number": ["", "a", "-1", "1_0", "+1", " 1", "1.", "nan"],
    "enum": [*WRONG, "", "no-such"],
    "uuid": [*WRONG, "", "1"],
    "boolean": ["", "maybe", "2"],
}
VALUES: dict[str, list[Any]] = {
    "string": [1, True, [], {}, "\x00", "\ud800", "a\x07", "\x9b31m", "\x1b[2J"],
    "integer": ["1", 1.5, True, [], {}, 10**400, -(10**30)],
    "number": ["1", True, [], {}, 10**400],
    "boolean": [1, "true", [], {}],
    "array": ["a", {}, 1, [None]],
    "object": ["a", [], 1, {"no_such_field": 1}],
}
BODIES: list[object] = [
    "null", "[]", "1", '"a"', "{", "nul", "{'a': 1}", '{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}', '{"a": 1e999}',
    '{"a": 1, "a": 1}', '{"a": ' + "9" * 5000 + "}", "[" * 100_000, '{"a":' * 40 + "1" + "}" * 40, "\ufeff{}",
    b"\xff\xfe{}", b'{"a": "\xc3\x28"}', b"\xed\xa0\x80", "{}garbage", "--", "\x00",
]  # fmt: skip
TOO_LARGE = '{"a": "' + "a" * 10_000_000 + '"}'
TYPES = ["", "text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"]
TYPES += [
    "application/jsonx",
    "application/xml",
    "application/problem+json",
    ",",
    "application/json, text/plain",
]

TIMES = {"date-time", "date", "uuid"}
BY_NAME = {
    "Name": ["\u202egnol", "\u200b\u2060", "two\nlines", "a\u2028b"],
    "Requestid": ["\u202e1", "two\nlines"],
    "Target": ["\u202e1", "two\nlines", "\u200b"],
    "Reason": ["\u200b", " \n "],
    "Time Of Day": ["8:00", "24:00", "08:60", "\u0660\u0668:00"],
    "Time Zone": ["Mars/Base", "", "../etc/passwd", "UTC\x00", "/etc/localtime", "GMT+25"],
}

every_operation = pytest.mark.parametrize("operation", operations(), ids=str)


@pytest.fixture(scope="module")
def api(module_database: DatabaseAddress) -> Iterator[ApiDeployment]:
    """A seeded database with a schedule and an occurrence, which no test of this module changes."""
    with deployed(module_database) as made:
        made.look(
            "insert into smart_schedule_occurrences (tenant_id, schedule_id, kind, origin, planned_at, state, recorded_at)"
            " values ('north-mining', 1, 'policy_tick', 'planned', now(), 'recorded', now())"
        )
        assert ANN.post("/schedules", SCHEDULE, idempotency_key="k").body["id"] == IDS["schedule_id"]
        yield made


@pytest.fixture(scope="module")
def held(api: ApiDeployment) -> dict[str, str]:
    """What all tables hold at the beginning."""
    return api.checksum()


@pytest.fixture
def unchanged(api: ApiDeployment, held: dict[str, str]) -> Iterator[None]:
    """All tables hold afterwards what they held at the beginning."""
    yield
    assert api.checksum() == held


pytestmark = pytest.mark.usefixtures("unchanged")


def _sent(operation: Operation, **changes: Any) -> Answered:
    asked = {
        "path": operation.sample_path(IDS),
        "body": operation.sample_body(),
        "query": operation.sample_query(),
        "headers": operation.sample_headers(),
    } | changes
    return ANN.call(operation.method, asked.pop("path"), **asked)


def _assert_refused(answered: Answered, what: object, *, field: str | None = None) -> None:
    told = f"{str(what)[:200]}: {answered.status} {answered.body}"
    assert answered.status in REFUSED, told
    assert answered.headers["content-type"] == "application/problem+json", told
    if field is not None:
        assert any(field in named for named in answered.fields), told


def _assert_documented(operation: Operation, answered: Answered) -> None:
    told = operation.described["responses"].get(str(answered.status), {}).get("description", "")
    assert f"`{answered.code}`" in told, (answered.status, answered.code)


@every_operation
def test_no_path_misleads(operation: Operation) -> None:
    """R9.2, R9.1: ids that are none, of whatever script, length or trick, name their parameter or lead nowhere."""
    for parameter in operation.of("path"):
        name = parameter["name"]
        for bad in [*map(quote, BAD_PATHS), *BAD_PATHS, *RAW_PATHS]:
            answered = _sent(operation, path=operation.sample_path({**IDS, name: bad}))
            _assert_refused(answered, bad, field=name if answered.status == 422 else None)


@every_operation
def test_no_query_parameter_is_guessed(operation: Operation) -> None:
    """R9.2: a value that is not of its kind, or stands twice, names its parameter; so does one that there is none of."""
    for parameter in operation.of("query"):
        schema, name = resolved(parameter["schema"]), parameter["name"]
        kind = "enum" if "enum" in schema else schema.get("format", schema["type"])
        garbage = ["x" * 401, "eyJ", "AA==", "\x00", "9" * 300] if name == "cursor" else QUERIES.get(kind, [])
        for bad in garbage:
            answered = _sent(operation, query={name: bad})
            _assert_refused(answered, (name, bad), field=f"query.{name}" if answered.status == 422 else None)
            _assert_documented(operation, answered)
    for unknown in ("no_such", "limit[]", "__proto__", "Limit", "\x00", "tenant_id"):
        _assert_refused(_sent(operation, query={unknown: "1"}), unknown, field="query.")


@every_operation
def test_no_body_is_guessed(operation: Operation) -> None:
    """R9.2: what is no JSON object, is too deep or too large, has names twice, or says it is something else, is refused."""
    if operation.body is None:
        return
    for body in BODIES:
        _assert_refused(_sent(operation, body=body), body)
    assert _sent(operation, body=TOO_LARGE).status == 413
    for content_type in TYPES:
        answered = _sent(operation, headers={**operation.sample_headers(), "content-type": content_type})
        assert answered.code == "unsupported_media_type", content_type


@every_operation
def test_no_field_is_guessed(operation: Operation) -> None:
    """R9.2, R8.2: a field of another kind, out of its bounds, unknown or missing is named, at whatever depth it stands."""
    if operation.body is None:
        return
    for place, bad, spoilt in _spoilt(operation.body, operation.sample_body()):
        field = next(part for part in reversed(place) if isinstance(part, str))
        answered = _sent(operation, body=json.dumps(spoilt))
        _assert_refused(answered, (place, bad), field=field)
        _assert_documented(operation, answered)


def _spoilt(schema: Mapping[str, Any], document: Any) -> Iterator[tuple[list[Any], object, Any]]:
    """Yield every field's place with a bad value, and the document that has it there; by place, None stands for left out."""
    for place, described, is_required in _fields(schema, []):
        for bad in _bad(described):
            yield place, bad, _replaced(document, place, bad)
        if is_required:
            yield place, "missing", _without(document, place)


def _fields(
    schema: Mapping[str, Any], place: list[Any]
) -> Iterator[tuple[list[Any], Mapping[str, Any], bool]]:
    schema = resolved(schema)
    for name, described in schema.get("properties", {}).items():
        yield [*place, name], described, name in schema.get("required", ())
        yield from _fields(described, [*place, name])
    if schema.get("type") == "object" and schema.get("additionalProperties") is False:
        yield [*place, "no_such_field"], {"not": {}}, False
    if schema.get("type") == "array":
        yield [*place, 0], schema["items"], False
        yield from _fields(schema["items"], [*place, 0])


def _bad(described: Mapping[str, Any]) -> list[Any]:
    """Values that a field cannot mean, by what its schema says of it."""
    if "not" in described:
        return [1]
    told = resolved(described)
    alternatives = [each for each in described.get("anyOf", (told,)) if each.get("type") != "null"]
    found: list[Any] = [] if is_nullable(described) else [None]
    if "enum" in told or "const" in told:
        found += ["no-such", 1, [], {}, ""]
    elif len(alternatives) == 1:
        found += VALUES.get(told.get("type", ""), [])
    found += ["yesterday", "2027-13-45T00:00:00Z", 1_700_000_000] if told.get("format") in TIMES else []
    found += ["a" * (told["maxLength"] + 1)] if "maxLength" in told else []
    found += [""] if told.get("minLength") else []
    found += [[]] if told.get("minItems") else []
    found += [told[bound] + step for bound, step in (("minimum", -1), ("maximum", 1)) if bound in told]
    return found + BY_NAME.get(str(told.get("title")), [])


def _replaced(document: Any, place: list[Any], value: object) -> Any:
    changed = copy.deepcopy(document)
    _parent(changed, place)[place[-1]] = value
    return changed


def _without(document: Any, place: list[Any]) -> Any:
    changed = copy.deepcopy(document)
    del _parent(changed, place)[place[-1]]
    return changed


def _parent(document: Any, place: list[Any]) -> Any:
    for part in place[:-1]:
        document = document[part]
    return document


@every_operation
def test_other_methods_are_told_of_those_that_there_are(operation: Operation) -> None:
    """R9.2: what cannot be done at a path is answered with what can."""
    there = {each.method for each in operations() if each.path == operation.path}
    for method in {"GET", "POST", "PUT", "DELETE", "PATCH"} - there:
        answered = ANN.call(method, operation.sample_path(IDS), body={})
        assert answered.code == "method_not_allowed", method
        assert set(answered.headers["allow"].split(", ")) == there


@pytest.mark.parametrize(
    "path",
    ["", "/", "//", "/no-such", "/schedules/", "/schedules//", "/health/..", "/..", "/%00", "/" + "a" * 9000],
)
def test_other_paths_lead_nowhere(path: str) -> None:
    """R9.2: what is no path of ours is a problem document of its own, whatever it looks like."""
    for method in ("GET", "POST", "PUT", "DELETE"):
        _assert_refused(ANN.call(method, path), path)


@every_operation
def test_a_media_type_may_be_written_in_capitals(operation: Operation) -> None:
    """R9.2, RFC 9110: whatever the operation then says, it is not that the media type is unknown, nor a fault of ours."""
    if operation.body is None:
        return
    headers = {**operation.sample_headers(), "content-type": "APPLICATION/JSON; charset=UTF-8"}
    answered = _sent(operation, headers=headers, body='{"no_such_field": 1}')
    assert answered.status == 422, answered.body


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "once", "at": "2027-01-01\u000008:00"},
        {"kind": "once", "at": "2027-01-01\u202e08:00"},
        {"kind": "once", "at": "2027-01-01\U0001f4a908:00"},
        {"kind": "once", "at": "2020-01-01T08:00"},
        {"kind": "interval", "every_sec": 3600, "anchor": "2027-01-01\u000008:00:00Z"},
        {"kind": "cron", "expression": "0\x0b8\x0b*\x0b*\x0b1"},
        {"kind": "cron", "expression": "0\u20288 * * 1"},
        {"kind": "cron", "expression": "0 8 * *\x851"},
        {"kind": "lunar"},
    ],
)
def test_a_rule_is_refused_by_its_field_and_never_by_its_value(rule: dict[str, Any]) -> None:
    """R8.2: what is not ISO 8601, is parted by other than blanks, or never comes, is named and not repeated."""
    answered = ANN.post(
        "/schedules", {**SCHEDULE, "rule": {**rule, "time_zone": "UTC"}}, idempotency_key="new"
    )
    field = next(name for name in ("at", "anchor", "expression", "kind") if name in rule)
    assert (answered.status, answered.fields) == (422, [f"rule.{field}"])
    assert str(rule[field]) not in answered.body["detail"].replace("2026-03-08", "")


@pytest.mark.parametrize(
    ("since", "until", "step", "field"),
    [
        ("0001-01-01T00:00:00+14:00", "2026-11-30T00:00:00Z", 86_400, "since"),
        ("2026-11-01T00:00:00Z", "9999-12-31T23:59:59-14:00", 86_400, "until"),
        ("0001-01-01T00:00:00Z", "0001-01-02T00:00:00Z", 900, "since"),
        ("9999-12-30T00:00:00Z", "9999-12-31T00:00:00Z", 900, "since"),
        ("9899-12-30T00:00:00Z", "9999-01-01T00:00:00Z", 900, "until"),
    ],
)
def test_a_period_at_the_ends_of_the_calendar_is_refused(
    since: str, until: str, step: int, field: str
) -> None:
    """R4.6: a period needs prices before it and tariffs after it."""
    answered = ANN.post("/policies/1/backtest", {"since": since, "until": until, "step_sec": step})
    assert (answered.status, answered.fields) == (422, [field])


def test_what_is_too_long_is_told_in_characters_and_what_stands_twice_by_its_name() -> None:
    """R9.2: the words are those of who wrote the text."""
    answered = ANN.post("/policies/1/freeze", {"reason": "a" * 501})
    assert "500 characters" in answered.body["detail"]
    answered = ANN.post("/policies/1/freeze", body='{"reason": "a", "reason": "b"}')
    assert "'reason' twice" in answered.body["detail"]
    answered = ANN.post("/policies/1/dry-run", body='{"limit": 1e999}')
    assert "1e999" not in answered.body["detail"]


@pytest.mark.parametrize(
    "change",
    [{"action": "stop"}, {"action": "switch", "project_id": None}, {"action": "start", "project_id": None}],
)
def test_a_command_names_its_project_as_its_body_does(change: dict[str, Any]) -> None:
    """R9.2, R5.8: a stop with a project, and a switch without, under a code and a field that are documented."""
    operation = next(each for each in operations() if (each.method, each.path) == ("POST", "/commands"))
    body = {"machine_ids": [1001], "project_id": 101, "reason": "r", **change}
    answered = _sent(operation, body=json.dumps(body))
    assert answered.fields == ["project_id"]
    _assert_documented(operation, answered)


def test_what_is_documented_as_taken_is_taken() -> None:
    """R9.1: bounds are the integers that are meant, and nothing that is refused is published as nullable."""
    policy = document()["components"]["schemas"]["NewPolicyDocument"]["properties"]
    assert policy["priority"]["minimum"] == -(2**31) + 1
    assert not is_nullable(policy["execution_mode"])
    assert '"maximum": 9.2' not in json.dumps(document())
