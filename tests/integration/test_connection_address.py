from __future__ import annotations

import traceback

import pytest

from blsflow.adapters.postgres.address import DatabaseAddress, parse_address
from blsflow.settings import InvalidSetting


def test_an_address_says_where_and_who() -> None:
    """R11.3: every part of an address is read; what stands percent-encoded means what it encodes."""
    address = parse_address(
        "postgresql://us%40er:p%2Fa%3Ass@db.example:6432/da%20ta?ca_file=/etc/ca.pem", tls="verify-full"
    )
    assert address == DatabaseAddress(
        host="db.example",
        port=6432,
        user="us@er",
        password="p/a:ss",
        dbname="da ta",
        tls="verify-full",
        ca_file="/etc/ca.pem",
    )


def test_what_an_address_leaves_out_has_its_default() -> None:
    """R11.3: the port is PostgreSQL's, the password empty, and TLS as the settings say."""
    address = parse_address("postgres://me@[::1]/db", tls="require")
    assert (address.host, address.port, address.password, address.tls) == ("::1", 5432, "", "require")


@pytest.mark.parametrize("tls", ["off", "require", "verify-full"])
def test_an_address_may_say_how_it_is_protected(tls: str) -> None:
    """R11.3: what the address says of TLS goes before the deployment's setting."""
    assert parse_address(f"postgresql://u:p@h/d?tls={tls}", tls="verify-full").tls == tls


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:hunter2@host:54x/db",
        "postgresql://user:hunter2@host:99999/db",
        "postgresql://user:hunter2/x@host/db",
        "postgresql://user:hun/ter2@host:5432/db",
        "postgresql://user:hunter2#x@host/db",
        "postgresql://user:hunter2?x@host/db",
        "postgresql://user:[hunter2@host/db",
        "postgresql://user:hunter2]@host/db",
        "postgresql://user:hunter2\N{FULLWIDTH COLON}@host/db",
        "postgresql://user:x@hunter2/y@host/db",
        "postgresql://:hunter2@host/db",
        "postgresql://user:hunter2@host",
        "postgresql://user:hunter2@/db",
        "mysql://user:hunter2@host/db",
        "user:hunter2@host/db",
        "hunter2",
        "",
    ],
)
def test_an_address_that_cannot_be_meant_shows_no_password(url: str) -> None:
    """R11.7: a bad address is refused by its setting's name, and neither the error nor its traceback holds the password."""
    with pytest.raises(InvalidSetting) as error:
        parse_address(url, tls="off")
    assert error.value.name == "BLSFLOW_SCHEDULER_DATABASE_URL"
    shown = "".join(traceback.format_exception(error.value)) + repr(error.value)
    assert "hunter2" not in shown
    assert "ter2" not in shown


def test_an_unknown_protection_is_refused() -> None:
    """R11.7: a word for TLS that is none is refused with the words there are."""
    with pytest.raises(InvalidSetting, match="verify-full, require, off"):
        parse_address("postgresql://u:p@h/d?tls=of", tls="off")


def test_an_address_is_shown_without_its_password() -> None:
    """R11.3: an address that ends up in a log line says where, who and how protected, and nothing else."""
    address = parse_address("postgresql://u:hunter2@h/d", tls="off")
    for shown in (repr(address), str(address), f"{address}", f"{[address]}"):
        assert "hunter2" not in shown
        assert "u@h:5432/d" in shown


@pytest.mark.parametrize(
    ("parameter", "shown"), [("sslmode=disable", "sslmode"), ("tsl=off", "(not shown)"), ("x", "(not shown)")]
)
def test_a_parameter_that_means_nothing_here_is_refused(parameter: str, shown: str) -> None:
    """R11.7: what would be left unheeded is refused, saying what there is; it may be part of a password."""
    with pytest.raises(InvalidSetting, match="for sslmode=disable use tls=off") as refused:
        parse_address(f"postgresql://u:p@h/d?{parameter}", tls="verify-full")
    assert refused.value.value == shown
