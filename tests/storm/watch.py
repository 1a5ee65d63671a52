"""What must hold, whatever happened: after every event, after a sequence, and once everything has come to rest."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from blsflow.adapters.postgres.doctor import examine
from blsflow.domain import stored_inputs
from blsflow.domain.explain import explain
from blsflow.domain.record import unpack
from blsflow.domain.verdict import MOVES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from blsflow.domain.market import Market
    from blsflow.domain.policy import Policy
    from tests.storm.stage import Stage

_PATIENCE: Final = timedelta(minutes=15)
_WHILE_UNDER_WAY: Final = frozenset(
    {
        "two_active_occurrences",
        "twice_recorded",
        "decisions_of_no_tick",
        "decisions_without_their_benchmarks",
        "ticks_without_their_decisions",
        "moves_without_attempt",
        "machines_in_two_attempts",
        "freed_too_early",
        "locks_of_nobody",
        "attempts_without_end",
        "conversations_without_end",
        "rows_outside_partitions",
    }
)
"""What doctor must not find even while things are under way; the rest is for when they had time to end."""
_UNFOLLOWED: Final = timedelta(days=2)
"""So long a batch whose machines were all refused may be waiting to be followed: a sequence is hardly longer."""
_OF_PEOPLE: Final = frozenset({"policies_that_cannot_tick", "policies_without_lease"})
"""What the storm's own people do."""

_DECISIONS: Final = """
select t.id as tick_id, t.ticked_at, t.inputs, d.machine_id, d.action, d.reason, d.proposed, d.from_project, d.to_project,
       d.run_config_id, d.current_net_cny_per_day as current_net, d.best_net_cny_per_day as best_net,
       d.figures || coalesce(v.entries, '') as record
from smart_schedule_machine_decisions d join smart_schedule_ticks t on t.id = d.tick_id and t.ticked_at = d.ticked_at
left join smart_schedule_benchmark_versions v on v.id = d.benchmarks_version
order by t.id, d.machine_id
"""
_COMPARED: Final = ("from_project", "to_project", "run_config_id", "current_net", "best_net")
# A run by hand may wait for its message, but no longer than doctor waits for it.
_LEFT: Final = """
select 'attempt', id::text, state from smart_schedule_attempts where ended_at is null
union all
select 'lock', machine_id::text, owner_kind from smart_schedule_machine_locks where freed_at is null
union all
select 'slot', id::text, state from smart_schedule_occurrences
where ended_at is null and ((state, origin) is distinct from ('recorded', 'manual') or enqueued_at is null
                            or recorded_at < now() - interval '15 minutes')
union all
select 'benchmark run', id::text, state from smart_schedule_benchmark_runs where state in ('running', 'restoring')
union all
select 'notification', id::text, code from smart_schedule_outbox where published_at is null
"""


class Violation(AssertionError):
    """Something that must hold did not."""


