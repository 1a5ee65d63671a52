"""`make demo`: the whole product on this machine, from an empty folder to confirmed jobs.

The deployed template's own schedule fires the ticks and the scheduled conversations; this program only starts
everything, runs one conversation by hand and cancels it, watches the database, and prints what it sees. It stays until
it is interrupted, or with ``--once`` ends by itself: with 0 if ticks were decided, jobs were created and confirmed, locks
were taken and freed, benchmarks were measured and decided on, and conversations were held, skipped and cancelled; with 1
and what is missing otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from local.conversations import BY_STATE, Conversations
from local.product import LocalProduct

if TYPE_CHECKING:
    from blsflow.adapters.postgres.connection import Session

_DEADLINE_SEC: Final = 240
_LOOK_EVERY_SEC: Final = 2
_LAST_JOBS_SEC: Final = 20
"""How long the last jobs of a complete demonstration are waited for; a power-off is confirmed after a minute."""

_DECIDED = """
select split_part(key, '/', 1) as action, split_part(key, '/', 2) as reason, sum(value::int) as machines
from smart_schedule_ticks t, jsonb_each_text(t.counts)
where t.id in (select min(id) from smart_schedule_ticks group by policy_id)
group by 1, 2 order by 1, 3 desc
"""

_WORK = """
select (select count(*) from smart_schedule_ticks) as ticks,
       (select count(distinct policy_id) from smart_schedule_ticks) as policies_ticked,
       (select count(*) from smart_schedule_policy_groups where enabled) as policies,
       (select coalesce(sum(gain_cny_per_day), 0) from smart_schedule_ticks) as gain,
       (select count(*) from smart_schedule_attempts where kind = 'device_batch' and reference is not null) as jobs,
       (select count(*) from smart_schedule_attempts where kind = 'device_batch' and state = 'succeeded') as confirmed,
       (select count(*) from smart_schedule_attempts where kind = 'device_batch' and state = 'failed') as failed,
       (select count(*) from smart_schedule_attempts where kind = 'device_batch' and ended_at is null) as open,
       (select count(*) from smart_schedule_attempt_machines) as locks_taken,
       (select count(*) from smart_schedule_attempt_machines where state <> 'pending') as locks_freed,
       (select count(*) from smart_schedule_attempt_machines where state = 'succeeded') as machines_confirmed,
       (select count(*) from smart_schedule_benchmark_runs where state = 'succeeded') as measured,
       (select count(*) from smart_schedule_benchmark_runs where state = 'failed') as not_measured,
       (select count(*) from smart_schedule_machine_project_benchmarks where shared_from is not null) as shared,
       (select count(*) from smart_schedule_machine_decisions d
        join smart_schedule_benchmark_runs r on r.machine_id = d.machine_id and r.state = 'succeeded'
        where d.ticked_at > r.ended_at and d.best_net_cny_per_day is not null) as decided_on_measured,
       (select coalesce(sum(lost_cny), 0) from smart_schedule_benchmark_runs) as lost_cny,
       (select count(*) from smart_schedule_freezes where lifted_at is null) as frozen,
       (select coalesce(max(id), 0) from smart_schedule_ticks) as newest_tick
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What the database shows at one moment; counts, and the gain in CNY per day."""

    ticks: int
    policies_ticked: int
    policies: int
    gain: float
    jobs: int
    confirmed: int
    failed: int
    open: int
    locks_taken: int
    locks_freed: int
    machines_confirmed: int
    measured: int
    not_measured: int
    shared: int
    decided_on_measured: int
    lost_cny: float
    frozen: int
    newest_tick: int

    def missing(self) -> list[str]:
        """What a complete demonstration still lacks."""
        wanted = {
            f"ticks of {self.policies} policies (there are {self.policies_ticked})": self.policies_ticked
            < self.policies,
            "jobs created": self.jobs == 0,
            "jobs confirmed": self.confirmed == 0,
            "locks taken": self.locks_taken == 0,
            "locks freed": self.locks_freed == 0,
            "benchmarks measured": self.measured == 0,
            "decisions on what was measured": self.decided_on_measured == 0,
        }
        return [what for what, lacks in wanted.items() if lacks]


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration; return the process's exit code."""
    options = _parse(arguments)
    console = Console()
    started = time.monotonic()

    def progress(line: str) -> None:
        console.print(f"[dim]{time.monotonic() - started:6.1f} s[/dim]  {line}", highlight=False)

    progress("starting; the first run also installs tools and takes a little longer")
    try:
        with LocalProduct(machines=options.machines, progress=progress) as product:
            fleet = product.seeded
            progress(
                f"{fleet.machines} machines of {len(fleet.tenants)} tenants under {len(fleet.policy_ids)} policies; "
                "waiting for the schedule to fire (up to a minute)"
            )
            if not options.once:
                _invite(console, product)
            with contextlib.closing(product.session()) as session, Conversations(product) as conversations:
                progress(conversations.begin())
                work, missing = _watch(session, conversations, progress)
                _report(console, session, work)
                if missing:
                    console.print(f"[red]missing after {_DEADLINE_SEC} s:[/red] {'; '.join(missing)}")
                    return 1
                if not options.once:
                    _stay(console, session)
    except KeyboardInterrupt:
        progress("stopped; everything it started is gone")
        return 0
    progress("done; everything it started is gone")
    return 0


