"""The outside world as the use cases see it.

`Store` is the database: a transaction rolls back unless its block ends, and everything in it happens under one reading
of the database's clock (`Transaction.now`). The other ports are services: none raises for a fault of the other side
unless it says so.

Errors::

    BlsflowError
    ├── StoreError            the database refused or did not answer
    │   ├── StoreUnavailable  no connection, fail-over, time-out: the whole use case may be tried again later
    │   ├── StoreConflict     lost a race (serialization, deadlock, lock time-out): likewise
    │   └── InvariantBroken   a constraint said no: a fault of ours, never tried again
    ├── EnqueueFailed         a queue did not take the messages: the rows are found and enqueued again
    ├── WorkflowUnavailable   the state machine's service took no request: the rows are handed over again
    ├── PublishFailed         a notification did not go out: its row waits for the next try
    └── FeedUnavailable       no price snapshot this time (`domain.prices`)
"""

from __future__ import annotations

from blsflow.ports.errors import (
    EnqueueFailed,
    InvariantBroken,
    PublishFailed,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    WorkflowUnavailable,
)
from blsflow.ports.logs import (
    Frames,
    LogPage,
    LogRow,
    LogTransaction,
)
from blsflow.ports.people import (
    AttemptEnd,
    Cancelled,
    ClosedAttempt,
    Lease,
    LeaseChange,
    ManualFreeze,
    ModeChange,
    NotificationRow,
    OccurrenceRow,
    RequestedRun,
    ScheduleVersion,
    SetEnabled,
    StoredRequest,
    TrialTick,
)
from blsflow.ports.policies import (
    CandidateCoverage,
    FreezeRow,
    MachineReports,
    PolicyVersion,
    PolicyView,
    UnknownReferences,
)
from blsflow.ports.replay import ReplayedTick, ReplayTransaction
from blsflow.ports.rows import (
    AttemptStanding,
    BegunTick,
    Dispatch,
    DueSchedule,
    FailedShare,
    LostRaces,
    NewAttempt,
    NotBegun,
    OpenAges,
    OpenCancel,
    OpenRun,
    PendingNotification,
    PreparedAttempts,
    SettledRun,
    StartedRun,
    TickResult,
    WaitingOccurrence,
)
from blsflow.ports.services import (
    DeviceControl,
    ExecutionService,
    NotificationMessage,
    ProfitFeed,
    Publisher,
    Queue,
    Queues,
)
from blsflow.ports.store import (
    DecisionSink,
    Store,
    Transaction,
)
from blsflow.ports.ticks import DecisionFilter, DecisionRow, StoredTick, TickRow

__all__ = [
    "AttemptEnd",
    "AttemptStanding",
    "BegunTick",
    "Cancelled",
    "CandidateCoverage",
    "ClosedAttempt",
    "DecisionFilter",
    "DecisionRow",
    "DecisionSink",
    "DeviceControl",
    "Dispatch",
    "DueSchedule",
    "EnqueueFailed",
    "ExecutionService",
    "FailedShare",
    "Frames",
    "FreezeRow",
    "InvariantBroken",
    "Lease",
    "LeaseChange",
    "LogPage",
    "LogRow",
    "LogTransaction",
    "LostRaces",
    "MachineReports",
    "ManualFreeze",
    "ModeChange",
    "NewAttempt",
    "NotBegun",
    "NotificationMessage",
    "NotificationRow",
    "OccurrenceRow",
    "OpenAges",
    "OpenCancel",
    "OpenRun",
    "PendingNotification",
    "PolicyVersion",
    "PolicyView",
    "PreparedAttempts",
    "ProfitFeed",
    "PublishFailed",
    "Publisher",
    "Queue",
    "Queues",
    "ReplayTransaction",
    "ReplayedTick",
    "RequestedRun",
    "ScheduleVersion",
    "SetEnabled",
    "SettledRun",
    "StartedRun",
    "Store",
    "StoreConflict",
    "StoreError",
    "StoreUnavailable",
    "StoredRequest",
    "StoredTick",
    "TickResult",
    "TickRow",
    "Transaction",
    "TrialTick",
    "UnknownReferences",
    "WaitingOccurrence",
    "WorkflowUnavailable",
]
