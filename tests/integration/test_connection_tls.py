"""TLS against an endpoint that speaks the first bytes of the protocol: no server with OpenSSL is at hand everywhere."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from blsflow.adapters.postgres.address import DatabaseAddress
from blsflow.adapters.postgres.connection import Session
from blsflow.ports.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PASSWORD = b"hunter2"


class Endpoint:
    """Where a client connects, and what it sent once its handshake was done; None: no handshake was."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.received: bytes | None = None
        self.in_clear = b""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of its own authority, for the name localhost only, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    path.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return path


@contextmanager
def endpoint(certificate: Path, *, agrees: bool = True) -> Iterator[Endpoint]:
    """Answer one client's request for TLS, shake hands, read its first message and hang up."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found = Endpoint(listening.getsockname()[1])

        def serve() -> None:
            client, _ = listening.accept()
            with client:
                client.settimeout(5)
                client.recv(8)
                client.sendall(b"S" if agrees else b"N")
                if not agrees:
                    found.in_clear = client.recv(1024)
                    return
                try:
                    with context.wrap_socket(client, server_side=True) as secured:
                        found.received = secured.recv(1024)
                except (ssl.SSLError, OSError):
                    return  # the client did not like what it saw

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield found
        finally:
            thread.join()


def connect(port: int, *, host: str, tls: str, ca_file: Path | None) -> None:
    """Try to sign in; the endpoint always hangs up before that comes to anything."""
    Session(
        DatabaseAddress(
            host=host,
            port=port,
            user="me",
            password=_PASSWORD.decode(),
            dbname="db",
            tls=tls,
            ca_file=None if ca_file is None else str(ca_file),
        )
    )


@pytest.mark.parametrize(
    ("host", "tls", "knows_authority", "trusted"),
    [
        ("localhost", "verify-full", True, True),
        ("127.0.0.1", "verify-full", True, False),
        ("localhost", "verify-full", False, False),
        ("127.0.0.1", "require", False, True),
    ],
    ids=["the right name", "another name", "an unknown authority", "only required"],
)
def test_only_a_server_that_is_who_it_should_be_is_signed_in_to(
    certificate: Path, host: str, tls: str, *, knows_authority: bool, trusted: bool
) -> None:
    """R11.3: in full mode the certificate's authority and its name both count, also on a socket of our own making."""
    with endpoint(certificate) as server, pytest.raises(StoreUnavailable) as error:
        connect(server.port, host=host, tls=tls, ca_file=certificate if knows_authority else None)
    assert (server.received is not None) == trusted
    assert ("certificate verify failed" in str(error.value)) == (not trusted)


@pytest.mark.parametrize("tls", ["require", "verify-full"])
def test_a_server_without_tls_is_not_talked_to_in_clear(certificate: Path, tls: str) -> None:
    """R11.3: where TLS is asked for, a server that declines gets nothing: no user and no password."""
    with endpoint(certificate, agrees=False) as server, pytest.raises(StoreUnavailable):
        connect(server.port, host="localhost", tls=tls, ca_file=certificate)
    assert server.in_clear == b""
