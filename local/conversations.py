"""The demonstration's scheduled conversations: a manual run that makes a planned one skip, and is then cancelled.

It works as the command line does: on the product's database with the product's settings, beside the deployed functions.
"""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from blsflow.bootstrap import application_from
from blsflow.flow.occurrences import cancel_occurrence, run_schedule
from local.fleet.conversations import ANALYSIS, BRIEFING, schedule_every_minute

if TYPE_CHECKING:
    from blsflow.adapters.postgres.connection import Session
    from local.product import LocalProduct

# Longer than the time between two scans, so that one of them finds it at work for certain.
_LONG_RUN_SEC: Final = 180
_BY: Final = "demo"

_SEEN = """
select (select count(*) from smart_schedule_occurrences o join smart_schedule_attempts a on a.occurrence_id = o.id
        where o.schedule_id = :briefing::bigint and o.origin = 'planned' and a.reference is not null) as started,
       (select count(*) from smart_schedule_occurrences
        where schedule_id = :analysis::bigint and origin = 'manual' and began_at is not null) as manual,
       (select count(*) from smart_schedule_occurrences
        where kind = 'conversation' and reason = 'previous_unfinished') as overlaps,
       (select count(*) from smart_schedule_occurrences
        where schedule_id = :analysis::bigint and state = 'cancelled' and cancel_requested_at is not null) as cancelled
"""

BY_STATE = """
select kind, origin, state, coalesce(reason, '') as reason, count(*) as occurrences
from smart_schedule_occurrences group by 1, 2, 3, 4 order by 1 desc, 2 desc, 5 desc, 3, 4
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What the database shows of the conversations; counts."""

    started: int
    manual: int
    overlaps: int
    cancelled: int

    def missing(self) -> list[str]:
        """What a complete demonstration still lacks."""
        wanted = {
            "a planned conversation with a run id": self.started,
            "a manual run": self.manual,
            "a planned run skipped because the one before was unfinished": self.overlaps,
            "a cancelled run whose end is confirmed": self.cancelled,
        }
        return [what for what, count in wanted.items() if not count]


class Conversations:
    """Two schedules; the second has a manual run at work when its first planned one is due."""

    def __init__(self, product: LocalProduct) -> None:
        """Prepare; `begin` is what stores and runs."""
        self._product = product
        self._application = application_from(product.environment)
        self._briefing = self._analysis = self._manual = 0
        self._asked_to_end = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._application.store.close()

    def begin(self) -> str:
        """Store the schedules and run the analysis now, for long; say what was begun."""
        store = self._application.store
        self._briefing = schedule_every_minute(store, BRIEFING)
        self._analysis = schedule_every_minute(store, ANALYSIS)
        usual_sec = self._set_run_sec(_LONG_RUN_SEC)
        self._manual = run_schedule(
            store,
            self._analysis,
            request_id="demo-1",
            by=_BY,
            converse=self._application.converse,
        ).occurrence_id
        self._set_run_sec(usual_sec)
        return (
            f"schedules {self._briefing} and {self._analysis} hold a conversation every minute; "
            f"{self._analysis} was also run by hand (occurrence {self._manual}), for longer than a minute"
        )

    def look(self, session: Session) -> Seen:
        """Look; the manual run is asked to end once it has been in a planned run's way."""
        seen = Seen(**session.query_text(_SEEN, briefing=self._briefing, analysis=self._analysis)[0])
        if seen.overlaps and not self._asked_to_end:
            cancel_occurrence(
                self._application.store,
                self._analysis,
                self._manual,
                by=_BY,
                execution_service=self._application.execution_service,
            )
            self._asked_to_end = True
        return seen

    def _set_run_sec(self, run_sec: float) -> float:
        """Say how long runs take that start from now on; return how long they took before."""
        address = f"{self._product.execution_url}/sim/faults"
        with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 - our own simulator
            before = float(json.load(answer)["run_sec"])
        request = urllib.request.Request(  # noqa: S310 - our own simulator
            address, method="PUT", data=json.dumps({"run_sec": run_sec}).encode()
        )
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - our own simulator
            return before
