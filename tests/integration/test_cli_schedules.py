from __future__ import annotations

import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.domain.occurrence import ATTEMPT_STEPS, OCCURRENCE_STEPS, AttemptState, OccurrenceState
from blsflow_cli.main import run
from local.simulators.execution_runs import ExecutionFaults
from local.simulators.execution_service import ExecutionServiceSimulator
from local.simulators.web import Served
from tests.integration.control_scenes import environment, look
from tests.integration.test_cli_serve import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from blsflow.adapters.postgres.address import DatabaseAddress

TOKEN = "simulated"
FAR_OFF = {"kind": "once", "at": "2999-01-01T00:00:00", "time_zone": "Asia/Shanghai"}
EVERY_SECOND = {"kind": "interval", "every_sec": 1, "time_zone": "UTC"}
DOCUMENT: dict[str, Any] = {
    "tenant": "north-mining",
    "created_by": "user-17",
    "name": "Briefing",
    "rule": FAR_OFF,
    "work": {"target": "analyst", "conversation_id": "conv-morning", "prompt": "What happened?"},
}
# Every step that the product takes, as the database sees it.
WATCH = """
create table steps (watched text, was text, now text);
create function note_step() returns trigger language plpgsql as $$
begin
    if old.state is distinct from new.state then
        insert into steps values (tg_table_name, old.state, new.state);
    end if;
    return new;
end $$;
create trigger note after update on smart_schedule_occurrences for each row execute function note_step();
create trigger note after update on smart_schedule_attempts for each row execute function note_step();
insert into smart_schedule_executor_leases (tenant_id, holder, changed_by) values ('north-mining', 'blsflow', 'test');
"""


class Console:
    """The command line on one database, beside a simulated execution service."""

    class Ended(NamedTuple):
        """How a command ended, and what it said."""

        returncode: int
        stdout: str
        stderr: str

    def __init__(
        self,
        address: DatabaseAddress,
        service: ExecutionServiceSimulator,
        environ: dict[str, str],
        call: Callable[[list[str]], Console.Ended],
    ) -> None:
        self.address = address
        self.service = service
        self.environ = environ
        self._call = call

    def __call__(self, *words: object) -> Console.Ended:
        """Run a command as a person would."""
        return self._call(["blsflow", *map(str, words)])

    def json(self, *words: object, code: int = 0) -> Any:
        """Run a command for a program; it ends with this code."""
        ended = self(*words, "--json")
        assert ended.returncode == code, ended
        return json.loads(ended.stdout)

    def create(self, path: Path, **changes: object) -> int:
        """Store a schedule; return its id."""
        schedule: int = self.json("schedule", "create", written(path, **changes))["schedule_id"]
        return schedule


