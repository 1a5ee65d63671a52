"""`python -m local.schema`: writes docs/schema.sql, the sum of the migrations as PostgreSQL itself tells it.

The daily partitions are left out: which of them there are depends on the day.
"""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from blsflow.adapters.postgres.connection import Session
from blsflow.adapters.postgres.migrate import migrate
from local.stack.postgres import EmbeddedPostgres, installed_binaries

if TYPE_CHECKING:
    from blsflow.adapters.postgres.address import DatabaseAddress

SCHEMA_FILE = Path(__file__).resolve().parents[1] / "docs" / "schema.sql"

_HEADER = "-- The sum of the migrations, written by `make schema` and held to them by a test; without daily partitions.\n\n"
# Versions, session settings and the key of a dump's own protection: none of it is schema.
_NOT_SCHEMA = re.compile(r"^(--.*|SET .*|SELECT pg_catalog\.set_config.*|\\(un)?restrict .*)\n", re.MULTILINE)
_DUMP_TIMEOUT_SEC = 60


def dump_schema(address: DatabaseAddress) -> str:
    """Return the schema of a migrated database as SQL: the same text for the same migrations, whenever it is asked."""
    dump = subprocess.run(
        [
            str(installed_binaries() / "pg_dump"), "--schema-only", "--no-owner", "--no-privileges",
            "--exclude-table", "smart_schedule_*_20??????",
            "--host", address.host, "--port", str(address.port), "--username", address.user, address.dbname,
        ],
        env=os.environ | {"PGPASSWORD": address.password},
        capture_output=True,
        text=True,
        timeout=_DUMP_TIMEOUT_SEC,
        check=False,
    )  # fmt: skip
    if dump.returncode:
        raise RuntimeError(f"pg_dump failed ({dump.returncode}):\n{dump.stderr}")
    return _HEADER + re.sub(r"\n{3,}", "\n\n", _NOT_SCHEMA.sub("", dump.stdout)).strip() + "\n"


def main() -> None:
    """Migrate an empty database and write down what came of it."""
    with EmbeddedPostgres() as server:
        with closing(Session(server.address)) as session:
            migrate(session)
        SCHEMA_FILE.write_text(dump_schema(server.address), encoding="utf-8")


if __name__ == "__main__":
    main()