class Watch:
    """Holds a stage to the invariants; ``released`` are attempts that an operator closed on the record."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.released: set[str] = set()
        self.decided: Counter[str] = Counter()
        self.moves = 0
        self._forgotten: set[str] = set()
        self._prices_known: dict[tuple[str, datetime], bool] = {}

    # ------------------------------------------------------------ after every event

    def nothing_is_sent_twice(self) -> None:
        """R5.3: the outside saw each command at most once."""
        twice = [key for key, entry in self._stage.device_control._ledger.items() if entry.posts > 1]
        twice += [key for key, entry in self._stage.execution._ledger.items() if entry.posts > 1]
        _nothing("sent twice", twice)

    def what_is_at_work_is_held(self) -> None:
        """R5.4, R8.4: a machine whose job goes on is locked, and a run that goes on has its slot."""
        stage, now = self._stage, self._stage.now()
        released = (
            {
                key
                for attempt, key in stage.rows(
                    "select id::text, idempotency_key from smart_schedule_attempts where state = 'interrupted'"
                )
                if attempt in self.released
            }
            if self.released
            else set()
        )
        jobs = [
            job
            for (_, key), job in stage.device_control._by_key.items()
            if now < job.ends_at and key not in released
        ]
        at_work = {machine for job in jobs for machine in job.machines if machine not in job.refused}
        if at_work:
            live = {
                machine
                for (machine,) in stage.rows(
                    "select machine_id from smart_schedule_machine_locks where freed_at is null"
                )
            }
            _nothing("freed although its job goes on", at_work - live)
        runs = [
            run.key
            for run in stage.execution._runs._by_key.values()
            if stage.execution._runs.end(run) is None and run.key not in released | self._denied()
        ]
        if runs:
            held = {
                f"occurrence-{occurrence}"
                for (occurrence,) in stage.rows(
                    "select id from smart_schedule_occurrences where state in ('running', 'reconciling', 'cancelling')"
                )
            }
            _nothing("slot freed although its run goes on", set(runs) - held)

    def _denied(self) -> set[str]:
        """R5.3: runs that ended as never received, and that the service did say it does not know."""
        runs = self._stage.execution._runs
        self._forgotten |= {run.key for run in runs._by_key.values() if runs.is_forgotten(run)}
        if not self._forgotten:
            return set()
        ended = self._stage.rows(
            "select idempotency_key from smart_schedule_attempts where reason = 'not_received'"
        )
        return self._forgotten & {key for (key,) in ended}

    # ------------------------------------------------------------ after a sequence

    def decisions_are_sound(self) -> None:
        """R3.2, R3.10, R2.1: every decision follows from its own record, and none acted on what was not known."""
        inputs: dict[int, Any] = {}
        for row in self._rows(_DECISIONS):
            tick = row["tick_id"]
            if tick not in inputs:
                inputs[tick] = stored_inputs.load(row["inputs"])
                self._tariff_was_read(*inputs[tick])
            policy, market = inputs[tick]
            machine, end = unpack(row["record"])
            verdict = explain(policy, market, machine).verdict
            wrong = [name for name in _COMPARED if getattr(verdict, name) != row[name]]
            if str(verdict.action) != row["proposed"] or end != len(row["record"]):
                wrong.append("proposed")
            held_back = verdict.action in MOVES and row["action"] == "skip"
            if not held_back and (str(verdict.action), str(verdict.reason)) != (row["action"], row["reason"]):
                wrong.append("action")
            _nothing(f"not reproducible: tick {tick}, machine {machine.machine_id}", wrong)
            self.decided[f"{row['action']}, {row['reason']}"] += 1
            if row["action"] in {str(move) for move in MOVES}:
                self.moves += 1
                self._was_known(row, by_profit=policy.mode == "profit_guard")

    def _tariff_was_read(self, policy: Policy, market: Market) -> None:
        """The price of electricity is that of the tariff at that time, or unknown as that was."""
        if policy.mode != "profit_guard":
            return
        read = [getattr(each.tariff, "price_cny_per_kwh", None) for each in market.clusters.values()]
        really = [self._stage.tariff_price(market.now)]
        _nothing(f"the tariff at {market.now} was {really}, and counted as", read if read != really else [])

    def _was_known(self, row: Mapping[str, Any], *, by_profit: bool) -> None:
        stage, at, machine = self._stage, row["ticked_at"], row["machine_id"]
        unknown = []
        if not stage.was_heard(machine, at):
            unknown.append("the machine's report")
        if by_profit and stage.tariff_price(at) is None:
            unknown.append("the tariff")
        if by_profit and row["action"] in {"switch", "start"}:
            key = {1: "A", 2: "B"}[row["to_project"]]
            if not self._price_was_known(key, at):
                unknown.append(f"the price of {key}")
        if by_profit and row["action"] in {"stop", "power_off"}:
            unknown += [
                f"the price of {key}"
                for project, key in enumerate("AB", 1)
                if stage.was_measured(machine, project, at) and not self._price_was_known(key, at)
            ]
        _nothing(f"{row['action']} of machine {machine} at {at} on what was not known", unknown)

    def _price_was_known(self, key: str, at: datetime) -> bool:
        if (key, at) not in self._prices_known:
            self._prices_known[key, at] = self._stage.price_was_known(key, at)
        return self._prices_known[key, at]

    def what_was_sent_was_allowed(self) -> None:
        """R4.2, R6.2: nothing was sent for a frozen policy, nor while another system held the lease."""
        _nothing(
            "sent although its policy was frozen",
            self._stage.rows(
                "select a.id::text, a.dispatched_at, f.frozen_at from smart_schedule_attempts a"
                " join smart_schedule_freezes f on f.policy_id = a.policy_id where a.dispatched_at > f.frozen_at"
                " and a.dispatched_at < coalesce(f.lifted_at, 'infinity') and a.benchmark_step is distinct from 'restore'"
            ),
        )
        for begins, ends in self._stage.leased_away:
            _nothing(
                "sent while another system held the lease",
                self._stage.rows(
                    "select id::text, dispatched_at from smart_schedule_attempts where tenant_id = 'acme'"
                    f" and dispatched_at > '{begins.isoformat()}' and dispatched_at < '{ends.isoformat()}'"
                ),
            )

    def doctor_is_content(self, *, at_rest: bool) -> None:
        """R11.5: no finding; while things are under way, none that time would not mend."""
        for finding in examine(self._stage.session, patience=_PATIENCE if at_rest else _UNFOLLOWED):
            _nothing(
                f"doctor could not look for {finding.name}", [finding.unchecked] * bool(finding.unchecked)
            )
            counts = finding.name not in _OF_PEOPLE if at_rest else finding.name in _WHILE_UNDER_WAY
            if counts:
                _nothing(f"doctor: {finding.name}", finding.violations)

    # ------------------------------------------------------------ at rest

    def left(self) -> list[list[Any]]:
        """What is still open, locked, at work or untold."""
        return self._stage.rows(_LEFT)

    def told_once(self, *, crashed: bool) -> None:
        """R10.1: every notification came, and twice only where somebody died, or was not told, in between."""
        published = self._stage.publisher.published
        written = {each for (each,) in self._stage.rows("select id from smart_schedule_outbox")}
        _nothing("never published", written - set(published))
        if not crashed and not self._stage.publisher.was_unclear:
            _nothing("published twice", [each for each, times in published.items() if times > 1])

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        return self._stage.session.query_text(sql)


def _nothing(what: str, found: Iterable[object]) -> None:
    """Raise `Violation` if there is any."""
    listed = list(found)
    if listed:
        raise Violation(f"{what}: {listed}")
