"""What the API answers and logs when something fails, and what it never shows."""

from __future__ import annotations

import json
import logging
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from blsflow import bootstrap, observability
from blsflow.adapters import aws
from blsflow.adapters.inline import InlineQueue
from blsflow.adapters.postgres.connection import Session
from tests.api_operations import Operation, operations, owned_ids, unowned_id
from tests.integration.api_deployment import (
    EXECUTION_TOKEN,
    NORTH,
    PROMPT,
    SCHEDULE,
    STRANGER,
    ApiDeployment,
    deployed,
)
from tests.integration.api_scene import Answered, Api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

ANN = Api(tenant=NORTH)
CANARY = "canary-cause-902b"
Printed = list[dict[str, Any]]


@pytest.fixture
def api(database: DatabaseAddress) -> Iterator[ApiDeployment]:
    """The sample fleet."""
    with deployed(database) as made:
        yield made


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[], Printed]:
    """What was logged since it was asked last."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "api")
    observability.logger.cache_clear()
    logging.Logger.manager.loggerDict.pop("api", None)

    def since() -> Printed:
        return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]

    return since


def _sent(operation: Operation, who: Api = ANN, **ids: object) -> Answered:
    return who.call(
        operation.method,
        operation.sample_path({"policy_id": 1, "schedule_id": 1, **ids}),
        body=operation.sample_body(),
        query=operation.sample_query(),
        headers=operation.sample_headers(),
        request_id="JKJaXmPLvHcESHA=",
    )


@pytest.mark.usefixtures("api")
def test_every_request_is_found_by_its_id(printed: Callable[[], Printed]) -> None:
    """R9.2, R11.2: the answer, its problem and the one summary line have the gateway's own id of the request."""
    for path, status in (
        ("/schedules", 200),
        ("/schedules/999", 404),
        ("/no-such", 404),
        ("/schedules/x", 422),
    ):
        answered = ANN.call("GET", path, request_id=f"id-{status}-{path}")
        assert answered.headers["x-request-id"] == f"id-{status}-{path}"
        if status != 200:
            assert answered.body["request_id"] == f"id-{status}-{path}"
        (line,) = [line for line in printed() if line["message"] == "api"]
        assert (line["api_request_id"], line["status"]) == (f"id-{status}-{path}", status)
        assert (line["method"], line["path"]) == ("GET", f"/api/v1/smart-schedule{path}")


