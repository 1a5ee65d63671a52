"""Ways to break the product by hand, one invariant each: a storm that does not find them watches nothing."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from blsflow.adapters.postgres.statements import statements
from blsflow.domain import stored_inputs
from blsflow.domain.execution import MachineResultState
from blsflow.domain.reading import Known, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from blsflow.domain.market import Market
    from blsflow.domain.policy import Policy
    from blsflow.domain.prices import RawPrice
    from blsflow.domain.reading import Reading


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """A fault put into a named statement (``old`` by ``new``), or in the place of a name of the product."""

    breaks: str
    statement: str | None = None
    old: str = ""
    new: str = ""
    name: str | None = None
    instead: Any = None


def _always(*_: object) -> bool:
    return True


def _believed(raw: RawPrice | None, **_: object) -> Reading:
    """A price as it was sent, whatever is wrong with it."""
    return Unknown(reason="missing") if raw is None else Known(value=raw.revenue, taken_at=raw.taken_at)


def _over(*_: object) -> MachineResultState:
    return MachineResultState.SUCCEEDED


def _inexact(policy: Policy, market: Market) -> dict[str, Any]:
    """Inputs that are not those which were decided on."""
    return _dump(replace(policy, min_gain_cny_per_day=policy.min_gain_cny_per_day + 35), market)


_dump: Final = stored_inputs.dump
_FREED_OF_ATTEMPT: Final = "l.freed_at is null\n      and l.owner_kind = 'attempt'"

MUTATIONS: Final[Mapping[str, Mutation]] = {
    "resent": Mutation(
        breaks="R5.3: a message delivered again finds its batch dispatching or unclear, and sends it once more",
        statement="lock_attempt",
        old="a.run_config_id, a.state,",
        new="a.run_config_id, case when a.ended_at is null then 'prepared' else a.state end as state,",
    ),
    "freed_when_unclear": Mutation(
        breaks="R5.4: a batch whose answer is unclear frees its locks",
        statement="attempt_ambiguous",
        old="), logged as (",
        new="), freed as (update smart_schedule_machine_locks l set freed_at = now(), freed_by = 'mutation'"
        " from changed c where l.owner_id = c.id), logged as (",
    ),
    "freed_before_its_job_is_over": Mutation(
        breaks="R5.4: a machine that does as asked is freed while its job goes on",
        name="blsflow.domain.settle._said",
        instead=_over,
    ),
    "lock_expires_under_a_job": Mutation(
        breaks="R5.1: the lock of a batch that may have been sent expires as if it had not",
        statement="mark_dispatching",
        old="set expires_at = 'infinity'",
        new="set expires_at = l.expires_at",
    ),
    "lock_of_the_unsent_stays": Mutation(
        breaks="R5.4: what ends unsent keeps its locks",
        statement="end_unsent",
        old=_FREED_OF_ATTEMPT,
        new=_FREED_OF_ATTEMPT + " and false",
    ),
    "lock_of_the_refused_stays": Mutation(
        breaks="R5.4: a machine that was refused keeps its lock",
        statement="attempt_accepted",
        old=_FREED_OF_ATTEMPT,
        new=_FREED_OF_ATTEMPT + " and false",
    ),
    "slot_freed_when_unclear": Mutation(
        breaks="R8.4: a conversation whose start is unclear frees its schedule's slot",
        statement="conversation_unclear",
        old="set state = 'reconciling'\n    from changed",
        new="set state = 'failed', ended_at = now()\n    from changed",
    ),
    "freeze_passed_over": Mutation(
        breaks="R6.2: what was prepared is sent although its policy was frozen since",
        statement="lock_attempt",
        old="f.policy_id = a.policy_id and f.lifted_at is null",
        new="false",
    ),
    "lease_passed_over": Mutation(
        breaks="R4.2: what was prepared is sent although another system holds the lease by now",
        statement="lock_attempt",
        old="e.holder = :holder",
        new="(e.holder = :holder or true)",
    ),
    "price_believed": Mutation(
        breaks="R2.1: a price counts as it was sent: stale, flagged, from the future",
        name="blsflow.domain.valuation.judge_price",
        instead=_believed,
    ),
    "silence_believed": Mutation(
        breaks="R3.7: a machine that has not reported for long is decided on all the same",
        name="blsflow.domain.guards._is_off_by_us",
        instead=_always,
    ),
    "record_inexact": Mutation(
        breaks="R3.2: what is stored is not what was decided on",
        name="blsflow.domain.stored_inputs.dump",
        instead=_inexact,
    ),
    "never_marked_published": Mutation(
        breaks="R10.1: a notification that went out is not marked",
        statement="mark_published",
        old="set published_at = now()",
        new="set published_at = null",
    ),
    "lost_sender_forgotten": Mutation(
        breaks="R5.3: nobody takes up what a dead sender left dispatching",
        statement="overdue_dispatching",
        old="where state = 'dispatching'",
        new="where state = 'dispatching' and false",
    ),
}


@contextmanager
def mutated(mutation: Mutation) -> Iterator[None]:
    """Break the product in this process until the block ends; a mutation that no longer fits the code raises."""
    if mutation.statement is not None:
        text = statements()[mutation.statement]
        if mutation.old not in text:
            raise LookupError(f"{mutation.statement} does not say {mutation.old!r}")
        with patch.dict(statements(), {mutation.statement: text.replace(mutation.old, mutation.new)}):
            yield
    else:
        assert mutation.name is not None
        with patch(mutation.name, mutation.instead):
            yield
