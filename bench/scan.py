"""A scan of 10,000 due schedules, recorded, advanced and enqueued to a local SQS, against the bare sends."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from bench.fleet import market, url_of
from bench.measuring import Bound, Row, interleaved, ratio_row, seconds
from blsflow.bootstrap import application_from
from local.stack.emulator import Emulator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.connection import Session
    from blsflow.bootstrap import Application

SCHEDULES: Final = 10_000
_BATCH: Final = 10
_UNDER_WAY: Final = 4
_DAILY: Final = '{"kind": "interval", "every_sec": 86400}'
"""So that none comes due again while a round lasts."""
_FILL: Final = f"""
insert into smart_schedule_policy_groups (tenant_id, name, mode, execution_mode, enabled, created_by)
    select 'acme', 'p' || g, 'profit_guard', 'shadow', true, 'bench' from generate_series(2, {SCHEDULES}) g;
insert into smart_schedule_schedules (tenant_id, created_by, kind, policy_id, rule, next_run_at)
    select 'acme', 'bench', 'policy_tick', id, '{_DAILY}', now()
    from smart_schedule_policy_groups where id > 1;
update smart_schedule_schedules set rule = '{_DAILY}' where policy_id = 1;
"""
_DUE: Final = """
truncate smart_schedule_occurrences cascade;
update smart_schedule_schedules set next_run_at = now();
vacuum analyze smart_schedule_schedules;
"""


def run() -> Iterator[Row]:
    """Scan and send in turns; the queues are emptied in between."""
    with Emulator() as emulator, market() as session:
        session.run(_FILL)
        os.environ |= emulator.client_environment
        sqs = emulator.client("sqs")
        urls = [sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("decide", "execute", "bare")]
        application = application_from(
            {
                "BLSFLOW_SCHEDULER_DATABASE_URL": url_of(session.address),
                "BLSFLOW_SCHEDULER_DATABASE_TLS": "off",
                "BLSFLOW_SCHEDULER_DECIDE_QUEUE_URL": urls[0],
                "BLSFLOW_SCHEDULER_EXECUTE_QUEUE_URL": urls[1],
            }
        )
        found = interleaved(
            {
                "product": lambda: _scan(application, session, sqs, urls[0]),
                "sends": lambda: _send(sqs, urls[2], at_once=1),
                "sends side by side": lambda: _send(sqs, urls[2], at_once=_UNDER_WAY),
            }
        )
    work = "scan of 10,000 due schedules: recorded, advanced, enqueued to a local SQS"
    calls = "the bare `SendMessageBatch` calls"
    yield ratio_row(work, calls, found["product"], found["sends"], Bound(limit=1.5))
    side_by_side = found["sends side by side"]
    yield ratio_row(
        work,
        f"{calls}, {_UNDER_WAY} at a time as the product sends them",
        found["product"],
        side_by_side,
        None,
    )


def _scan(application: Application, session: Session, sqs: Any, url: str) -> float:  # noqa: ANN401 - boto3's client
    sqs.purge_queue(QueueUrl=url)
    for statement in _DUE.strip().split(";\n"):
        session.run(statement)
    reports = []
    took = seconds(lambda: reports.append(application.tick(budget_sec=300)))
    if reports[0].recorded != SCHEDULES or reports[0].failures:
        raise AssertionError(
            f"{reports[0].recorded} of {SCHEDULES} recorded, failures: {reports[0].failures}"
        )
    return took


def _send(sqs: Any, url: str, *, at_once: int) -> float:  # noqa: ANN401 - boto3's client
    sqs.purge_queue(QueueUrl=url)

    def send(start: int) -> None:
        entries = [
            {"Id": str(index), "MessageBody": json.dumps({"occurrence_id": start + index})}
            for index in range(_BATCH)
        ]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)

    with ThreadPoolExecutor(at_once) as pool:
        return seconds(lambda: list(pool.map(send, range(0, SCHEDULES, _BATCH))))
