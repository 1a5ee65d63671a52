"""The throw-away server that tests and the local stack run on."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from blsflow.adapters.postgres.connection import Session
from blsflow.ports.errors import StoreError
from local.stack.postgres import EmbeddedPostgres

if TYPE_CHECKING:
    from blsflow.adapters.postgres.address import DatabaseAddress


def test_a_stopped_server_is_gone_with_its_data() -> None:
    """R11.4: nothing listens and nothing is left on disk after the server's block."""
    with EmbeddedPostgres() as server:
        with closing(Session(server.address)) as session:
            ((folder,),) = session.run("show data_directory")
        address = server.address
    with pytest.raises(ConnectionRefusedError), socket.create_connection((address.host, address.port)):
        pass
    assert not Path(folder).parent.exists()


def test_a_wrong_password_is_refused(database_server: DatabaseAddress) -> None:
    """R11.3: the local server asks for the password too, so that forgetting it shows."""
    with pytest.raises(StoreError):
        Session(replace(database_server, password="wrong"))


def test_each_test_has_a_database_of_its_own(
    database: DatabaseAddress, module_database: DatabaseAddress
) -> None:
    """R11.4: what one test writes, another does not see, and both start from the newest schema."""
    with closing(Session(database)) as session:
        session.run("create table only_here (x int)")
    with closing(Session(module_database)) as session:
        assert session.run(
            "select to_regclass('only_here'), to_regclass('smart_schedule_ticks') is not null"
        ) == [[None, True]]
