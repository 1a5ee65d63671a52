"""No secret anywhere: canaries stand in the place of every secret, and workers go through success and through failure."""

from __future__ import annotations

import io
import json
import traceback
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.flow import schedules
from local.simulators.execution_service import ExecutionServiceSimulator
from local.simulators.web import Served
from tests.integration.handler_scenes import NOBODY_LISTENS, Deployment, deployment, received, sample
from tests.integration.test_handlers import decided, ticked, variable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["deployment"]

PASSWORD: Final = "canary/pass:word@1"
DEVICE_TOKEN: Final = "canary-token-5f1d"
RUN_TOKEN: Final = "canary-run-token-77c0"
FEED_KEY: Final = "canary-key-93ab"
PROMPT: Final = "canary-prompt: what did the board decide?"
SECRETS: Final = (PASSWORD, quote(PASSWORD, safe=""), DEVICE_TOKEN, RUN_TOKEN, FEED_KEY)
PROMPT_IS_KEPT_IN: Final = frozenset({"smart_schedule_schedules"})
"""The schedule's own row is what a prompt is for; nowhere else is it copied."""


@pytest.fixture
def watched(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """The functions with a canary for every secret that they are given; whom nobody answers is not followed for long."""
    monkeypatch.setattr("functions.reconcile.app._BUDGET_SEC", 4)
    at = deployment.address
    with closing(Session(at)) as admin:
        admin.run(f"create role canary login superuser password '{PASSWORD}'")
    service = ExecutionServiceSimulator(token=RUN_TOKEN, run_sec=0.1, catalogue={"analyst": ("c1",)})
    with Served(service) as runs:
        deployment.set(
            BLSFLOW_SCHEDULER_DATABASE_URL=f"postgresql://canary:{quote(PASSWORD, safe='')}@{at.host}:{at.port}/{at.dbname}",
            BLSFLOW_SCHEDULER_EXECUTION_API_BASE_URL=runs.url,
            BLSFLOW_SCHEDULER_EXECUTION_API_TOKEN=RUN_TOKEN,
            BLSFLOW_SCHEDULER_PROFIT_API_KEY=FEED_KEY,
        )
        assert variable("SWITCH_API_TOKEN") == DEVICE_TOKEN
        yield deployment
    deployment.cold()
    with closing(Session(replace(at, dbname="postgres"))) as admin:
        admin.run("drop role canary")


def _everything(scene: Deployment) -> str:
    """Let every function work once; return all that they printed and raised."""
    said = io.StringIO()

    def invoke(function: str, event: dict[str, object]) -> None:
        try:
            scene.invoke(function, event)
        except Exception as error:  # noqa: BLE001 - an error's text is looked at like any other
            said.write("".join(traceback.format_exception(error)))
        said.write(scene.output)

    invoke("tick", sample("tick/schedule"))
    for queue, function in (("DECIDE_QUEUE_URL", "decide"), ("EXECUTE_QUEUE_URL", "execute")):
        bodies = [] if variable(queue).endswith("gone") else received(variable(queue))
        records = [{"messageId": str(n), "body": json.dumps(body)} for n, body in enumerate(bodies)]
        invoke(function, {"Records": records})
    for function in ("reconcile", "notify"):
        invoke(function, sample(f"{function}/schedule"))
    invoke("benchmark", sample("benchmark/prepare"))
    invoke("decide", sample("decide/poison"))
    invoke("execute", sample("execute/poison"))
    return said.getvalue()


def _stored(scene: Deployment) -> dict[str, str]:
    """Every table of the database as text."""
    tables = scene.look(
        "select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition"
    )
    return {
        table: "\n".join(str(row[0]) for row in scene.look(f"select t::text from {table} t"))
        for (table,) in tables
    }


def _converse(scene: Deployment) -> None:
    from blsflow.bootstrap import application  # noqa: PLC0415 - the container that the handlers share

    schedules.create_schedule(
        application().store,
        tenant_id="north-mining",
        created_by="ana",
        name="talk",
        work={"target": "analyst", "conversation_id": "c1", "prompt": PROMPT},
        rule={"kind": "interval", "every_sec": 1, "time_zone": "UTC"},
        by="test",
    )
    scene.look("update smart_schedule_schedules set next_run_at = now() where kind = 'conversation'")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "failure",
    [
        {},
        {"BLSFLOW_SCHEDULER_SWITCH_API_BASE_URL": NOBODY_LISTENS},
        {"BLSFLOW_SCHEDULER_EXECUTION_API_BASE_URL": NOBODY_LISTENS},
        {"BLSFLOW_SCHEDULER_PROFIT_API_BASE_URL": NOBODY_LISTENS},
        {"BLSFLOW_SCHEDULER_EXECUTE_QUEUE_URL": "https://sqs.eu-central-1.amazonaws.com/1/gone"},
        {"BLSFLOW_SCHEDULER_NOTIFICATION_TOPIC_ARN": "arn:aws:sns:eu-central-1:1:gone"},
        {"BLSFLOW_SCHEDULER_DATABASE_TLS": "verify-full"},
    ],
    ids=["success", "no device control", "no execution service", "no feed", "no queue", "no topic", "no tls"],
)
def test_no_secret_and_no_prompt_leaves_its_place(watched: Deployment, failure: dict[str, str]) -> None:
    """R9.2, R11.2, R11.3: neither lines nor errors nor tables hold one, whatever succeeds and whatever fails."""
    _converse(watched)
    watched.look(
        "insert into smart_schedule_outbox (tenant_id, code, params, created_at, next_try_at)"
        " values ('north-mining', 'attempt_unresolved', '{}', now(), now())"
    )
    if failure:
        watched.set(**failure)
    said = _everything(watched)
    assert said.count('"service"') >= 5
    assert [secret for secret in (*SECRETS, PROMPT) if secret in said] == []
    if failure.get("BLSFLOW_SCHEDULER_DATABASE_TLS") is None:
        assert watched.value("select count(*) from smart_schedule_attempts") > 0
    stored = _stored(watched)
    assert [(table, secret) for table, text in stored.items() for secret in SECRETS if secret in text] == []
    assert {table for table, text in stored.items() if PROMPT in text} == PROMPT_IS_KEPT_IN


def test_a_canary_that_is_let_out_is_found(watched: Deployment) -> None:
    """R11.3: the search itself works: a token written into a table, and one that is printed, are seen."""
    decided(ticked(watched))
    watched.look(f'update smart_schedule_occurrences set detail = \'{{"x": "{RUN_TOKEN}"}}\'')
    assert [table for table, text in _stored(watched).items() if RUN_TOKEN in text] == [
        "smart_schedule_occurrences"
    ]
