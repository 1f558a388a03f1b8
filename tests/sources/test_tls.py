"""Rows of MariaDB over TLS, which are read from the encrypted connection."""

from __future__ import annotations

import datetime as dt
import shutil
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import pytest

pytest.importorskip("pymysql", reason="`make test-sources` installs the extra sql")
import pyarrow as pa
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from harness.databases import MariaDb, running_database
from harness.pulled import Shop, bound, made

from kedro_lakehouse.pulls.protocol import Since

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.sources

ROWS: Final = 100_000
"""Rows of more than one chunk."""


class EncryptedMariaDb(MariaDb):
    """A server with a certificate for 127.0.0.1, which it has signed itself."""

    def _make(self) -> None:
        super()._make()
        certificate = self.folder / "server.pem"
        certificate.write_bytes(_certificate())
        shutil.copymode(self.folder / "my.cnf", certificate)
        with (self.folder / "my.cnf").open("a", encoding="utf-8") as settings:
            settings.write(f"ssl-cert={certificate}\nssl-key={certificate}\nrequire-secure-transport=ON\n")


def _certificate() -> bytes:
    """A certificate and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a server of tests")])
    places = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(places, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return signed.public_bytes(Encoding.PEM) + private


def test_rows_arrive_whole_over_tls(tmp_path: Path) -> None:
    with running_database("mariadbd", EncryptedMariaDb) as server:
        shop = Shop("mariadb", server)
        shop.let_in()
        shop.script(f"CREATE TABLE t AS SELECT seq AS id, repeat(seq, 20) AS note FROM seq_1_to_{ROWS};")
        source = shop.source(str(tmp_path / "landing"))
        source["connection"] |= {"ssl_ca": str(server.folder / "server.pem"), "ssl_verify_identity": True}
        project = made(
            tmp_path / "project", {"mariadb": source}, {"a.t": {"source": "mariadb", "keys": ["id"]}}
        )
        opened = bound(project, "a.t").open_pulled()
        pull = opened.plan(Since(mode="full", number=0, to=None))
        chunks = [chunk.rows for chunk in opened.read(pull, None)]
        opened.close()
    assert len(chunks) > 1
    found = pa.concat_tables(chunks).sort_by("id")
    assert found["id"].to_pylist() == list(range(1, ROWS + 1))
    assert found["note"].to_pylist() == [str(n) * 20 for n in range(1, ROWS + 1)]