@pytest.mark.parametrize("operation", operations(), ids=str)
def test_a_fault_shows_nothing_and_logs_everything(
    api: ApiDeployment, operation: Operation, printed: Callable[[], Printed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9.2: whichever operation fails by our fault, its caller sees a request id only, and the log has cause and trace."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(CANARY)

    monkeypatch.setattr(type(bootstrap.application().store), "_begin", broken)
    before = api.checksum()
    answered = _sent(operation)
    text = json.dumps([answered.body, dict(answered.headers)])
    assert CANARY not in text
    assert "Traceback" not in text
    assert api.checksum() == before
    faults = [line for line in printed() if line["message"] == "api_fault"]
    if answered.status < 500:  # it needs no database
        assert faults == []
        return
    assert (answered.status, answered.code, answered.body["params"]) == (500, "internal_error", {})
    assert answered.body["request_id"] == "JKJaXmPLvHcESHA="
    (line,) = faults
    assert (line["level"], line["error"], line["api_request_id"]) == (
        "ERROR",
        "RuntimeError",
        "JKJaXmPLvHcESHA=",
    )
    assert CANARY in line["trace"]


def test_most_operations_need_the_database(api: ApiDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """R9.2: the fault above is one for nearly every operation."""
    monkeypatch.setattr(type(bootstrap.application().store), "_begin", lambda *_: 1 / 0)
    spared = {operation.name for operation in operations() if _sent(operation).status < 500}
    assert spared == {"openapi", "preview_rule"}
    assert api.checksum()


@pytest.mark.parametrize("operation", operations(), ids=str)
def test_without_a_database_everybody_is_told_to_try_again(
    operation: Operation, printed: Callable[[], Printed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9.2: a database that does not answer is no fault of ours and no word about where it is."""
    monkeypatch.setenv("BLSFLOW_SCHEDULER_DATABASE_URL", f"postgresql://blsflow:{CANARY}@127.0.0.1:9/blsflow")
    bootstrap.application.cache_clear()
    application = bootstrap.application()
    application.own_decide_queue = application.own_execute_queue = InlineQueue()
    answered = _sent(operation)
    bootstrap.application.cache_clear()
    if operation.name in {"openapi", "preview_rule"}:
        assert answered.status == 200
        return
    assert (answered.status, answered.code) == (503, "unavailable")
    assert answered.headers["retry-after"].isdigit()
    assert "127.0.0.1" not in json.dumps(answered.body)
    assert CANARY not in json.dumps([answered.body, printed()])


@pytest.mark.usefixtures("api")
def test_a_token_that_may_not_be_read_is_not_said_to_be_the_database(
    printed: Callable[[], Printed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9.2, R11.3: the caller learns what to tell the operator, and the log which secret it was, under the request's id."""
    arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:execution-AbCdEf"

    class Refusing:
        def get_secret_value(self, **_: str) -> dict[str, str]:
            raise PermissionError

    monkeypatch.setattr(aws, "_client", lambda _: Refusing())
    created = ANN.post("/schedules", SCHEDULE, idempotency_key="k").body["id"]
    application = bootstrap.application()
    application.settings = replace(
        application.settings, execution_api_token=None, execution_api_token_secret_arn=arn
    )
    refused = ANN.post(f"/schedules/{created}/run", {"requestId": "r"})
    assert (refused.status, refused.code) == (503, "unavailable")
    assert "secret" in refused.body["detail"]
    assert "database" not in refused.body["detail"]
    assert arn not in json.dumps(refused.body)
    (line,) = [line for line in printed() if line["message"] == "api_unavailable"]
    assert (line["api_request_id"], arn in line["cause"]) == (refused.body["request_id"], True)


def test_a_session_that_the_database_closed_is_opened_again(api: ApiDeployment) -> None:
    """R9.2: after a restart of the database the next request is served."""
    assert ANN.get("/schedules").status == 200
    api.look(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    assert ANN.get("/schedules").status == 200


def test_health_tells_of_a_schema_that_is_behind(api: ApiDeployment) -> None:
    """R9.1, R11.3: a database that was not brought up to date is not served from, and says what it needs."""
    assert Api(tenant=None).get("/health").body["status"] == "ok"
    api.look(
        "delete from smart_schedule_migrations where version = (select max(version) from smart_schedule_migrations)"
    )
    behind = Api(tenant=None).get("/health")
    assert (behind.status, behind.code, set(behind.body["params"])) == (
        503,
        "unavailable",
        {"database", "schema_version", "needed"},
    )


def test_no_line_shows_a_secret_or_a_prompt(api: ApiDeployment, printed: Callable[[], Printed]) -> None:
    """R11.3: what was created, run, refused and failed leaves neither prompt nor token nor password in the log."""
    created = ANN.post("/schedules", SCHEDULE, idempotency_key="k").body["id"]
    assert ANN.post(f"/schedules/{created}/run", {"requestId": "r"}).status == 202
    spoilt = {**SCHEDULE, "work": {**SCHEDULE["work"], "prompt": [PROMPT]}, PROMPT: 1}
    refused = ANN.post("/schedules", spoilt, idempotency_key="l")
    assert refused.status == 422
    ANN.post("/schedules", json.dumps(SCHEDULE)[:-1], idempotency_key="l")
    text = json.dumps(printed())
    assert '"api"' in text
    assert not [
        secret for secret in (PROMPT, EXECUTION_TOKEN, api.address.password, "Bearer") if secret in text
    ]
    values = json.dumps([error["cause"] for error in refused.body["params"]["errors"]])
    assert PROMPT not in values


@pytest.mark.parametrize(
    "operation", [operation for operation in operations() if operation.of("path")], ids=str
)
def test_what_is_not_theirs_is_as_unknown_as_none(api: ApiDeployment, operation: Operation) -> None:
    """R9.1: a stranger's id is answered and looked for like one that does not exist: same document, same statements."""
    created = ANN.post("/schedules", SCHEDULE, idempotency_key="k").body["id"]
    run = ANN.post(f"/schedules/{created}/run", {"requestId": "r"}).body["occurrence_id"]
    assert run
    own = owned_ids(operation, NORTH, api.value)
    before = api.checksum()
    exchanges = api.counted()
    stranger = Api(tenant=STRANGER)
    _sent(operation, stranger)  # the session's own beginning
    told = []
    for ids in (own, {name: unowned_id(name) for name in own}):
        exchanges.clear()
        answered = _sent(operation, stranger, **ids)
        body = json.dumps(answered.body)
        for number in sorted(map(str, ids.values()), key=len, reverse=True):
            body = body.replace(f" {number}", " N").replace(f'"{number}"', '"N"')
        told.append((answered.status, answered.code, body, dict(answered.headers), dict(exchanges)))
    assert told[0] == told[1]
    assert told[0][1] == "not_found" or answered.body == {"items": [], "next_cursor": None}
    assert api.checksum() == before


def test_a_database_that_takes_too_long_is_unavailable(database: DatabaseAddress) -> None:
    """R9.2: the settings bound a statement, and who has waited in vain is told to come again."""
    with (
        deployed(database, BLSFLOW_SCHEDULER_DATABASE_TIMEOUT_SEC="0.5") as api,
        closing(Session(api.address)) as busy,
    ):
        assert ANN.get("/policies").status == 200
        busy.run("begin; lock table smart_schedule_policy_groups")
        waited = ANN.get("/policies")
        busy.run("rollback")
        assert (waited.status, waited.code) == (503, "unavailable")
        assert waited.headers["retry-after"].isdigit()
        assert ANN.get("/policies").status == 200
