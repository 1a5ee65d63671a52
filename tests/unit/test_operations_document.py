"""docs/operations.md and docs/database.md tell of everything that there is to set, to watch and to find."""

from __future__ import annotations

import re

from local.stack.processes import REPOSITORY

CORE = REPOSITORY / "layers" / "core" / "blsflow"
POSTGRES = CORE / "adapters" / "postgres"


def _operations() -> str:
    return (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")


def _column(heading: str, number: int) -> set[str]:
    """Names in code style in a column of the tables under a heading."""
    section = _operations().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row[number])}


def test_every_variable_is_explained() -> None:
    """R11.7: the table of settings has what the code reads, and nothing else."""
    code = (CORE / "settings.py").read_text(encoding="utf-8")
    read = {f"BLSFLOW_SCHEDULER_{name}" for name in re.findall(r'prefix \+ "(\w+)"', code)}
    read |= set(re.findall(r'(?<!prefix \+ )"((?:TICK|BENCHMARK|USDT)_\w+)"', code))
    assert _column("Settings", 1) == read


def test_every_parameter_is_named() -> None:
    """R11.1: no parameter of the template is left to be found by reading it."""
    template = (REPOSITORY / "template.yaml").read_text(encoding="utf-8")
    parameters = template.split("\nParameters:\n")[1].split("\nConditions:\n")[0]
    names = re.findall(r"^  (\w+):$", parameters, re.MULTILINE)
    assert len(names) > 10
    assert [name for name in names if f"`{name}`" not in _operations()] == []


def test_every_alarm_has_an_instruction() -> None:
    """R11.2: each alarm of the template says what to do at it."""
    template = (REPOSITORY / "template.yaml").read_text(encoding="utf-8")
    assert _column("Alarms", 1) == set(re.findall(r"^  (\w+Alarm):$", template, re.MULTILINE))


def test_every_metric_is_explained() -> None:
    """R11.2: the table of metrics has what the functions emit, and nothing else."""
    emitted = {
        name
        for path in (REPOSITORY / "functions").glob("*/app.py")
        for name in re.findall(r'(?:gauge|count)\(\s*"(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert _column("Metrics", 1) == emitted


def test_every_log_code_is_explained() -> None:
    """R5.5, R10.1: codes of log events and notifications that the product writes are in the document."""
    sources = [*(POSTGRES / "sql").glob("*.sql"), *(CORE / "flow").rglob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    written = set(re.findall(r"'(\w+)'(?: end)?,\s+jsonb_build_object", text))
    written |= set(re.findall(r"then '(\w+)' else '\w+' end,\s+jsonb_build_object", text))
    written |= set(re.findall(r'code="(\w+)"', text)) | set(
        re.findall(r'code="\w+" if .* else "(\w+)"', text)
    )
    assert {"tick_failed", "batch_rejected", "attempt_unresolved", "run_skipped", "policy_frozen"} <= written
    assert {code for code in written if f"`{code}`" not in _operations()} == set()


def test_every_table_is_listed() -> None:
    """R11.1: a table of a migration that docs/database.md does not list is refused here."""
    listed = (REPOSITORY / "docs" / "database.md").read_text(encoding="utf-8")
    migrations = "\n".join(
        path.read_text(encoding="utf-8") for path in (POSTGRES / "migrations").glob("*.sql")
    )
    tables = set(re.findall(r"^create table (?:if not exists )?(\w+)", migrations, re.MULTILINE))
    tables -= {table for table in tables if table.endswith("_default")}  # partitions of a listed table
    assert len(tables) > 20
    assert {table for table in tables if f"`{table}`" not in listed} == set()
