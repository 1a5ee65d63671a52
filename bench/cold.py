"""Cold starts: an interpreter that imports a function and asks its first question, against bare imports of two libraries.

What a function imports when its first message comes is shown beside it, with a message that finds nothing to do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.fleet import market, url_of
from bench.measuring import Bound, Row, interleaved, ratio_row

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROUNDS: Final = 9
_YARDSTICK: Final = "import pg8000.native; from aws_lambda_powertools import Logger; Logger()"
_FIRST_QUERY: Final = """
import functions.{name}.app
from blsflow.bootstrap import application
with application().store.transaction() as tx: tx.now
"""
_FIRST_MESSAGE: Final = """
import functions.{name}.app
from uuid import UUID
from blsflow.bootstrap import application
application().{call}
"""
_CALLS: Final = {
    "tick": "tick(budget_sec=9)",
    "decide": "decide(0)",
    "execute": "execute(UUID(int=0))",
    "reconcile": "reconcile(budget_sec=9); application().sampling(budget_sec=9)",
    "benchmark": "benchmark('prepare', run_id=UUID(int=0), execution='')",
    "notify": "notify(budget_sec=9)",
}
_NOTHING_DUE: Final = "update smart_schedule_schedules set next_run_at = now() + interval '1 day'"
_WITH_CLIENT: Final = "\nfrom blsflow.adapters.aws import _client; _client('{service}')"
_SERVICES: Final = {"notify": "sns", "reconcile": "stepfunctions"}
_TIMED: Final = """
import sys, time
began = time.perf_counter()
{code}
sys.stdout.write(str(time.perf_counter() - began))
"""


def run() -> Iterator[Row]:
    """Start interpreters in turns: the yardstick, and each function without and with its AWS client."""
    with market() as session:
        session.run(_NOTHING_DUE)
        environment = {
            **os.environ,
            "BLSFLOW_SCHEDULER_DATABASE_URL": url_of(session.address),
            "BLSFLOW_SCHEDULER_DATABASE_TLS": "off",
            "BLSFLOW_SCHEDULER_DECIDE_QUEUE_URL": "https://sqs.invalid/decide",
            "BLSFLOW_SCHEDULER_EXECUTE_QUEUE_URL": "https://sqs.invalid/execute",
            "BLSFLOW_SCHEDULER_NOTIFICATION_TOPIC_ARN": "arn:aws:sns:us-east-1:123456789012:bench",
            "AWS_DEFAULT_REGION": "us-east-1",
            "POWERTOOLS_SERVICE_NAME": "bench",
            "POWERTOOLS_METRICS_NAMESPACE": "bench",
        }
        codes = {"yardstick": _YARDSTICK}
        for name, call in _CALLS.items():
            codes[name] = _FIRST_QUERY.format(name=name)
            codes[f"{name}, first message"] = _FIRST_MESSAGE.format(name=name, call=call)
            codes[f"{name} with its AWS client"] = codes[name] + _WITH_CLIENT.format(
                service=_SERVICES.get(name, "sqs")
            )
        codes["api"] = _FIRST_QUERY.format(name="api")
        found = interleaved(
            {name: partial(_started, code, environment) for name, code in codes.items()}, rounds=_ROUNDS
        )
    against = found.pop("yardstick")
    for name, measured in found.items():
        function, _, more = name.partition(", ")
        yield ratio_row(
            f"cold start of {function}: imports and {more or 'first query'}",
            "`import pg8000.native` and Powertools' Logger",
            measured,
            against,
            None if more else Bound(limit=4 if name == "api" else 3 if name.endswith("client") else 1.3),
        )


def _started(code: str, environment: dict[str, str]) -> float:
    answer = subprocess.run(
        [sys.executable, "-c", _TIMED.format(code=code)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(answer.stdout)