def written(path: Path, **changes: object) -> Path:
    """The schedule document with these changes, in a file."""
    path.write_text(json.dumps(DOCUMENT | changes), encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a schedule document is written to."""
    return tmp_path / "schedule.json"


@pytest.fixture
def blsflow(
    database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Console]:
    """The command line; afterwards, no state has followed from another but by a step that the code draws."""
    with closing(Session(database)) as session:
        session.run(WATCH)
    service = ExecutionServiceSimulator(token=TOKEN, run_sec=0.3)

    def call(argv: list[str]) -> Console.Ended:
        monkeypatch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as end:
            run()
        return Console.Ended(int(end.value.code or 0), *capsys.readouterr())

    with Served(service) as served:
        environ = environment(database) | {
            "BLSFLOW_SCHEDULER_EXECUTE_ENABLED": "true",
            "BLSFLOW_SCHEDULER_EXECUTION_API_BASE_URL": served.url,
            "BLSFLOW_SCHEDULER_EXECUTION_API_TOKEN": TOKEN,
        }
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        yield Console(database, service, environ, call)
    steps = look(database, "select distinct watched, was, now from steps")
    for watched, was, now in steps:
        if watched == "smart_schedule_occurrences":
            assert OccurrenceState(now) in OCCURRENCE_STEPS[OccurrenceState(was)], (watched, was, now)
        else:
            assert AttemptState(now) in ATTEMPT_STEPS[AttemptState(was)], (watched, was, now)


def test_a_schedule_is_stored_changed_paused_and_archived(blsflow: Console, file: Path) -> None:
    """R8.1, R11.5: a schedule's whole life in commands; a change names the version that it is made on."""
    schedule = blsflow.create(file)
    (row,) = blsflow.json("schedules", "--tenant", "north-mining")
    assert (row["id"], row["version"], row["kind"], row["paused"]) == (schedule, 1, "conversation", False)
    assert blsflow.json("schedules", "--tenant", "lakeside", code=2)["errors"][0].startswith("--tenant: ")
    later = written(file, name="Later briefing")
    assert blsflow.json("schedule", "change", schedule, later, "--version", 1)["version"] == 2
    stale = blsflow("schedule", "change", schedule, later, "--version", 1)
    assert (stale.returncode, "no longer at 1" in stale.stderr) == (2, True)
    assert blsflow.json("schedule", "pause", schedule)["paused"]
    assert "paused" in blsflow("schedules").stdout
    assert blsflow.json("schedule", "resume", schedule)["next_run_at"].startswith("2998-12-31T16:00")
    assert "archived" in blsflow("schedule", "archive", schedule).stdout
    assert blsflow.json("schedules") == []
    resumed = blsflow("schedule", "resume", schedule)
    assert (resumed.returncode, f"schedule {schedule} is archived" in resumed.stderr) == (2, True)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"rule": FAR_OFF | {"time_zone": "Mars/Olympus"}}, "rule.time_zone"),
        ({"rule": EVERY_SECOND | {"every_sec": 0}}, "rule.every_sec"),
        ({"rule": EVERY_SECOND | {"every_sec": "60"}}, "rule.every_sec"),
        ({"rule": {"kind": "hourly", "time_zone": "UTC"}}, "rule.kind"),
        ({"work": DOCUMENT["work"] | {"prompt": "  "}}, "work.prompt"),
        ({"work": DOCUMENT["work"] | {"model": "large"}}, "work.model"),
        ({"tenant": ""}, "tenant"),
        ({"tenant": "nrth-mining"}, "tenant"),
    ],
    ids=["zone", "zero", "text", "kind", "blank", "unknown", "nobody", "misspelt"],
)
def test_what_cannot_be_meant_is_named_and_not_stored(
    blsflow: Console, file: Path, changes: dict[str, Any], field: str
) -> None:
    """R8.2: an invalid schedule is refused as `invalid_execution_request` naming the field, and nothing is recorded."""
    refused = blsflow.json("schedule", "create", written(file, **changes), code=2)
    assert refused["code"] == "invalid_execution_request"
    assert refused["errors"][0].startswith(f"{field}: ")
    assert look(blsflow.address, "select count(*) from smart_schedule_schedules") == [[0]]


def test_a_schedules_creator_and_tenant_stay(blsflow: Console, file: Path) -> None:
    """R8.1: whose rights a run has cannot be changed, and another tenant's schedule is unknown."""
    schedule = blsflow.create(file)
    change = ("schedule", "change", schedule)
    other = blsflow.json(*change, written(file, created_by="user-18"), "--version", 1, code=2)
    assert other["errors"][0].startswith("created_by: ")
    unknown = blsflow.json(*change, written(file, tenant="lakeside"), "--version", 1, code=2)
    assert "there is no schedule" in unknown["errors"][0]


