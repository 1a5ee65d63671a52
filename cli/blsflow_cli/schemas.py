"""The documents whose shape is published, by the name that `blsflow schema` knows them under."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from blsflow.documents.rules import RuleDocument
from blsflow_cli.backtest_document import BacktestDocument
from blsflow_cli.benchmark_judge import BenchmarkDocument
from blsflow_cli.decide_document import DecideDocument
from blsflow_cli.policy_document import PolicyFileDocument
from blsflow_cli.schedule_document import ScheduleDocument
from blsflow_cli.tariff_document import TariffsDocument


class SchemaName(StrEnum):
    """A published document."""

    DECIDE = "decide"
    TARIFF = "tariff"
    RULE = "rule"
    SCHEDULE = "schedule"
    BENCHMARK = "benchmark"
    BACKTEST = "backtest"
    POLICY = "policy"


SCHEMAS: Final[dict[SchemaName, Any]] = {
    SchemaName.DECIDE: DecideDocument,
    SchemaName.TARIFF: TariffsDocument,
    SchemaName.RULE: RuleDocument,
    SchemaName.SCHEDULE: ScheduleDocument,
    SchemaName.BENCHMARK: BenchmarkDocument,
    SchemaName.BACKTEST: BacktestDocument,
    SchemaName.POLICY: PolicyFileDocument,
}
