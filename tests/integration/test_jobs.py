"""Jobs, locks and benchmarks as the API reads them, page by page and tenant by tenant; freeing one machine on the record."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from blsflow.domain.errors import InvalidDocument
from blsflow.flow import benchmarks, control, jobs
from blsflow.flow.benchmarks import NotOfOneTenant, request_benchmark, request_benchmark_once
from blsflow.flow.jobs import LockNotReleasable, NotLocked, UnknownJob
from blsflow.flow.requests import KeyConflict
from tests.integration.commanding import FOREIGN, CommandScene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress
    from blsflow.domain.pages import Page

WHO = {"by": "kim", "why": "board replaced"}
_ENDED_BESIDE_ITS_LOCKS = """
update smart_schedule_attempt_machines set state = 'failed', reason = 'unconfirmed', ended_at = now();
update smart_schedule_attempts set state = 'failed', ended_at = now()
"""


@pytest.fixture
def scene(database: DatabaseAddress) -> Iterator[CommandScene]:
    """Six machines on coin A, which no policy moves unless a test has it tick."""
    with CommandScene(database) as made:
        yield made


def _all(read: Callable[[str | None], Page]) -> list[dict[str, Any]]:
    """Every row of a listing, read page by page."""
    rows: list[dict[str, Any]] = []
    page = read(None)
    while True:
        rows.extend(map(dict, page.rows))
        if page.cursor is None:
            return rows
        page = read(page.cursor)


# ------------------------------------------------------------ jobs


def test_jobs_of_policies_and_commands_are_read_newest_first(scene: CommandScene) -> None:
    """R9.1: batches of ticks and of operators in one list, narrowed by policy, command, state and being open."""
    store = scene.app.store
    first = scene.command("stop", [1])
    scene.carry_out()
    scene.command("stop", [2])
    scene.due_round()
    found = _all(lambda cursor: jobs.jobs(store, tenant_id="acme", cursor=cursor, limit=1))
    assert [(row["action"], row["policy_id"], row["state"], row["machines"]) for row in found] == [
        ("switch", 1, "succeeded", 4),
        ("stop", None, "succeeded", 1),
        ("stop", None, "succeeded", 1),
    ]
    assert all(row["reference"] for row in found)
    scene.command("stop", [3])

    def ids(**filters: Any) -> list[uuid.UUID]:
        return [row["id"] for row in jobs.jobs(store, tenant_id="acme", **filters).rows]

    assert ids(policy_id=1) == [found[0]["id"]]
    assert ids(command_id=first.command_id) == [found[2]["id"]]
    assert ids(state="succeeded") == [row["id"] for row in found]
    assert len(ids(is_open=True)) == 1
    assert ids(is_open=False) == [row["id"] for row in found]
    assert ids(is_open=True, state="succeeded") == []


def test_one_job_shows_its_machines_and_nothing_of_others(scene: CommandScene) -> None:
    """R9.1: a job with a page of its machines; another tenant's is as unknown as none."""
    store = scene.app.store
    scene.command("switch", [1, 2, 3])
    scene.carry_out()
    job_id = jobs.jobs(store, tenant_id="acme").rows[0]["id"]
    job, page = jobs.job_with_machines(store, job_id, tenant_id="acme", limit=2)
    assert (job["succeeded"], job["failed"], job["pending"]) == (3, 0, 0)
    _, rest = jobs.job_with_machines(store, job_id, tenant_id="acme", limit=2, cursor=page.cursor)
    machines = [(row["machine_id"], row["state"]) for row in (*page.rows, *rest.rows)]
    assert machines == [(1, "succeeded"), (2, "succeeded"), (3, "succeeded")]
    with pytest.raises(UnknownJob):
        jobs.job_with_machines(store, job_id, tenant_id="other")
    with pytest.raises(UnknownJob):
        jobs.job_with_machines(store.of_tenant("other"), job_id, tenant_id=None)
    with pytest.raises(UnknownJob):
        jobs.job_with_machines(store, uuid.uuid4(), tenant_id="acme")


