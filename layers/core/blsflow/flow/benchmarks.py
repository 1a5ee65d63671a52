"""Benchmarks in operators' hands: asking for a run, what runs there are, and what was measured (R7)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from blsflow.domain.errors import BlsflowError, InvalidDocument
from blsflow.domain.pages import BENCHMARK_RUNS, BENCHMARKS
from blsflow.domain.policy import ExecutionMode
from blsflow.flow.pages import read
from blsflow.flow.requests import fingerprint, once
from blsflow.ports.sampling import RequestedBenchmark

if TYPE_CHECKING:
    from blsflow.domain.pages import Page
    from blsflow.ports.store import Store, Transaction


class NotOfOneTenant(BlsflowError):
    """Policy, machine and project do not exist, or belong to different tenants."""

    def __init__(self, policy_id: int, machine_id: int, project_id: int) -> None:
        super().__init__(
            f"policy {policy_id}, machine {machine_id} and project {project_id} are not of one tenant"
        )


def request_benchmark(
    store: Store, *, policy_id: int, machine_id: int, project_id: int, by: str
) -> RequestedBenchmark:
    """Ask for a run before all others, as an operator of the whole deployment; asking again gives the same open run.

    An open run stays with its policy where that may begin runs and the one that is named may not (R7.4).
    """
    with store.transaction() as tx:
        return _request(tx, policy_id, machine_id, project_id, by=by, tenant_id=None)


def request_benchmark_once(  # noqa: PLR0913 - what to measure, for whom, and who asks
    store: Store,
    *,
    policy_id: int,
    machine_id: int,
    project_id: int,
    tenant_id: str,
    request_id: str,
    by: str,
) -> RequestedBenchmark:
    """Ask for a run as a tenant; the same request id gives the same answer, also after the run has ended."""

    def make() -> dict[str, Any]:
        asked = _request(tx, policy_id, machine_id, project_id, by=by, tenant_id=tenant_id)
        return {
            "run_id": str(asked.run_id),
            "state": asked.state,
            "policy_id": asked.policy_id,
            "waits_for": list(asked.waits_for),
        }

    body = {"policy_id": policy_id, "machine_id": machine_id, "project_id": project_id}
    with store.transaction() as tx:
        answer = once(
            tx,
            tenant_id=tenant_id,
            key=request_id,
            fingerprint=fingerprint("benchmarks", body),
            by=by,
            make=make,
        )
    made = answer.document
    return RequestedBenchmark(
        run_id=UUID(made["run_id"]),
        state=made["state"],
        policy_id=made.get("policy_id", policy_id),
        waits_for=tuple(made.get("waits_for", ())),
    )


def benchmark_runs(  # noqa: PLR0913 - the filters of a page
    store: Store,
    *,
    tenant_id: str | None,
    policy_id: int | None = None,
    machine_id: int | None = None,
    project_id: int | None = None,
    state: str | None = None,
    is_open: bool | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Page:
    """Return a page of runs, the newest first."""
    filters = {
        "tenant_id": tenant_id,
        "policy_id": policy_id,
        "machine_id": machine_id,
        "project_id": project_id,
        "state": state,
        "open": is_open,
    }
    with store.transaction() as tx:
        return read(tx, BENCHMARK_RUNS, filters=filters, cursor=cursor, limit=limit)


def benchmarks(  # noqa: PLR0913 - the filters of a page
    store: Store,
    *,
    tenant_id: str | None,
    machine_id: int | None = None,
    project_id: int | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Page:
    """Return a page of what was measured or shared, by machine and project."""
    filters = {"tenant_id": tenant_id, "machine_id": machine_id, "project_id": project_id}
    with store.transaction() as tx:
        return read(tx, BENCHMARKS, filters=filters, cursor=cursor, limit=limit)


def _request(  # noqa: PLR0913 - what to measure, for whom, and who asks
    tx: Transaction,
    policy_id: int,
    machine_id: int,
    project_id: int,
    *,
    by: str,
    tenant_id: str | None,
) -> RequestedBenchmark:
    if tx.covers_machine(policy_id, machine_id, tenant_id=tenant_id) is False:
        raise InvalidDocument(
            field="machine_id", value=machine_id, cause=f"is not in the scope of policy {policy_id}"
        )
    asked = tx.request_benchmark_by_hand(policy_id, machine_id, project_id, by=by, tenant_id=tenant_id)
    if asked is None:
        raise NotOfOneTenant(policy_id, machine_id, project_id)
    if asked.state != "pending":
        return asked
    return replace(asked, waits_for=tuple(_waits_for(tx, asked.policy_id)))


def _waits_for(tx: Transaction, policy_id: int | None) -> list[str]:
    """Name what keeps a policy from beginning any run (R7.4), whatever the deployment allows; an archived one begins none."""
    rows = () if policy_id is None else tx.policy_status(policy_id=policy_id)
    if not rows:
        return ["policy_archived"]
    (row,) = rows
    obstacles = {
        "policy_disabled": not row["enabled"],
        "policy_frozen": row["frozen_for"] is not None,
        "mode_not_execute": row["execution_mode"] != ExecutionMode.EXECUTE,
        "sampling_off": row["max_benchmarks"] == 0,
        "lease_not_held": not row["lease_held"],
    }
    return [code for code, is_there in obstacles.items() if is_there]
