"""Debian's PostgreSQL, which speaks TLS as the embedded one does not; its certificate and its limits are the test's."""

from __future__ import annotations

import shutil
import signal
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from local.stack.postgres import UNPRIVILEGED_USER, EmbeddedPostgres, _is_root

if TYPE_CHECKING:
    from collections.abc import Mapping

_PEM = serialization.Encoding.PEM


def debian_binaries() -> Path | None:
    """Return the folder of the newest installed PostgreSQL of Debian; None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


class Authority:
    """A certificate authority of its own."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        self.certificate = (
            self._builder(
                self._name, self._key.public_key(), now - timedelta(days=2), now + timedelta(days=2)
            )
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        """The authority's certificate, as a client is given it."""
        return self.certificate.public_bytes(_PEM).decode()

    def issue(self, host: str, *, expired: bool = False) -> tuple[bytes, bytes]:
        """Issue a certificate and key for a host; an expired one ended yesterday."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        ends = now - timedelta(days=1) if expired else now + timedelta(days=1)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        certificate = (
            self._builder(subject, key.public_key(), now - timedelta(days=2), ends)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(_PEM), key.private_bytes(
            _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
        )


class Server(EmbeddedPostgres):
    """A throw-away server that can be restarted on its data, and from whichever binaries."""

    def __init__(self, *, binaries: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings=settings)
        self._bin_dir = binaries or self._bin_dir

    def restart(self, *, how: signal.Signals = signal.SIGINT) -> None:
        """Stop as told (SIGINT: sessions are cut off; SIGQUIT: as in a power cut) and start again at the same address."""
        assert self._server is not None
        self._server.send_signal(how)
        self._server.wait(30)
        (self._data_dir / "postmaster.pid").unlink(
            missing_ok=True
        )  # a power cut leaves one that says "ready"
        self._launch()

    def certify(self, certificate: bytes, key: bytes) -> None:
        """Put a certificate in force for the sessions to come; TLS must be on in the settings."""
        for name, content in (("server.crt", certificate), ("server.key", key)):
            path = self._data_dir / name
            path.write_bytes(content)
            path.chmod(0o600)
            if _is_root():
                shutil.chown(path, UNPRIVILEGED_USER)

    def reload(self) -> None:
        """Have the server read its files anew."""
        subprocess.run(
            [str(self._bin_dir / "pg_ctl"), "reload", "-D", str(self._data_dir)],
            check=True,
            stdout=subprocess.DEVNULL,
            **self._options(),
        )

    def _options(self) -> dict[str, Any]:
        options = self._process_options()
        return {name: options[name] for name in ("user", "group", "extra_groups", "cwd") if name in options}


class TlsServer(Server):
    """A server of Debian's that speaks TLS, with a certificate for ``localhost``."""

    def __init__(self, binaries: Path, authority: Authority) -> None:
        super().__init__(binaries=binaries, settings={"ssl": "on"})
        self._authority = authority

    def _initialise(self) -> None:
        super()._initialise()
        self.certify(*self._authority.issue("localhost"))
        self.address = replace(self.address, host="127.0.0.1")