@pytest.mark.parametrize("cursor", ["", "x", "W10", "WzEsMl0", "bnVsbA", "\ud800"])
def test_a_cursor_that_is_none_is_refused(scene: CommandScene, cursor: str) -> None:
    """R8.12: what no page gave is refused by name, whatever it is."""
    with pytest.raises(InvalidDocument) as refused:
        jobs.jobs(scene.app.store, tenant_id="acme", cursor=cursor)
    assert refused.value.field == "cursor"


# ------------------------------------------------------------ locks


def test_live_locks_say_whose_they_are_and_since_when(scene: CommandScene) -> None:
    """R5.1, R9.1: by machine, with owner and age; freed and expired ones are none; others' are not shown."""
    store = scene.app.store
    scene.command("stop", [1, 2])
    scene.due()
    scene.tick()
    scene.decide()
    scene.forward(30)
    found = _all(lambda cursor: jobs.locks(store, tenant_id="acme", cursor=cursor, limit=4))
    assert [row["machine_id"] for row in found] == [1, 2, 3, 4, 5, 6]
    assert [row["policy_id"] for row in found] == [None, None, 1, 1, 1, 1]
    assert [row["owner_does"] for row in found] == ["stop", "stop", *["switch"] * 4]
    assert all(30 <= row["age_sec"] < 60 for row in found)
    assert [row["machine_id"] for row in jobs.locks(store, tenant_id="acme", policy_id=1).rows] == [
        3,
        4,
        5,
        6,
    ]
    assert [row["machine_id"] for row in jobs.locks(store, tenant_id="acme", machine_id=2).rows] == [2]
    assert jobs.locks(store, tenant_id="other").rows == []
    assert jobs.locks(store.of_tenant("other"), tenant_id=None).rows == []
    assert len(jobs.locks(store.of_tenant("acme"), tenant_id="acme").rows) == 6
    scene.forward(300)
    assert jobs.locks(store, tenant_id="acme").rows == []


def _stuck(scene: CommandScene) -> None:
    """Two machines whose batch nobody can confirm."""
    scene.command("switch", [1, 2])
    faults = scene.device_control.faults
    faults.profile = faults.profile.__class__(timeout_after_effect_rate=1.0, hang_sec=1.5)
    scene.execute()
    faults.profile = faults.profile.__class__(error_rate=1.0)


def test_one_machine_is_freed_by_an_operators_word(scene: CommandScene) -> None:
    """R5.4: its outcome ends as closed by an operator, its lock alone is freed, on the record; the others stay locked."""
    _stuck(scene)
    closed = jobs.release_machine(scene.app.store, 1, tenant_id="acme", **WHO)
    assert (closed.action, closed.job_id, closed.attempt_ended) == ("switch", None, False)
    assert scene.live_locks() == [2]
    assert scene.rows("select machine_id, state, reason from smart_schedule_attempt_machines order by 1") == [
        [1, "failed", "closed_by_operator"],
        [2, "pending", None],
    ]
    assert (
        scene.value("select freed_by from smart_schedule_machine_locks where machine_id = 1")
        == "operator:kim"
    )
    said = scene.value(
        "select params from smart_schedule_log_events where code = 'machine_closed_by_operator'"
    )
    assert (said["by"], said["why"], said["machine_id"]) == ("kim", "board replaced", 1)
    assert scene.findings() == {}
    with pytest.raises(NotLocked):
        jobs.release_machine(scene.app.store, 1, tenant_id="acme", **WHO)


def test_with_its_last_open_machine_an_attempt_ends(scene: CommandScene) -> None:
    """R5.4: closed machine by machine, the attempt ends as one that was closed as a whole does."""
    _stuck(scene)
    assert not jobs.release_machine(scene.app.store, 2, **WHO).attempt_ended
    assert jobs.release_machine(scene.app.store, 1, **WHO).attempt_ended
    assert scene.attempts() == [["switch", "interrupted", "closed_by_operator"]]
    assert (scene.live_locks(), scene.findings()) == ([], {})
    scene.reconcile()
    assert scene.attempts() == [["switch", "interrupted", "closed_by_operator"]]


def test_the_machines_that_were_not_closed_are_followed_on(scene: CommandScene) -> None:
    """R5.4, R5.6: freeing one machine leaves the others to their confirmed ends."""
    _stuck(scene)
    jobs.release_machine(scene.app.store, 1, **WHO)
    scene.device_control.faults.profile = scene.device_control.faults.profile.__class__()
    scene.carry_out()
    assert scene.attempts() == [["switch", "succeeded", "partly_failed"]]
    assert (scene.live_locks(), scene.findings()) == ([], {})


