"""`make fleet`: puts the sample fleet into a migrated database that holds none, its policies in shadow.

The database is that of BLSFLOW_SCHEDULER_DATABASE_URL. Nothing is changed in one that holds machines, clusters or policies.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import closing
from typing import Final

import pg8000.native

from blsflow.adapters.postgres.address import parse_address, tls_context
from blsflow.adapters.postgres.connection import translated
from blsflow.domain.errors import BlsflowError
from blsflow.settings import InvalidSetting, read_settings
from local.fleet.seed import seed

_TABLES: Final = ("machines", "clusters", "projects", "machine_models", "smart_schedule_policy_groups")


class NotEmptyError(BlsflowError):
    """The database holds what a fleet would be mixed with."""


def main(arguments: list[str] | None = None) -> int:
    """Seed the database; return 0, or 2 if it may not be seeded."""
    options = _parse(arguments)
    try:
        with closing(_connect()) as connection, translated():
            _require_empty(connection)
            made = seed(connection, machines=options.machines, execution_mode="shadow")
    except BlsflowError as error:
        sys.stderr.write(f"fleet: {error}\n")
        return 2
    sys.stdout.write(
        f"{made.machines} machines of {', '.join(made.tenants)} under {len(made.policy_ids)} policies, all in shadow. "
        "Reports grow old in ten minutes unless the simulators write new ones: "
        'python -m local.simulators --database "$BLSFLOW_SCHEDULER_DATABASE_URL"\n'
    )
    return 0


def _connect() -> pg8000.native.Connection:
    settings = read_settings(os.environ)
    if settings.database_url is None:
        raise InvalidSetting(
            name="BLSFLOW_SCHEDULER_DATABASE_URL",
            value=None,
            cause="set it to postgresql://user:password@host:port/dbname",
        )
    address = parse_address(settings.database_url, tls=settings.database_tls)
    with translated():
        return pg8000.native.Connection(
            user=address.user,
            password=address.password,
            host=address.host,
            port=address.port,
            database=address.dbname,
            ssl_context=tls_context(address),
        )


def _require_empty(connection: pg8000.native.Connection) -> None:
    """Raise `NotEmptyError` for a database that is not migrated, or holds anything of a fleet."""
    for table in _TABLES:
        if connection.run("select to_regclass(:name)", name=table) == [[None]]:
            message = "the database is not migrated: run `blsflow migrate` first"
            raise NotEmptyError(message)
        if connection.run(f"select 1 from {table} limit 1"):  # noqa: S608 - names of our own
            message = (
                f"the database holds {table.removeprefix('smart_schedule_')} already, and is left as it is"
            )
            raise NotEmptyError(message)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fleet", description=__doc__)
    parser.add_argument("--machines", type=int, default=200)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
