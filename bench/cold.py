"""Cold starts: an interpreter that imports a function and asks its first question, against bare imports of two libraries."""

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

WORKERS: Final = ("tick", "decide", "execute", "reconcile", "benchmark", "notify")
_ROUNDS: Final = 9
_YARDSTICK: Final = "import pg8000.native; from aws_lambda_powertools import Logger; Logger()"
_FIRST_QUERY: Final = """
import functions.{name}.app
from blsflow.bootstrap import application
with application().store.transaction() as tx: tx.now
"""
_WITH_BOTO3: Final = "\nfrom blsflow.adapters.aws import _client; _client('{service}')"
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
        environment = {
            **os.environ,
            "BLSFLOW_SCHEDULER_DATABASE_URL": url_of(session.address),
            "BLSFLOW_SCHEDULER_DATABASE_TLS": "off",
            "AWS_DEFAULT_REGION": "us-east-1",
            "POWERTOOLS_SERVICE_NAME": "bench",
            "POWERTOOLS_METRICS_NAMESPACE": "bench",
        }
        codes = {"yardstick": _YARDSTICK}
        for name in WORKERS:
            codes[name] = _FIRST_QUERY.format(name=name)
            codes[f"{name} with boto3"] = codes[name] + _WITH_BOTO3.format(service=_SERVICES.get(name, "sqs"))
        codes["api"] = _FIRST_QUERY.format(name="api")
        found = interleaved(
            {name: partial(_started, code, environment) for name, code in codes.items()}, rounds=_ROUNDS
        )
    against = found.pop("yardstick")
    for name, measured in found.items():
        limit = 4 if name == "api" else 3 if name.endswith("boto3") else 1.3
        yield ratio_row(
            f"cold start of {name}: imports and first query",
            "`import pg8000.native` and Powertools' Logger",
            measured,
            against,
            Bound(limit=limit),
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
