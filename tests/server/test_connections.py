"""How many connections there may be, from whom, and for how long; and the files of TLS."""

import datetime
import resource
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from nearveil.errors import DataError
from nearveil.server.connections import (
    NEVER,
    ConnectionLimits,
    Connections,
    connections_that_fit,
    tls_context,
)
from nearveil.server.setting_types import networks
from nearveil.server.settings import Settings

LIMITS = replace(ConnectionLimits.of(Settings()), connections=4, connections_per_address=2)


@dataclass(eq=False)
class Visitor:
    deadline: float = NEVER
    write_deadline: float = NEVER
    expired: int = 0
    aborted: int = 0

    def expire(self) -> None:
        self.expired += 1

    def abort(self) -> None:
        self.aborted += 1


@dataclass
class Watch:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("address", "same"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2"),  # one /64 is one client
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::2%eth1"),
    ],
)
def test_what_counts_as_one_address(address: str, same: str) -> None:
    connections = Connections(LIMITS, clock=Watch())
    assert connections.admit(Visitor(), address)
    assert connections.admit(Visitor(), same)
    assert not connections.admit(Visitor(), address)
    assert connections.admit(Visitor(), "2001:db8:0:2::1")


def test_proxies_are_limited_in_all_only_and_no_limit_is_zero() -> None:
    behind = replace(LIMITS, proxies=networks("10.0.0.0/8, ::1"))
    connections = Connections(behind, clock=Watch())
    assert [connections.admit(Visitor(), "10.1.2.3") for _ in range(5)] == [True] * 4 + [False]
    unlimited = Connections(replace(LIMITS, connections_per_address=0), clock=Watch())
    assert [unlimited.admit(Visitor(), "192.0.2.1") for _ in range(5)] == [True] * 4 + [False]


def test_a_socket_without_an_address_is_counted_in_all_only() -> None:
    connections = Connections(LIMITS, clock=Watch())
    assert [connections.admit(Visitor(), None) for _ in range(5)] == [True] * 4 + [False]


def test_files_are_allowed_for_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: changed.append(limit))
    for now, wanted, fits, expected in (
        ((1024, 65_536), 4096, 4096, [(4224, 65_536)]),
        ((1024, 2048), 4096, 1920, [(2048, 2048)]),
        ((1024, resource.RLIM_INFINITY), 4096, 4096, [(4224, resource.RLIM_INFINITY)]),
        ((8192, 8192), 4096, 4096, []),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 4096, 4096, []),
        ((64, 64), 4096, 1, [(64, 64)]),
    ):
        changed.clear()
        monkeypatch.setattr(resource, "getrlimit", lambda _, now=now: now)
        assert connections_that_fit(wanted) == fits
        assert changed == expected


# -- TLS -----------------------------------------------------------------------------------------------------------


def self_signed(folder: Path, name: str = "own", *, password: bytes | None = None) -> tuple[Path, Path]:
    """Write a certificate for this machine, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(named)
        .issuer_name(named)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(_LOOPBACK)]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    kept = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, kept))
    return paths


_LOOPBACK = networks("127.0.0.1")[0].network_address


def test_tls_takes_a_certificate_and_its_key(tmp_path: Path) -> None:
    assert tls_context(*self_signed(tmp_path)).minimum_version.name == "TLSv1_2"


def test_each_mistake_with_the_files_of_tls_has_a_sentence(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    _, other_key = self_signed(tmp_path, "other")
    _, locked_key = self_signed(tmp_path, "locked", password=b"secret")
    text = tmp_path / "text"
    text.write_text("secret words")
    for files, sentence in (
        ((tmp_path / "none", key), "none cannot be read .No such file"),
        ((certificate, tmp_path), "cannot be read .Is a directory"),
        ((certificate, other_key), "other.key does not belong to the certificate"),
        ((certificate, locked_key), "without a password"),
        ((key, certificate), "not exchanged"),
        ((certificate, text), "in PEM"),
        ((text, key), "in PEM"),
    ):
        with pytest.raises(DataError, match=sentence) as caught:
            tls_context(*files)
        assert "secret words" not in str(caught.value)
