"""The outside world as the use cases see it.

`Store` is the database: a transaction rolls back unless its block ends, and everything in it happens under one reading
of the database's clock (`Transaction.now`). The other ports are services: none raises for a fault of the other side
unless it says so.

Errors::

    BlsflowError
    ├── StoreError            the database refused or did not answer
    │   ├── StoreUnavailable  no connection, fail-over, time-out: the whole use case may be tried again later
    │   │   └── SecretUnreadable  a secret, the database's or a service's, was not to be had: likewise
    │   ├── StoreConflict     lost a race (serialization, deadlock, lock time-out): likewise
    │   └── InvariantBroken   a constraint said no: a fault of ours, never tried again
    ├── EnqueueFailed         a queue did not take the messages: the rows are found and enqueued again
    ├── WorkflowUnavailable   the state machine's service took no request: the rows are handed over again
    ├── PublishFailed         a notification did not go out: its row waits for the next try
    └── FeedUnavailable       no price snapshot this time (`domain.prices`)
"""
