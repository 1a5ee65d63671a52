"""Where the database is, who we are there, and by what TLS it is reached."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from blsflow.settings import TLS_MODES, InvalidSetting

_URL_SETTING = "BLSFLOW_SCHEDULER_DATABASE_URL"
_URL_PARAMETERS = {"tls", "ca_file"}
_LIBPQ_PARAMETERS = {
    "application_name",
    "channel_binding",
    "connect_timeout",
    "options",
    "ssl",
    "sslmode",
    "sslrootcert",
}
"""Those that other programs take are named where they are refused; any other text may be part of a password."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseAddress:
    """Where the database is and who we are there; ``tls`` is verify-full, require or off."""

    host: str
    port: int
    user: str
    password: str
    dbname: str
    tls: str = "verify-full"
    ca_file: str | None = None
    ca_pem: str | None = None

    def __repr__(self) -> str:
        """Show everything but the password."""
        return f"DatabaseAddress({self.user}@{self.host}:{self.port}/{self.dbname}, tls={self.tls})"


def parse_address(url: str, *, tls: str) -> DatabaseAddress:
    """Read ``postgresql://user:password@host:port/dbname``; raise `InvalidSetting` without showing the password."""
    try:
        parts = urlsplit(url)
        host, port, user = parts.hostname, parts.port or 5432, unquote(parts.username or "")
    except ValueError:  # its text may hold what stands where a port is expected: part of a password
        raise _invalid_address() from None
    dbname, query = unquote(parts.path.strip("/")), parse_qs(parts.query, keep_blank_values=True)
    if parts.scheme not in {"postgresql", "postgres"} or not host or not user or not dbname or "@" in dbname:
        raise _invalid_address()
    if unknown := sorted(query.keys() - _URL_PARAMETERS):
        raise InvalidSetting(
            name=_URL_SETTING,
            value=unknown[0] if unknown[0] in _LIBPQ_PARAMETERS else "(not shown)",
            cause=f"only tls ({', '.join(TLS_MODES)}) and ca_file may stand behind the ?; for sslmode=disable use tls=off",
        )
    tls = query.get("tls", [tls])[0]
    if tls not in TLS_MODES:
        raise InvalidSetting(
            name=_URL_SETTING, value=f"tls={tls}", cause=f"use one of {', '.join(TLS_MODES)}"
        )
    return DatabaseAddress(
        host=host,
        port=port,
        user=user,
        password=unquote(parts.password or ""),
        dbname=dbname,
        tls=tls,
        ca_file=query.get("ca_file", [None])[0],
    )


def _invalid_address() -> InvalidSetting:
    return InvalidSetting(
        name=_URL_SETTING,
        value="(not shown)",
        cause="use postgresql://user:password@host:port/dbname, with a password's / @ : ? # [ ] % written as %2F, %40 ...",
    )


def tls_context(address: DatabaseAddress) -> ssl.SSLContext | bool:
    """Return by what TLS the database is reached, or False for none."""
    if address.tls == "off":
        return False
    context = ssl.create_default_context(cafile=address.ca_file, cadata=address.ca_pem)
    if address.tls == "require":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