def test_what_frees_itself_is_not_for_an_operator_to_free(scene: CommandScene) -> None:
    """R5.4: a batch that was not sent frees its machines by itself; nothing is changed."""
    scene.command("switch", [1])
    with pytest.raises(LockNotReleasable, match="not sent yet"):
        jobs.release_machine(scene.app.store, 1, **WHO)
    scene.rows(
        "update smart_schedule_attempts set state = 'dispatching', dispatched_at = now(),"
        " request_expires_at = now(), next_check_at = now()"
    )
    with pytest.raises(LockNotReleasable, match="being sent"):
        jobs.release_machine(scene.app.store, 1, **WHO)
    assert scene.live_locks() == [1]


def test_a_benchmarks_lock_is_its_runs_to_free(scene: CommandScene) -> None:
    """R5.4, R7.1: freeing it would leave the machine on the sampled project; the error says what to do instead."""
    run_id = uuid.uuid4()
    scene.rows(
        f"""
        insert into smart_schedule_benchmark_runs
            (id, tenant_id, policy_id, machine_id, project_id, state, not_before, requested_at, asked_at, started_at)
            values ('{run_id}', 'acme', 1, 1, 2, 'running', now(), now(), now(), now());
        insert into smart_schedule_machine_locks
            (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)
            values (1, 'acme', 'benchmark', '{run_id}', 1, now(), 'infinity');
        """
    )
    with pytest.raises(LockNotReleasable, match="puts it back") as refused:
        jobs.release_machine(scene.app.store, 1, **WHO)
    assert refused.value.holder.owner_id == run_id
    attempt_id = uuid.uuid4()
    scene.rows(
        "insert into smart_schedule_attempts (id, tenant_id, kind, idempotency_key, policy_id, action, state, prepared_at,"
        " valid_until, dispatched_at, benchmark_run_id, benchmark_step)"
        f" values ('{attempt_id}', 'acme', 'device_batch', 'k', 1, 'switch', 'reconciling', now(), now(), now(),"
        f" '{run_id}', 'switch')"
    )
    with pytest.raises(LockNotReleasable, match=f"blsflow release {attempt_id}"):
        jobs.release_machine(scene.app.store, 1, **WHO)
    assert scene.live_locks() == [1]


def test_nobody_frees_what_is_not_theirs(scene: CommandScene) -> None:
    """R9.1: another tenant's lock is as unknown as none, by either wall."""
    _stuck(scene)
    store = scene.app.store
    with pytest.raises(NotLocked):
        jobs.release_machine(store, 1, tenant_id="other", **WHO)
    with pytest.raises(NotLocked):
        jobs.release_machine(store.of_tenant("other"), 1, tenant_id=None, **WHO)
    assert not jobs.release_machine(store.of_tenant("acme"), 1, tenant_id="acme", **WHO).attempt_ended
    assert scene.live_locks() == [2]


def _sell(scene: CommandScene, machine_id: int) -> None:
    scene.rows(f"update machines set tenant_id = 'other', cluster_id = 9 where id = {machine_id}")


def test_a_machine_that_changed_hands_is_freed_with_its_batch(scene: CommandScene) -> None:
    """R5.4, R9.1: its old tenant closes the batch, or its machine, that is still its own; the new one has it free at once."""
    _stuck(scene)
    _sell(scene, 1)
    _sell(scene, 2)
    acme, other = scene.app.store.of_tenant("acme"), scene.app.store.of_tenant("other")
    assert [row["machine_id"] for row in jobs.locks(acme, tenant_id="acme").rows] == [1, 2]
    assert [row["machine_id"] for row in jobs.locks(other, tenant_id="other").rows] == [1, 2]
    with pytest.raises(LockNotReleasable):
        jobs.release_machine(other, 1, tenant_id="other", **WHO)
    assert scene.live_locks() == [1, 2]
    jobs.release_machine(acme, 1, tenant_id="acme", **WHO)
    assert scene.live_locks() == [2]
    attempt_id = scene.value("select id from smart_schedule_attempts")
    control.release(acme, attempt_id, tenant_id="acme", **WHO)
    assert (scene.live_locks(), scene.findings()) == ([], {})
    scene.device_control.faults.profile = scene.device_control.faults.profile.__class__()
    scene.command("stop", [1], None, tenant_id="other")
    assert scene.live_locks() == [1]


