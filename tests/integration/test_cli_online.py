from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from blsflow.adapters.postgres import ticks
from blsflow.adapters.postgres.migrate import migration_files
from blsflow_cli import past
from blsflow_cli.main import run
from tests.integration.control_scenes import (
    NO_POLICY,
    NORTH,
    PROFIT_GUARD,
    environment,
    look,
    seeded,
    services,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from blsflow.adapters.postgres.address import DatabaseAddress


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str

    def document(self) -> Any:
        """The JSON that it printed."""
        return json.loads(self.stdout)


Command = Callable[..., Ended]


@pytest.fixture
def blsflow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command as a person would, in the environment that `deployed` set up."""

    def run_it(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["blsflow", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            run()
        return Ended(int(end.value.code or 0), *capsys.readouterr())

    return run_it


def use(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    """Take these settings for the commands that follow."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def fleet(database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch) -> DatabaseAddress:
    """A seeded database that the commands work on, without outside services."""
    use(monkeypatch, environment(seeded(database)))
    return database


@pytest.fixture
def deployed(fleet: DatabaseAddress, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatabaseAddress]:
    """The same with all outside services, and allowed to execute."""
    with services(fleet) as environ:
        use(monkeypatch, environ)
        yield fleet


def test_a_deployment_without_a_database_is_told_which_setting_it_lacks(
    blsflow: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R11.7: the message names the setting that is missing."""
    monkeypatch.delenv("BLSFLOW_SCHEDULER_DATABASE_URL", raising=False)
    ended = blsflow("status")
    assert ended.returncode == 2
    assert "BLSFLOW_SCHEDULER_DATABASE_URL is not set: " in ended.stderr
    assert blsflow("status", "--json").document()["errors"]


@pytest.mark.usefixtures("fleet")
def test_a_setting_that_cannot_be_meant_is_named(blsflow: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """R11.7: settings are validated before anything is done, and the message names the one."""
    monkeypatch.setenv("TICK_INTERVAL_SEC", "soon")
    ended = blsflow("tick")
    assert (ended.returncode, "TICK_INTERVAL_SEC='soon'" in ended.stderr) == (2, True)


@pytest.mark.parametrize("command", [["status"], ["tick"], ["logs"], ["doctor"], ["serve"], ["migrate"]])
def test_a_database_that_does_not_answer_is_said_so(
    blsflow: Command, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """R11.5: no command ends in a traceback when the database is away; it says what to check."""
    monkeypatch.setenv("BLSFLOW_SCHEDULER_DATABASE_URL", "postgresql://a:b@127.0.0.1:1/x")
    ended = blsflow(*command)
    assert ended.returncode == 2
    assert "the database cannot be used: 127.0.0.1:1: " in ended.stderr
    assert "Check BLSFLOW_SCHEDULER_DATABASE_URL" in ended.stderr
    assert "?tls=off" in ended.stderr


def test_a_password_is_never_shown(
    blsflow: Command, database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R11.3: a refused log-in tells neither the right nor the wrong password."""
    environ = environment(database)
    secret = "not-the-password"
    environ["BLSFLOW_SCHEDULER_DATABASE_URL"] = environ["BLSFLOW_SCHEDULER_DATABASE_URL"].replace(
        database.password, secret
    )
    use(monkeypatch, environ)
    ended = blsflow("status")
    assert ended.returncode == 2
    assert secret not in ended.stderr + ended.stdout


def test_a_database_is_migrated_before_it_is_used(
    blsflow: Command, empty_database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R11.1: commands on an old schema say how to migrate it; migrating again changes nothing."""
    use(monkeypatch, environment(empty_database))
    versions = [version for version, _ in migration_files()]
    refused = blsflow("status")
    assert (refused.returncode, "run `blsflow migrate`" in refused.stderr) == (2, True)
    assert blsflow("migrate", "--json").document() == {"applied": versions}
    assert blsflow("migrate", "--json").document() == {"applied": []}
    assert blsflow("status", "--json").document() == []


def test_tick_execute_and_explain_carry_the_work_to_its_end(
    blsflow: Command, deployed: DatabaseAddress
) -> None:
    """R11.5, R3.2, R5.4: a scan decides, what it prepared is sent and confirmed, and a decision can be recomputed."""
    ticked = blsflow("tick", "--json").document()
    assert ticked["feed"] == "ok"
    assert [tick["outcome"] for tick in ticked["ticks"]] == ["decided"] * ticked["recorded"]
    assert sum(tick["attempts"] for tick in ticked["ticks"]) > 0
    waiting = blsflow("attempts", "--json").document()
    assert {attempt["state"] for attempt in waiting} == {"prepared"}
    done = blsflow("execute", "--wait", 30, "--json")
    assert done.returncode == 0, done
    executed = done.document()
    assert executed["outcomes"].keys() == {"accepted"}
    assert executed["open_attempts"] == 0
    assert executed["attempts_ended"] == len(waiting)
    assert "Nothing is under way" in blsflow("attempts").stdout
    moved = look(
        deployed,
        "select tick_id, machine_id, job_id from smart_schedule_machine_decisions where attempt_id is not null",
    )
    tick_id, machine_id, job_id = moved[0]
    explained = blsflow("explain", tick_id, machine_id, "--json")
    assert explained.returncode == 0
    assert explained.document()["agrees"]
    assert explained.document()["stored"]["job_id"] == job_id
    assert "agrees with what was stored" in blsflow("explain", tick_id, machine_id).stdout
    assert blsflow("doctor", "--json").document()["findings"] == []


def test_every_decision_of_a_tick_agrees_with_its_recomputation(
    blsflow: Command, deployed: DatabaseAddress
) -> None:
    """R3.2, R3.10: whatever became of a decision, moves held back included, its figures lead to it again."""
    look(deployed, "update smart_schedule_executor_leases set holder = 'legacy' where tenant_id = 'lakeside'")
    blsflow("tick")
    decisions = look(deployed, "select tick_id, machine_id from smart_schedule_machine_decisions")
    assert len(decisions) >= 40
    for tick_id, machine_id in decisions:
        assert blsflow("explain", tick_id, machine_id, "--json").document()["differences"] == []


def test_explain_says_when_the_recomputation_disagrees(blsflow: Command, deployed: DatabaseAddress) -> None:
    """R3.2: a stored decision that its own inputs do not lead to is a finding, with both values."""
    blsflow("tick")
    ((tick_id, machine_id),) = look(
        deployed,
        "update smart_schedule_machine_decisions set best_net_cny_per_day = 1e6 where (tick_id, machine_id) = "
        "(select tick_id, machine_id from smart_schedule_machine_decisions where action = 'keep' "
        "and best_net_cny_per_day is not null limit 1) returning tick_id, machine_id",
    )
    ended = blsflow("explain", tick_id, machine_id, "--json")
    assert ended.returncode == 1
    (difference,) = ended.document()["differences"]
    assert difference.startswith("best_net: stored 1000000.0")


def test_explain_refuses_what_it_cannot_recompute(blsflow: Command, deployed: DatabaseAddress) -> None:
    """R3.2: an unknown decision, and one of another layout, are said to be so."""
    blsflow("tick")
    assert "no decision for machine 999" in blsflow("explain", 1, 999).stderr
    look(deployed, """update smart_schedule_ticks set inputs = inputs || '{"layout": 99}'""")
    ((tick_id, machine_id),) = look(
        deployed, "select tick_id, machine_id from smart_schedule_machine_decisions limit 1"
    )
    ended = blsflow("explain", tick_id, machine_id)
    assert (ended.returncode, "layout 99" in ended.stderr) == (2, True)


def test_execute_says_what_is_left_open(blsflow: Command, deployed: DatabaseAddress) -> None:
    """R5.4: when the waiting time is over, what has no confirmed end yet is a finding and stays locked."""
    blsflow("tick")
    ended = blsflow("execute", "--wait", 0, "--json")
    assert ended.returncode == 1
    assert ended.document()["open_attempts"] > 0
    assert look(deployed, "select count(*) from smart_schedule_machine_locks where freed_at is null") > [[0]]


@pytest.mark.usefixtures("fleet")
def test_status_tells_a_freeze_with_its_reason(blsflow: Command) -> None:
    """R9.1, R6.3: why a policy is frozen, since when and by whom is shown until it is enabled again."""
    assert blsflow("freeze", PROFIT_GUARD, "--reason", "prices look wrong", "--by", "kim").returncode == 0
    shown = blsflow("status", PROFIT_GUARD)
    assert "frozen for manual" in shown.stdout
    assert "by kim" in shown.stdout
    (row,) = blsflow("status", PROFIT_GUARD, "--json").document()
    assert (row["frozen_for"], row["frozen_by"], row["freeze_detail"]) == (
        "manual", "kim", {"why": "prices look wrong"},
    )  # fmt: skip
    assert "was frozen already" in blsflow("freeze", PROFIT_GUARD, "--reason", "again").stdout
    assert (
        "its freeze (manual: an operator froze it) is lifted"
        in blsflow("enable", PROFIT_GUARD, "--reason", "fine").stdout
    )
    (row,) = blsflow("status", PROFIT_GUARD, "--json").document()
    assert (row["frozen_for"], row["enabled"], row["lease_held"]) == (None, True, True)
    assert blsflow("disable", PROFIT_GUARD, "--reason", "done", "--json").document()["next_run_at"] is None


def test_whoever_changes_something_is_on_the_record_by_default(
    blsflow: Command, fleet: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R6.3: without --by it is the user of this computer."""
    monkeypatch.setenv("LOGNAME", "operator-7")
    blsflow("freeze", PROFIT_GUARD, "--reason", "a test")
    assert look(fleet, "select frozen_by from smart_schedule_freezes") == [["operator-7"]]


@pytest.mark.parametrize(
    "command",
    [
        ["enable", NO_POLICY, "--reason", "x"],
        ["disable", NO_POLICY, "--reason", "x"],
        ["freeze", NO_POLICY, "--reason", "x"],
        ["run", NO_POLICY, "--request-id", "x"],
        ["dry-run", NO_POLICY],
        ["status", NO_POLICY],
        ["lease", "nobody", "--to", "blsflow"],
        ["release", "0199c5c2-7d4a-7c3e-9f60-6f1a2b3c4d5e", "--reason", "x"],
    ],
    ids=lambda command: str(command[0]),
)
@pytest.mark.usefixtures("fleet")
def test_what_is_unknown_is_refused_with_what_to_do(blsflow: Command, command: list[object]) -> None:
    """R11.5: an unknown id is bad input, and the message names the command that lists the known ones."""
    ended = blsflow(*command)
    assert ended.returncode == 2
    assert "blsflow status" in ended.stderr or "blsflow attempts" in ended.stderr
    assert blsflow(*command, "--json").document()["errors"]


@pytest.mark.parametrize("command", ["enable", "disable", "freeze"])
@pytest.mark.parametrize("reason", [[], ["--reason", " "]], ids=["missing", "blank"])
def test_nothing_is_changed_without_a_reason(
    blsflow: Command, fleet: DatabaseAddress, command: str, reason: list[str]
) -> None:
    """R6.3: a change without a reason is refused and not made."""
    assert blsflow(command, PROFIT_GUARD, *reason).returncode == 2
    assert look(fleet, "select count(*) from smart_schedule_log_events") == [[0]]


def test_a_manual_run_is_decided_once(blsflow: Command, deployed: DatabaseAddress) -> None:
    """R8.8: repeated with the same request id it is the same occurrence, decided once."""
    blsflow("freeze", PROFIT_GUARD, "--reason", "to be looked at")
    frozen = blsflow("run", PROFIT_GUARD, "--request-id", "while frozen")
    assert (frozen.returncode, frozen.stdout.count("occurrence")) == (1, 1), frozen
    assert "frozen: the policy is frozen" in frozen.stdout
    assert blsflow("run", PROFIT_GUARD, "--request-id", "while frozen").returncode == 1
    blsflow("enable", PROFIT_GUARD, "--reason", "looked at")
    first = blsflow("run", PROFIT_GUARD, "--request-id", "a", "--json").document()
    again = blsflow("run", PROFIT_GUARD, "--request-id", "a", "--json").document()
    assert [tick["outcome"] for tick in first["ticks"]] == ["decided"]
    assert (again["occurrence_id"], again["is_new"], again["ticks"]) == (first["occurrence_id"], False, [])
    assert look(deployed, "select count(*) from smart_schedule_ticks") == [[1]]


@pytest.mark.usefixtures("deployed")
def test_a_dry_run_shows_the_figures_of_each_candidate(blsflow: Command) -> None:
    """R4.1, R3.2: each shown machine comes with the revenue, cost and net of the projects considered for it."""
    blsflow("run", PROFIT_GUARD, "--request-id", "for its prices")
    blsflow("tick")
    document = blsflow("dry-run", PROFIT_GUARD, "--limit", 3, "--json").document()
    assert len(document["machines"]) == 3
    assert document["decided_machines"] == sum(document["counts"].values())
    figures = [
        project["figures"]
        for machine in document["machines"]
        for project in machine["projects"]
        if project["figures"]
    ]
    assert figures
    for each in figures:
        net = each["revenue_cny_per_day"] - each["cost_cny_per_day"]
        assert each["net_cny_per_day"] == pytest.approx(net)
    assert "Nothing was stored." in blsflow("dry-run", PROFIT_GUARD).stdout


@pytest.mark.usefixtures("deployed")
def test_a_released_attempt_may_still_act_and_the_operator_is_warned(blsflow: Command) -> None:
    """R5.4: releasing says that the job may still act on the machines that it frees."""
    blsflow("tick")
    blsflow("execute", "--wait", 0)
    (attempt, *_) = blsflow("attempts", "--json").document()
    ended = blsflow("release", attempt["id"], "--reason", "lost", "--by", "kim")
    assert ended.returncode == 0
    assert "may still act" in ended.stderr
    assert attempt["reference"] in ended.stderr
    assert attempt["id"] not in {each["id"] for each in blsflow("attempts", "--json").document()}


@pytest.mark.usefixtures("fleet")
def test_logs_show_the_newest_events_a_line_each(blsflow: Command) -> None:
    """R9.1, R9.4: the newest events of a policy, oldest first, as sentences or as one JSON object a line."""
    blsflow("freeze", PROFIT_GUARD, "--reason", "first")
    blsflow("enable", PROFIT_GUARD, "--reason", "second")
    blsflow("freeze", PROFIT_GUARD + 1, "--reason", "another policy")
    lines = blsflow("logs", PROFIT_GUARD).stdout.splitlines()
    assert [line.split(": ")[1].split()[0] for line in lines] == ["policy_frozen", "policy_enabled"]
    assert "The policy is frozen: an operator froze it" in lines[0]
    assert "why: first" in lines[0]
    assert "重新启用之前不会发送任何指令" in blsflow("logs", PROFIT_GUARD, "--lang", "zh").stdout
    (last,) = blsflow("logs", "--lines", 1, "--json").stdout.splitlines()
    event = json.loads(last)
    assert (event["policy_id"], event["code"]) == (PROFIT_GUARD + 1, "policy_frozen")
    assert event["params"]["why"] == "another policy"
    assert "why: another policy" in event["texts"]["en"]
    assert "原因：another policy" in event["texts"]["zh"]


def test_doctor_lists_a_violation_with_its_rows(blsflow: Command, fleet: DatabaseAddress) -> None:
    """R11.2: a finding has the rule, the rows that break it, and exit code 1; a sound database has none and 0."""
    assert blsflow("doctor").returncode == 0
    look(
        fleet, "update smart_schedule_schedules set broken = 'no rule' where policy_id = :id", id=PROFIT_GUARD
    )
    ended = blsflow("doctor", "--json")
    assert ended.returncode == 1
    (finding,) = ended.document()["findings"]
    assert finding["name"] == "policies_that_cannot_tick"
    assert finding["violations"][0]["broken"] == "no rule"
    assert "no rule" in blsflow("doctor").stdout


@pytest.mark.usefixtures("fleet")
def test_a_lease_is_shown_where_it_is_changed_and_in_the_status(blsflow: Command) -> None:
    """R4.2: changing the lease says who held it, and the status who may act now."""
    changed = blsflow("lease", NORTH, "--to", "legacy", "--json").document()
    assert (changed["was"], changed["holder"]) == ("blsflow", "legacy")
    rows = blsflow("status", "--json").document()
    assert {row["tenant_id"] for row in rows if not row["lease_held"]} == {NORTH}
    assert blsflow("lease", NORTH, "--to", "nobody").returncode == 2


COMMANDS = (
    "migrate", "status", "enable", "disable", "freeze", "logs", "attempts", "release", "lease", "doctor", "explain",
    "tick", "execute", "dry-run", "run", "serve",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_json(blsflow: Command, command: str) -> None:
    """R11.5: each command explains itself with an example, and prints JSON when asked."""
    shown = blsflow(command, "--help").stdout
    assert "For example" in shown
    assert f"blsflow {command}" in shown
    assert "--json" in shown


def test_a_report_tells_what_the_ticks_came_to(
    blsflow: Command, deployed: DatabaseAddress, tmp_path: Path
) -> None:
    """R4.5, R11.5: from the stored ticks, as tables, as JSON and as a picture; without ticks no gain is made up."""
    unknown = blsflow("report", PROFIT_GUARD, "--days", 1)
    assert (unknown.returncode, "there is no gain to speak of" in unknown.stdout) == (1, True)
    assert blsflow("tick").returncode == 0
    chart = tmp_path / "report.png"
    told = blsflow("report", PROFIT_GUARD, "--days", 0.01, "--chart", chart, "--json").document()
    stored = look(
        deployed, "select machines, counts from smart_schedule_ticks where policy_id = :id", id=PROFIT_GUARD
    )
    assert sum(told["ticks_by_mode"].values()) == len(stored) == 1
    assert told["machines"] == stored[0][0]
    assert sum(told["decisions"].values()) == stored[0][0]
    assert told["known_hours"] > 0
    assert chart.read_bytes().startswith(b"\x89PNG")
    assert "always on" in blsflow("report", PROFIT_GUARD).stdout
    missing = blsflow("report", NO_POLICY)
    assert (missing.returncode, f"no policy {NO_POLICY}" in missing.stderr) == (2, True)


def test_a_backtest_tries_a_policy_on_what_is_on_record(blsflow: Command, deployed: DatabaseAddress) -> None:
    """R4.6, R11.5: with the deployment's own prices, tariffs, machines and exchange rate; it stores nothing."""
    assert blsflow("tick").returncode == 0
    before = look(deployed, "select count(*) from smart_schedule_ticks")
    since = look(deployed, "select now() - interval '10 minutes'")[0][0]
    until = since + timedelta(minutes=20)
    period = ("--since", since.isoformat(), "--until", until.isoformat(), "--step", 60)
    tried = blsflow("backtest", PROFIT_GUARD, *period, "--json").document()
    assert tried["instants"] == 20
    assert tried["known_hours"] > 0
    assert tried["known_hours"] + sum(tried["unknown_hours"].values()) == pytest.approx(
        tried["machines"] * 20 / 60
    )
    assert {span["cluster_id"] for span in tried["tariff_spans"]} == {1, 3}
    assert look(deployed, "select count(*) from smart_schedule_ticks") == before
    refused = blsflow("backtest", PROFIT_GUARD, *period, "--limit", 10)
    assert (refused.returncode, "take steps" in refused.stderr) == (2, True)
    assert blsflow("backtest", PROFIT_GUARD).returncode == 2


@pytest.mark.usefixtures("fleet")
def test_a_scan_without_prices_is_a_finding(blsflow: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """R2.1: a feed that cannot be reached is named with its cause, at once and as long as it is not asked again."""
    monkeypatch.setenv("BLSFLOW_SCHEDULER_PROFIT_API_BASE_URL", "http://127.0.0.1:1")
    for again in ("", ", not asked again so soon"):
        ended = blsflow("tick")
        assert ended.returncode == 1
        assert "prices: NONE from contract: connection, GET http://127.0.0.1:1" in ended.stdout
        assert again in ended.stdout.splitlines()[0]


@pytest.mark.usefixtures("fleet")
def test_the_fleet_is_listed_by_tenant(blsflow: Command) -> None:
    """R11.5, R1.4: what a policy's scope and candidates can name, in pages; a misspelt tenant is refused."""
    clusters = blsflow("fleet", "clusters", "--tenant", NORTH, "--json").document()["clusters"]
    assert {each["tenant_id"] for each in clusters} == {NORTH}
    projects = blsflow("fleet", "projects", "--tenant", NORTH, "--json").document()["projects"]
    assert all(each["price_key"] for each in projects)
    first = blsflow("fleet", "machines", "--tenant", NORTH, "--limit", 3, "--json").document()
    rest = blsflow(
        "fleet", "machines", "--tenant", NORTH, "--limit", 500, "--cursor", first["cursor"], "--json"
    )
    assert len(first["machines"]) + len(rest.document()["machines"]) == sum(
        each["machines"] for each in clusters
    )
    shown = blsflow("fleet", "machines", "--cluster", clusters[0]["id"], "--status", "mining")
    assert (shown.returncode, "more: --cursor" in blsflow("fleet", "machines", "--limit", 3).stdout) == (
        0,
        True,
    )
    assert "S19" in shown.stdout or "S21" in shown.stdout


@pytest.mark.parametrize(
    "command",
    [
        ["fleet", "clusters"],
        ["fleet", "projects"],
        ["fleet", "machines"],
        ["locks"],
        ["schedules"],
        ["occurrences"],
        ["command", "list"],
    ],
)
@pytest.mark.usefixtures("fleet")
def test_a_misspelt_tenant_is_no_empty_list(blsflow: Command, command: list[str]) -> None:
    """R11.5: what is asked of a tenant of whom there is nothing is refused."""
    ended = blsflow(*command, "--tenant", "nrth-mining")
    assert (ended.returncode, "--tenant: there is no such tenant" in ended.stderr) == (2, True)
    assert blsflow(*command, "--tenant", NORTH).returncode == 0


def test_what_was_is_told(blsflow: Command, deployed: DatabaseAddress) -> None:
    """R11.5: decisions on a machine, freezes, and what people were told, each with its words in the language asked for."""
    blsflow("tick")
    ((machine,),) = look(deployed, "select min(machine_id) from smart_schedule_machine_decisions")
    assert blsflow("decisions", machine, "--json").document()["decisions"][0]["machine_id"] == machine
    assert blsflow("decisions", 999_999).returncode == 2
    blsflow("freeze", PROFIT_GUARD, "--reason", "prices look odd", "--by", "kim")
    assert "by kim (why prices look odd)" in blsflow("status").stdout
    blsflow("enable", PROFIT_GUARD, "--reason", "they are right")
    frozen = blsflow("freezes", PROFIT_GUARD)
    assert "an operator froze it" in frozen.stdout
    assert "they are right" in frozen.stdout
    assert "操作人手动冻结" in blsflow("freezes", PROFIT_GUARD, "--lang", "zh").stdout
    told = blsflow("notifications", NORTH, "--json").document()["notifications"]
    assert told[0]["code"] == "policy_frozen"
    assert "策略已冻结" in blsflow("notifications", NORTH, "--unread", "--lang", "zh").stdout


def test_a_page_of_decisions_is_looked_for_through_many_ticks(
    blsflow: Command, deployed: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R8.12, R11.5: what ends a page early is followed up to a bound, and said where that ends it."""
    for request in ("first", "second"):
        blsflow("tick")
        blsflow("run", PROFIT_GUARD, "--request-id", request)
    ((machine,),) = look(
        deployed,
        "select machine_id from smart_schedule_machine_decisions group by 1 order by count(*) desc, 1 limit 1",
    )
    whole = blsflow("decisions", machine, "--json").document()
    assert len(whole["decisions"]) > 1
    assert whole["cursor"] is None
    monkeypatch.setattr(ticks, "MOST_TICKS", 1)
    assert blsflow("decisions", machine, "--json").document() == whole
    monkeypatch.setattr(past, "_MOST_WALKS", 2)
    seen: list[object] = []
    cursor: list[str] = []
    while True:
        ended = blsflow("decisions", machine, "--json", *cursor)
        page = ended.document()
        seen += page["decisions"]
        assert ("older ones follow with --cursor" in ended.stderr) == (page["cursor"] is not None)
        if page["cursor"] is None:
            break
        cursor = ["--cursor", page["cursor"]]
    assert seen == whole["decisions"]


@pytest.mark.usefixtures("fleet")
def test_what_is_archived_is_said_to_be(blsflow: Command) -> None:
    """R9.1: an archived policy is not unknown, and a policy that is not there has no log."""
    assert blsflow("policy", "archive", PROFIT_GUARD, "--version", 1, "--reason", "sold").returncode == 0
    for command in (["enable", PROFIT_GUARD, "--reason", "x"], ["run", PROFIT_GUARD, "--request-id", "x"]):
        ended = blsflow(*command)
        assert (ended.returncode, f"policy {PROFIT_GUARD} is archived" in ended.stderr) == (2, True)
    assert blsflow("logs", PROFIT_GUARD).returncode == 0
    unknown = blsflow("logs", NO_POLICY)
    assert (unknown.returncode, f"there is no policy {NO_POLICY}" in unknown.stderr) == (2, True)


def test_a_refused_user_is_not_told_of_tls(
    blsflow: Command, database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R11.5: what to check follows from what the database said."""
    environ = environment(database)
    for old, new, advice in (
        (database.password, "wrong", "user and password above all"),
        (f"/{database.dbname}", "/no_such_database", "the database's name above all"),
    ):
        address = environ["BLSFLOW_SCHEDULER_DATABASE_URL"].replace(old, new)
        use(monkeypatch, environ | {"BLSFLOW_SCHEDULER_DATABASE_URL": address})
        ended = blsflow("status")
        assert ended.returncode == 2
        assert advice in ended.stderr
        assert "TLS" not in ended.stderr
