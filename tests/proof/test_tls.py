"""Test the certificates and channels of the proof, as far as no IBM MQ is needed."""

from __future__ import annotations

import re
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

import embedded_mq
from mqdlq.mqi.client import import_client
from mqdlq.mqi.connect import ConnectionSettings, connect_arguments
from tests.proof.cells import CLIENTS
from tests.proof.queue_managers import CHANNELS, settings_of_user
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow

OPENSSL = shutil.which("openssl") or "openssl"
SCRIPT = ROOT / "deploy" / "mq" / "make-certificates.sh"
CHANNEL = re.compile(r"(?m)^DEFINE CHANNEL\((\S+)\) .* MCAUSER\('(\w+)'\)(?: \+\n +(SSLCIPH.*))?$")
TLS = "SSLCIPH(ANY_TLS12_OR_HIGHER) SSLCAUTH(REQUIRED)"
SETTINGS = ConnectionSettings(
    "QM1",
    host="mq",
    channel="MQDLQ.PROOF.TLS",
    tls_cipher_spec="ANY_TLS12_OR_HIGHER",
    key_repository="/run/mqdlq-tls/key.p12",
    certificate_label="mqdlq",
)


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("certificates")
    subprocess.run(["/bin/bash", SCRIPT, place, "mq", "mq.example.com"], check=True)
    return place


def openssl(*words: object) -> str:
    done = subprocess.run([OPENSSL, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_authority_has_signed_both_certificates(made: Path, tmp_path: Path) -> None:
    client = tmp_path / "client.crt"
    password = f"file:{made}/client/password"
    openssl("pkcs12", "-in", made / "client/key.p12", "-passin", password, "-clcerts", "-nokeys",
            "-out", client)  # fmt: skip

    for purpose, certificate in (
        ("sslserver", made / "queue-manager/tls.crt"),
        ("sslclient", client),
    ):
        said = openssl(
            "verify", "-purpose", purpose, "-CAfile", made / "trust/tls.crt", certificate
        )
        assert said == f"{certificate}: OK\n"


def test_the_queue_managers_certificate_names_its_hosts(made: Path) -> None:
    """IBM's container refuses a certificate whose subject is that of its issuer."""
    text = (made / "queue-manager/tls.crt").read_bytes()
    certificate = x509.load_pem_x509_certificate(text)
    names: Any = certificate.extensions.get_extension_for_oid(
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME
    ).value
    usage: Any = certificate.extensions.get_extension_for_oid(ExtensionOID.EXTENDED_KEY_USAGE).value

    assert names.get_values_for_type(x509.DNSName) == ["mq", "mq.example.com"]
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert certificate.subject != certificate.issuer
    assert (made / "queue-manager/ca.crt").read_bytes() == (made / "trust/tls.crt").read_bytes()
    assert (made / "queue-manager/tls.key").read_text().startswith("-----BEGIN PRIVATE KEY-----")


def test_the_clients_key_repository_holds_its_key_and_the_authority(made: Path) -> None:
    password = (made / "client/password").read_bytes().strip()

    found = load_pkcs12((made / "client/key.p12").read_bytes(), password)

    authority = x509.load_pem_x509_certificate((made / "trust/tls.crt").read_bytes())
    assert found.key is not None
    assert found.cert is not None
    assert found.cert.friendly_name == SETTINGS.certificate_label.encode()
    assert found.cert.certificate.issuer == authority.subject
    assert [one.certificate for one in found.additional_certs] == [authority]


def test_only_the_owner_reaches_the_keys(made: Path) -> None:
    assert made.stat().st_mode & 0o777 == 0o700
    files = [path for path in made.rglob("*") if path.is_file()]

    assert {path.stat().st_mode & 0o777 for path in files} == {0o444}
    assert sorted(path.relative_to(made).as_posix() for path in files) == [
        "client/key.p12",
        "client/password",
        "queue-manager/ca.crt",
        "queue-manager/tls.crt",
        "queue-manager/tls.key",
        "trust/tls.crt",
    ]


def test_a_failed_call_of_openssl_is_shown(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/bash", SCRIPT, tmp_path, "a host,DNS"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "subjectAltName" in done.stderr or "subject alt name" in done.stderr.lower()


@pytest.mark.parametrize("name", CLIENTS)
def test_both_clients_hand_the_tls_settings_of_the_proof_to_mqconnx(name: str) -> None:
    embedded_mq.install()

    arguments = connect_arguments(import_client(name), SETTINGS)

    assert arguments["cd"].SSLCipherSpec == b"ANY_TLS12_OR_HIGHER"
    assert arguments["cd"].ChannelName == b"MQDLQ.PROOF.TLS"
    assert arguments["sco"].KeyRepository == b"/run/mqdlq-tls/key.p12"
    assert arguments["sco"].CertificateLabel == b"mqdlq"


def test_each_channel_of_the_proof_has_a_twin_with_tls() -> None:
    text = (ROOT / "deploy" / "mq" / "proof-channels.mqsc").read_text(encoding="utf-8")
    users = {**{channel: user for user, channel in CHANNELS.items()}, "MQDLQ.PROOF": "app"}

    assert sorted(CHANNEL.findall(text)) == sorted(
        found
        for channel, user in users.items()
        for found in ((channel, user, ""), (f"{channel}.TLS", user, TLS))
    )


def test_a_user_of_the_proof_connects_through_the_users_channel() -> None:
    plain = ConnectionSettings(
        "QM1", host="mq", channel="MQDLQ.PROOF", user="app", password=secrets.token_hex(8)
    )

    assert settings_of_user(plain, "mqdlqdry").channel == "MQDLQ.DRY"
    assert settings_of_user(plain, "mqdlqdry").user == ""
    assert settings_of_user(SETTINGS, "mqdlqexec").channel == "MQDLQ.EXEC.TLS"