@pytest.mark.parametrize("gone", [False, True], ids=["still there", "deleted"])
def test_a_lock_that_outlived_its_attempt_is_freed_by_an_operators_word(
    scene: CommandScene, *, gone: bool
) -> None:
    """R5.4: on the record, also of a machine that there is no more."""
    _stuck(scene)
    scene.rows(_ENDED_BESIDE_ITS_LOCKS)
    if gone:
        scene.rows(
            "delete from machine_mining_runtime where machine_id = 1; delete from machines where id = 1"
        )
    with pytest.raises(NotLocked):
        jobs.release_machine(scene.app.store.of_tenant("other"), 1, tenant_id="other", **WHO)
    freed = jobs.release_machine(scene.app.store, 1, **WHO)
    assert (freed.action, freed.attempt_ended) == ("switch", True)
    assert jobs.release_machine(scene.app.store.of_tenant("acme"), 2, tenant_id="acme", **WHO).attempt_ended
    assert (scene.live_locks(), scene.findings()) == ([], {})
    said = scene.value(
        "select params from smart_schedule_log_events where code = 'lock_freed_by_operator' limit 1"
    )
    assert (said["by"], said["why"]) == ("kim", "board replaced")


def test_a_lock_that_outlived_its_benchmark_run_is_freed_by_an_operators_word(scene: CommandScene) -> None:
    """R5.4, R7.1: a run that has ended puts nothing back any more; its command that was sent last is named."""
    run_id = uuid.uuid4()
    scene.rows(
        f"""
        insert into smart_schedule_benchmark_runs
            (id, tenant_id, policy_id, machine_id, project_id, state, not_before, requested_at, asked_at, ended_at)
            values ('{run_id}', 'acme', 1, 1, 2, 'cancelled', now(), now(), now(), now());
        insert into smart_schedule_machine_locks
            (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)
            values (1, 'acme', 'benchmark', '{run_id}', 1, now(), 'infinity');
        """
    )
    freed = jobs.release_machine(scene.app.store.of_tenant("acme"), 1, tenant_id="acme", **WHO)
    assert (freed.attempt_id, freed.action, freed.attempt_ended) == (None, "benchmark", True)
    assert scene.live_locks() == []


@pytest.mark.parametrize("tenant_id", [None, "acme"])
def test_a_lock_whose_attempt_retention_dropped_is_freed_by_an_operators_word(
    scene: CommandScene, tenant_id: str | None
) -> None:
    """R5.4, R11.1: retention drops what has ended, whose end was confirmed; doctor tells of the lock until it is freed."""
    _stuck(scene)
    owner = scene.value("select id from smart_schedule_attempts")
    scene.rows(_ENDED_BESIDE_ITS_LOCKS)
    scene.forward(91 * 86_400)
    scene.reconcile()
    scene.reconcile()
    assert scene.attempts() == []
    assert [row["machine_id"] for row in scene.findings()["locks_of_nobody"]] == [1, 2]
    store = scene.app.store if tenant_id is None else scene.app.store.of_tenant(tenant_id)
    freed = jobs.release_machine(store, 1, tenant_id=tenant_id, **WHO)
    assert (freed.attempt_id, freed.action, freed.job_id, freed.attempt_ended) == (None, None, None, True)
    assert scene.live_locks() == [2]
    said = scene.value("select params from smart_schedule_log_events where code = 'lock_freed_by_operator'")
    assert (said["owner_id"], said["by"], said["why"]) == (str(owner), "kim", "board replaced")