def test_a_manual_run_is_one_however_often_it_is_asked_for(blsflow: Console, file: Path) -> None:
    """R8.8, R8.7: the same request id is the same occurrence, sent once, and followed to its result."""
    schedule = blsflow.create(file)
    first = blsflow.json("schedule", "run", schedule, "--request-id", "r1")
    again = blsflow.json("schedule", "run", schedule, "--request-id", "r1")
    assert (first["outcome"], again["outcome"]) == ("accepted", "running")
    assert first["run_id"]
    assert first["occurrence_id"] == again["occurrence_id"]
    assert blsflow.json("execute", "--wait", 30)["attempts_ended"] == 1
    (row,) = blsflow.json("occurrences", "--schedule", schedule)["occurrences"]
    assert (row["origin"], row["state"], row["request_id"]) == ("manual", "succeeded", "r1")
    assert row["output_ref"] == f"message:{first['run_id']}"
    table = blsflow("occurrences").stdout
    assert "succeeded" in table
    assert f"message:{first['run_id']}" in table


def test_a_run_that_meets_another_is_skipped_and_says_so(blsflow: Console, file: Path) -> None:
    """R8.4: while a run is at work the next one is skipped as `previous_unfinished`, with exit code 1."""
    blsflow.service.faults.profile = ExecutionFaults(endless_rate=1.0)
    schedule = blsflow.create(file)
    blsflow.json("schedule", "run", schedule, "--request-id", "r1")
    met = blsflow.json("schedule", "run", schedule, "--request-id", "r2", code=1)
    assert met["outcome"] == "previous_unfinished"
    assert blsflow.json("schedule", "run", schedule, "--request-id", "r2", code=1)["outcome"] == "skipped"


def test_a_target_that_is_no_more_leaves_its_record(blsflow: Console, file: Path) -> None:
    """R8.9: `execution_target_unavailable` comes with the occurrence's id, which history shows."""
    schedule = blsflow.create(file, work=DOCUMENT["work"] | {"target": "nobody"})
    said = blsflow.json("schedule", "run", schedule, "--request-id", "r1", code=1)
    assert said["outcome"] == "execution_target_unavailable"
    (row,) = blsflow.json("occurrences", "--state", "skipped")["occurrences"]
    assert (row["occurrence_id"], row["reason"]) == (said["occurrence_id"], "execution_target_unavailable")


def test_a_cancelled_run_keeps_its_slot_until_its_end_is_confirmed(blsflow: Console, file: Path) -> None:
    """R8.8: a cancel is asked for, and confirmed by what the service says; another schedule's occurrence is unknown."""
    blsflow.service.faults.profile = ExecutionFaults(endless_rate=1.0, cancel_sec=0.2)
    schedule, other = blsflow.create(file), blsflow.create(file)
    occurrence = blsflow.json("schedule", "run", schedule, "--request-id", "r1")["occurrence_id"]
    assert blsflow("schedule", "cancel", other, occurrence).returncode == 2
    assert blsflow.json("schedule", "cancel", schedule, occurrence) == {
        "occurrence_id": occurrence,
        "state": "cancelling",
        "asked": True,
    }
    assert blsflow.json("execute", "--wait", 30)["open_attempts"] == 0
    (row,) = blsflow.json("occurrences", "--state", "cancelled")["occurrences"]
    assert row["occurrence_id"] == occurrence
    assert "is cancelled" in blsflow("schedule", "cancel", schedule, occurrence).stdout


def test_a_cancel_that_comes_too_late_is_a_finding(blsflow: Console, file: Path) -> None:
    """R8.7: an end is final; cancelling after it changes nothing and says what the end was."""
    schedule = blsflow.create(file)
    occurrence = blsflow.json("schedule", "run", schedule, "--request-id", "r1")["occurrence_id"]
    blsflow.json("execute", "--wait", 30)
    late = blsflow.json("schedule", "cancel", schedule, occurrence, code=1)
    assert (late["state"], late["asked"]) == ("succeeded", False)