def _watch(
    session: Session,
    conversations: Conversations,
    progress: Any,  # noqa: ANN401 - a callable that takes one line
) -> tuple[Work, list[str]]:
    """Look until everything that the demonstration promises has happened, telling of each first time; say what has not."""
    ends = time.monotonic() + _DEADLINE_SEC
    told: set[str] = set()
    while True:
        work, seen = _work(session), conversations.look(session)
        missing = work.missing() + seen.missing()
        firsts = {
            f"first tick decided (policies: {work.policies_ticked} of {work.policies})": work.policies_ticked
            > 0,
            "all policies decided": work.policies_ticked == work.policies > 0,
            f"device control accepted jobs ({work.jobs})": work.jobs > 0,
            f"first jobs confirmed by what the machines do ({work.machines_confirmed} machines)": work.confirmed
            > 0,
            f"first benchmarks measured, machines put back ({work.measured})": work.measured > 0,
            f"ticks decide on what was measured ({work.decided_on_measured} decisions)": work.decided_on_measured
            > 0,
            "first planned conversation has a run id": seen.started > 0,
            "a planned run was skipped because the one before was unfinished; cancelling that one": seen.overlaps
            > 0,
            "the cancelled run's end is confirmed": seen.cancelled > 0,
        }
        for line, happened in firsts.items():
            kind = line.split("(", maxsplit=1)[0]
            if happened and kind not in told:
                told.add(kind)
                progress(line)
        if not missing:
            ends = min(ends, time.monotonic() + _LAST_JOBS_SEC)
        if (not missing and work.open == 0) or time.monotonic() > ends:
            return work, missing
        time.sleep(_LOOK_EVERY_SEC)


def _work(session: Session) -> Work:
    row = session.run(_WORK)[0]
    counts = dict(zip(Work.__dataclass_fields__, row, strict=True))
    return Work(
        **{name: value if name in {"gain", "lost_cny"} else int(value) for name, value in counts.items()}
    )


def _report(console: Console, session: Session, work: Work) -> None:
    decided = Table(
        title="What the first tick of each policy decided", title_justify="left", header_style="bold"
    )
    decided.add_column("action")
    decided.add_column("reason")
    decided.add_column("machines", justify="right")
    for action, reason, machines in session.run(_DECIDED):
        decided.add_row(action, reason, str(machines))
    console.print()
    console.print(decided)
    came_of_it = Table(title="What came of it", title_justify="left", show_header=False)
    came_of_it.add_column()
    came_of_it.add_column(justify="right")
    for name, value in (
        ("ticks", f"{work.ticks} of {work.policies_ticked} policies"),
        ("jobs created", str(work.jobs)),
        ("jobs confirmed", str(work.confirmed)),
        ("jobs failed", str(work.failed)),
        ("machines confirmed", str(work.machines_confirmed)),
        ("locks taken / freed", f"{work.locks_taken} / {work.locks_freed}"),
        ("benchmarks measured / failed", f"{work.measured} / {work.not_measured}"),
        ("benchmarks shared within models", str(work.shared)),
        ("income lost to sampling", f"{work.lost_cny:,.2f} CNY"),
        ("frozen policies", str(work.frozen)),
        ("estimated gain", f"{work.gain:,.2f} CNY per day"),
    ):
        came_of_it.add_row(name, value)
    console.print(came_of_it)
    occurrences = Table(title="Occurrences by state", title_justify="left", header_style="bold")
    for column in ("work", "origin", "state", "reason"):
        occurrences.add_column(column)
    occurrences.add_column("occurrences", justify="right")
    by_state = session.run(BY_STATE)
    for *said, count in by_state:
        occurrences.add_row(*said, str(count))
    console.print(occurrences)
    if any("missed" in said for said in by_state):
        console.print(
            "  missed: more than one run fell due between two scans; nothing is caught up but the newest"
        )


def _invite(console: Console, product: LocalProduct) -> None:
    """Say where to look, as soon as there is something to look at."""
    console.print(
        "\nIt can be looked at from now on. In another terminal, in this folder:\n", highlight=False
    )
    for name, value in product.environment.items():
        console.print(f"  export {name}='{value}'", highlight=False, soft_wrap=True)
    console.print(
        "  .venv/bin/blsflow status\n"
        "  .venv/bin/blsflow occurrences --kind conversation\n"
        "  .venv/bin/blsflow logs --follow\n"
        "  .venv/bin/blsflow doctor\n"
        "  TOKEN=$(.venv/bin/blsflow token)      # the API: see the tour in README.md\n"
        '  curl -H "Authorization: Bearer $TOKEN" "$BLSFLOW_SCHEDULER_API_URL/policies/1/status"\n'
        '  curl -N -H "Authorization: Bearer $TOKEN" "$BLSFLOW_SCHEDULER_API_URL/stream?backfill=3"\n'
        f"  curl {product.device_control_url}/sim/faults      # faults to switch on: see docs/development.md\n\n"
        "Ctrl-C ends it and cleans up.\n",
        highlight=False,
        soft_wrap=True,
    )


def _stay(console: Console, session: Session) -> None:
    """Tell of every new tick until interrupted."""
    console.print("\nIt goes on, with the settings above, until Ctrl-C:\n", highlight=False)
    newest = 0
    while True:
        work = _work(session)
        if work.newest_tick != newest:
            newest = work.newest_tick
            console.print(
                f"[dim]{time.strftime('%H:%M:%S')}[/dim]  {work.ticks} ticks; {work.jobs} jobs, {work.confirmed} confirmed, "
                f"{work.open} open; {work.locks_freed}/{work.locks_taken} locks freed; {work.frozen} frozen",
                highlight=False,
                soft_wrap=True,
            )
        time.sleep(_LOOK_EVERY_SEC)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end by itself, non-zero if anything is missing")
    parser.add_argument("--machines", type=int, default=2000)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