@pytest.mark.parametrize("at_work", ["attempt", "benchmark"])
def test_a_machines_new_owner_frees_nothing_that_is_not_shown_to_it(
    scene: CommandScene, at_work: str
) -> None:
    """R5.4, R9.1: an owner that another tenant may not see is at work all the same, and is not taken for a dropped one."""
    if at_work == "attempt":
        _stuck(scene)
    else:
        run_id = uuid.uuid4()
        scene.rows(
            f"""
            insert into smart_schedule_benchmark_runs
                (id, tenant_id, policy_id, machine_id, project_id, state, not_before, requested_at, asked_at, started_at)
                values ('{run_id}', 'acme', 1, 1, 2, 'running', now(), now(), now(), now())
            """
        )
        _lock(scene, 1, "benchmark", run_id)
    _sell(scene, 1)
    with pytest.raises(LockNotReleasable):
        jobs.release_machine(scene.app.store.of_tenant("other"), 1, tenant_id="other", **WHO)
    assert 1 in scene.live_locks()


def _lock(scene: CommandScene, machine_id: int, owner_kind: str, owner_id: uuid.UUID) -> None:
    scene.rows(
        "insert into smart_schedule_machine_locks"
        " (machine_id, tenant_id, owner_kind, owner_id, fencing_token, taken_at, expires_at)"
        f" values ({machine_id}, 'acme', '{owner_kind}', '{owner_id}', 1, now(), 'infinity')"
    )


# ------------------------------------------------------------ benchmarks


def _ask(scene: CommandScene, machine_id: int = 1, request_id: str = "r1", tenant_id: str = "acme") -> Any:
    return request_benchmark_once(
        scene.app.store.of_tenant(tenant_id),
        policy_id=1,
        machine_id=machine_id,
        project_id=2,
        tenant_id=tenant_id,
        request_id=request_id,
        by="wei",
    )


def test_a_benchmark_is_asked_for_once_per_request(scene: CommandScene) -> None:
    """R7.2, R8.8: the same request gives the same answer, also after its run has ended; a new one asks anew."""
    first = _ask(scene)
    scene.rows("update smart_schedule_benchmark_runs set state = 'cancelled', ended_at = now()")
    assert _ask(scene) == first
    assert _ask(scene, request_id="r2").run_id != first.run_id
    with pytest.raises(KeyConflict):
        _ask(scene, machine_id=2)
    assert request_benchmark(
        scene.app.store, policy_id=1, machine_id=1, project_id=2, by="op"
    ).run_id == scene.value("select id from smart_schedule_benchmark_runs where ended_at is null")


def test_a_benchmark_of_what_is_someone_elses_cannot_be_asked_for(scene: CommandScene) -> None:
    """R9.1: policy, machine and project must all be the tenant's; nothing is kept, and the request id is free again."""
    with pytest.raises(NotOfOneTenant):
        _ask(scene, machine_id=FOREIGN)
    with pytest.raises(NotOfOneTenant):
        _ask(scene, machine_id=FOREIGN, tenant_id="other")
    assert _ask(scene).state == "pending"


def test_benchmark_runs_and_results_are_read_in_pages(scene: CommandScene) -> None:
    """R9.1: runs newest first, results by machine and project, each once, and none of another tenant's."""
    store = scene.app.store
    ids = [_ask(scene, machine_id, f"r{machine_id}").run_id for machine_id in (1, 2, 3)]
    scene.rows(
        f"update smart_schedule_benchmark_runs set state = 'cancelled', ended_at = now() where id = '{ids[0]}'"
    )
    runs = _all(lambda cursor: benchmarks.benchmark_runs(store, tenant_id="acme", cursor=cursor, limit=1))
    assert [row["id"] for row in runs] == ids[::-1]
    assert {row["requested_by"] for row in runs} == {"wei"}
    still_open = benchmarks.benchmark_runs(store, tenant_id="acme", is_open=True).rows
    assert [row["id"] for row in still_open] == [ids[2], ids[1]]
    found = _all(lambda cursor: benchmarks.benchmarks(store, tenant_id="acme", cursor=cursor, limit=5))
    assert [(row["machine_id"], row["project_id"]) for row in found] == [
        (machine, project) for machine in range(1, 7) for project in (1, 2)
    ]
    assert len(benchmarks.benchmarks(store.of_tenant("acme"), tenant_id="acme", project_id=2).rows) == 6
    for other, tenant_id in ((store, "other"), (store.of_tenant("other"), None)):
        assert benchmarks.benchmark_runs(other, tenant_id=tenant_id).rows == []
        assert benchmarks.benchmarks(other, tenant_id=tenant_id).rows == []