def test_tick_records_and_execute_sends_what_is_due(blsflow: Console, file: Path) -> None:
    """R8.3, R11.5: a due conversation is recorded by a scan, sent by execute, and passed over while it is at work."""
    blsflow.service.faults.profile = ExecutionFaults(endless_rate=1.0)
    blsflow.create(file, rule=EVERY_SECOND)
    look(blsflow.address, "select pg_sleep(1.1)")
    assert blsflow.json("tick")["recorded"] == 1
    sent = blsflow.json("execute", "--wait", 0, code=1)
    assert sent["outcomes"] == {"accepted": 1}
    look(blsflow.address, "select pg_sleep(1.1)")
    blsflow.json("tick")
    skipped = blsflow.json("occurrences", "--state", "skipped", "--kind", "conversation")["occurrences"]
    assert "previous_unfinished" in {row["reason"] for row in skipped}
    assert blsflow.json("doctor")["findings"] == []


def test_pages_of_history_follow_one_another(blsflow: Console, file: Path) -> None:
    """R8.12: pages neither repeat nor lose an occurrence, say how to go on, and refuse what is no cursor."""
    schedule = blsflow.create(file, work=DOCUMENT["work"] | {"target": "nobody"})
    made = [
        blsflow.json("schedule", "run", schedule, "--request-id", f"r{number}", code=1)["occurrence_id"]
        for number in range(3)
    ]
    page = blsflow.json("occurrences", "--limit", 2)
    rest = blsflow.json("occurrences", "--limit", 2, "--cursor", page["next_cursor"])
    seen = [row["occurrence_id"] for row in page["occurrences"] + rest["occurrences"]]
    assert seen == made[::-1]
    assert rest["next_cursor"] is None
    assert f"--cursor {page['next_cursor']}" in blsflow("occurrences", "--limit", 2).stdout
    assert blsflow.json("occurrences", "--until", "2001-01-01T00:00Z")["occurrences"] == []
    refused = blsflow.json("occurrences", "--cursor", "x", code=2)
    assert refused["code"] == "invalid_document"


def test_serve_holds_conversations(blsflow: Console, file: Path) -> None:
    """R8.1, R11.5: without AWS, due conversations are started and followed to their results, and rounds tell of it."""
    blsflow.create(file, rule=EVERY_SECOND)
    with serving(blsflow.environ | {"TICK_INTERVAL_SEC": "1"}, "serve") as running:
        running.wait_until(
            lambda: any(line["followed"] and line["followed"]["ended"] for line in running.events("round"))
        )
        assert running.stop() == 0
    sent = [each for line in running.events("round") for each in line["sent"]]
    assert sent[0]["outcome"] == "accepted"
    assert sent[0]["run_id"]
    assert blsflow.json("occurrences", "--state", "succeeded")["occurrences"]


def test_a_policys_schedule_is_not_changed_or_archived_here(blsflow: Console, file: Path) -> None:
    """R8.1: a tick belongs to its policy; only a conversation's schedule is written, archived or run as one."""
    look(
        blsflow.address,
        "with policy as (insert into smart_schedule_policy_groups (tenant_id, name, mode, time_zone, created_by)"
        " values ('north-mining', 'guard', 'profit_guard', 'UTC', 'user-17') returning id)"
        " insert into smart_schedule_schedules"
        " (tenant_id, created_by, kind, policy_id, work, rule, time_zone)"
        """ select 'north-mining', 'user-17', 'policy_tick', id, '{}', '{"kind": "interval", "every_sec": 60}', 'UTC'"""
        " from policy",
    )
    (row,) = blsflow.json("schedules")
    for instead, *words in (
        ("policy change", "change", row["id"], written(file), "--version", row["version"]),
        ("disable", "pause", row["id"]),
        ("enable", "resume", row["id"]),
        ("policy archive", "archive", row["id"]),
        ("run", "run", row["id"], "--request-id", "r1"),
    ):
        refused = blsflow.json("schedule", *words, code=2)
        assert refused["errors"] == [
            f"schedule {row['id']} is the tick of policy {row['policy_id']}: use `blsflow {instead}`"
        ]
    assert blsflow.json("schedules") == [row]
