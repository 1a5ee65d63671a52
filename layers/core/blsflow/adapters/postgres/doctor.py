"""The invariants, looked for in a live database: every check is a query that returns its violations and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blsflow.adapters.postgres.statements import purposes, statements
from blsflow.ports.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from blsflow.adapters.postgres.connection import Session

_PREFIX = "doctor_"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One invariant, what it says, and the rows that break it (at most ``limit`` of them).

    ``unchecked`` says why it could not be looked for; the others were all the same.
    """

    name: str
    rule: str
    violations: Sequence[Mapping[str, Any]]
    unchecked: str | None = None


def examine(session: Session, *, patience: timedelta, limit: int = 20) -> list[Finding]:
    """Run every check; ``patience`` is how long work that is under way may take before it counts as stuck."""
    findings: list[Finding] = []
    for name, sql in statements().items():
        if not name.startswith(_PREFIX):
            continue
        params = {"patience": patience} if ":patience" in sql else {}
        rows, unchecked = [], None
        try:
            rows = session.query(name, page_size=limit, **params)
        except StoreError as error:
            unchecked = str(error)
        finding = Finding(
            name=name.removeprefix(_PREFIX), rule=purposes()[name], violations=rows, unchecked=unchecked
        )
        findings.append(finding)
    return findings
