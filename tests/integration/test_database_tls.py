"""TLS and credentials against a real server that speaks TLS; `.ci/run` installs it."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from blsflow.adapters import aws
from blsflow.adapters.postgres.connection import Session
from blsflow.bootstrap import Application, application_from
from blsflow.ports.errors import StoreError, StoreUnavailable
from tests.integration.debian import Authority, TlsServer, debian_binaries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blsflow.adapters.postgres.address import DatabaseAddress

_BINARIES = debian_binaries()
pytestmark = pytest.mark.skipif(
    _BINARIES is None,
    reason="no /usr/lib/postgresql/*/bin: `apt-get install postgresql` has a server with TLS",
)


@pytest.fixture(scope="module")
def authority() -> Authority:
    """Who issued the server's certificate."""
    return Authority("ours")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[TlsServer]:
    """Debian's PostgreSQL with TLS."""
    assert _BINARIES is not None
    with TlsServer(_BINARIES, authority) as started:
        yield started


@pytest.fixture
def address(server: TlsServer, authority: Authority) -> Iterator[DatabaseAddress]:
    """The server by its right name, for clients that know its authority; its certificate is whole again afterwards."""
    yield replace(server.address, host="localhost", tls="verify-full", ca_pem=authority.pem)
    server.certify(*authority.issue("localhost"))
    server.reload()


def _refusal(address: DatabaseAddress) -> str:
    with pytest.raises(StoreUnavailable) as refused:
        Session(address)
    return str(refused.value)


def test_a_server_that_is_who_it_should_be_is_talked_to_in_secret(address: DatabaseAddress) -> None:
    """R11.3: with the right authority and name a session is encrypted, and works."""
    with closing(Session(address)) as session:
        ((encrypted, version),) = session.run(
            "select ssl, version from pg_stat_ssl where pid = pg_backend_pid()"
        )
    assert encrypted
    assert version in {"TLSv1.2", "TLSv1.3"}


def test_an_authority_that_nobody_named_is_refused(address: DatabaseAddress) -> None:
    """R11.3: neither another authority's word counts nor, without any, that of the system's."""
    assert "certificate verify failed" in _refusal(replace(address, ca_pem=Authority("somebody else").pem))
    assert "certificate verify failed" in _refusal(replace(address, ca_pem=None))


def test_another_host_with_a_good_certificate_is_refused(address: DatabaseAddress) -> None:
    """R11.3: a certificate speaks for the name in it, not for the address that was reached."""
    assert "certificate verify failed" in _refusal(replace(address, host="127.0.0.1"))


def test_an_expired_certificate_is_refused(
    server: TlsServer, address: DatabaseAddress, authority: Authority
) -> None:
    """R11.3: what ended yesterday vouches for nobody; a renewed one does, without anything being started anew."""
    server.certify(*authority.issue("localhost", expired=True))
    server.reload()
    _wait_for(lambda: "expired" in _refusal(address))
    server.certify(*authority.issue("localhost"))
    server.reload()
    _wait_for(lambda: _signs_in(address))


def test_no_error_of_signing_in_shows_the_password(address: DatabaseAddress) -> None:
    """R11.3: not with a wrong password, and not with a wrong certificate."""
    wrong = replace(address, password="canary-password")
    with pytest.raises(StoreError) as refused:
        Session(wrong)
    assert "canary" not in f"{refused.value!r} {refused.value.__cause__!r}"
    assert "canary" not in _refusal(replace(wrong, host="127.0.0.1"))


@pytest.mark.timeout(300)
def test_credentials_are_rotated_under_load(
    address: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R11.3: workers go on across rotations without a new deployment: they read the secret at every new connection.

    Between the new password and the new secret connections may be refused; what was committed stays, nothing is done twice.
    """
    with closing(Session(address)) as admin:
        admin.run(
            "create role worker login password 'first'; create table done (worker int, n int, primary key (worker, n))"
        )
        admin.run("grant select, insert on done to worker")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        with mock_aws():
            aws._client.cache_clear()
            secrets = boto3.client("secretsmanager", region_name="eu-central-1")
            arn = secrets.create_secret(Name="db", SecretString=_secret(address, "first"))["ARN"]
            applications = [_application(arn) for _ in range(4)]
            stop = threading.Event()
            results: list[tuple[int, Counter[str]]] = []
            threads = [
                threading.Thread(target=_work, args=(number, app, stop, results))
                for number, app in enumerate(applications)
            ]
            for thread in threads:
                thread.start()
            for password in ("second", "third"):
                time.sleep(0.5)
                admin.run(f"alter role worker password '{password}'")
                admin.run("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'worker'")
                time.sleep(0.3)
                secrets.put_secret_value(SecretId=arn, SecretString=_secret(address, password))
            time.sleep(0.7)
            stop.set()
            for thread in threads:
                thread.join(30)
            aws._client.cache_clear()
        committed: dict[int, int] = dict(admin.run("select worker, count(*) from done group by 1"))
    assert len(results) == 4
    for number, outcomes in results:
        assert set(outcomes) <= {"done", "unavailable", "refused"}
        assert outcomes["refused"] + outcomes["unavailable"] > 0, "the rotation was felt"
        assert committed[number] == outcomes["done"] > 5


def _work(
    number: int, app: Application, stop: threading.Event, results: list[tuple[int, Counter[str]]]
) -> None:
    """Commit numbered rows, each until it is there; a row that is there already was committed before its answer was lost."""
    outcomes: Counter[str] = Counter()
    n = 0
    while not stop.is_set():
        try:
            with app.store.transaction() as tx:
                tx._session.run(f"insert into done values ({number}, {n}) on conflict do nothing")
        except StoreUnavailable:
            outcomes["unavailable"] += 1
        except StoreError:
            outcomes["refused"] += 1
        else:
            n += 1
            outcomes["done"] += 1
        time.sleep(0.01)
    app.store.close()
    results.append((number, outcomes))


def _application(arn: str) -> Application:
    return application_from(
        {
            "BLSFLOW_SCHEDULER_DATABASE_SECRET_ARN": arn,
            "BLSFLOW_SCHEDULER_DATABASE_TLS": "verify-full",
            "USDT_TO_CNY_RATE": "1",
        }
    )


def _secret(address: DatabaseAddress, password: str) -> str:
    document: dict[str, Any] = {
        "host": address.host,
        "port": address.port,
        "username": "worker",
        "password": password,
        "dbname": address.dbname,
        "ca_pem": address.ca_pem,
    }
    return json.dumps(document)


def _signs_in(address: DatabaseAddress) -> bool:
    try:
        Session(address).close()
    except StoreUnavailable:
        return False
    return True


def _wait_for(holds: Any) -> None:
    """Wait until a reload has taken hold."""
    for _ in range(200):
        if holds():
            return
        time.sleep(0.02)
    pytest.fail("the server did not take up its new certificate")
