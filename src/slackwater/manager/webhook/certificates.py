"""Certificates of the webhook: an authority of our own, and what it signs. Made by `cryptography`.

The clock is an argument, and what is to be renewed follows from the certificates alone. A new
authority is trusted for an hour before anything is signed by it, and an old one until it expires:
at no time does the API server meet a certificate that it does not trust.
"""

import datetime as dt
import ipaddress
from collections.abc import Iterable, Sequence

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: A year before its end an authority gets a successor; a month before, a certificate.
AUTHORITY_LIFETIME, AUTHORITY_RENEWAL = dt.timedelta(days=3 * 365), dt.timedelta(days=365)
SERVING_LIFETIME, SERVING_RENEWAL = dt.timedelta(days=90), dt.timedelta(days=30)
#: How long a new authority is trusted before it signs.
SETTLE = dt.timedelta(hours=1)
#: For clocks that are behind ours.
_BACKDATED = dt.timedelta(hours=1)
_AUTHORITY_NAME = "slackwater webhook authority"


class StoredCertificates(msgspec.Struct, frozen=True):
    """PEM, as the Secret holds it. `authorities` are all that are trusted, the newest first, and
    `authority_keys` their keys; `certificate` is what is served."""

    authorities: bytes = b""
    authority_keys: bytes = b""
    certificate: bytes = b""
    key: bytes = b""


class _Authority(msgspec.Struct, frozen=True):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def is_settled(self, now: dt.datetime) -> bool:
        return now >= self.certificate.not_valid_before_utc + _BACKDATED + SETTLE


def renew(
    stored: StoredCertificates, names: Sequence[str], trusted: bytes, now: dt.datetime
) -> StoredCertificates:
    """What should be stored: the same where nothing is due. `names` are the DNS names and addresses
    that are asked, `trusted` is what the API server trusts now. Certificates that cannot be read
    are replaced."""
    authorities = _usable(stored, now)
    newest = authorities[0].certificate if authorities else None
    if newest is None or newest.not_valid_after_utc - now < AUTHORITY_RENEWAL:
        authorities = (_make_authority(now), *authorities)
    signer = _choose_signer(authorities, trusted, now)
    kept = StoredCertificates(
        b"".join(_pem(each.certificate) for each in authorities),
        b"".join(_key_pem(each.key) for each in authorities),
        stored.certificate,
        stored.key,
    )
    if _is_good(stored, signer, names, now):
        return kept
    key = ec.generate_private_key(ec.SECP256R1())
    made = _make_serving(signer, key, names, now)
    return StoredCertificates(kept.authorities, kept.authority_keys, _pem(made), _key_pem(key))


def expiry(certificate: bytes) -> float | None:
    """Unix time; None where it cannot be read."""
    found = _read_certificates(certificate)
    return found[0].not_valid_after_utc.timestamp() if found else None


def _choose_signer(
    authorities: Sequence[_Authority], trusted: bytes, now: dt.datetime
) -> _Authority:
    """The newest that the API server has trusted for a while; before that the one before it."""
    known = {each.fingerprint(hashes.SHA256()) for each in _read_certificates(trusted)}
    ready = (
        each
        for each in authorities
        if each.is_settled(now) and each.certificate.fingerprint(hashes.SHA256()) in known
    )
    return next(ready, authorities[-1])


def _is_good(
    stored: StoredCertificates, signer: _Authority, names: Sequence[str], now: dt.datetime
) -> bool:
    found, keys = _read_certificates(stored.certificate), _read_keys(stored.key)
    if not found or not keys or found[0].public_key() != keys[0].public_key():
        return False
    certificate = found[0]
    try:
        certificate.verify_directly_issued_by(signer.certificate)
    except Exception:  # noqa: BLE001 - ValueError, TypeError or InvalidSignature: not by this one
        return False
    named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return (
        set(named) == set(_alternatives(names))
        and certificate.not_valid_before_utc <= now
        and certificate.not_valid_after_utc - now > SERVING_RENEWAL
    )


def _usable(stored: StoredCertificates, now: dt.datetime) -> tuple[_Authority, ...]:
    """Authorities with their keys that are valid now, the newest first."""
    keys = {_public(key.public_key()): key for key in _read_keys(stored.authority_keys)}
    found = [
        _Authority(each, key)
        for each in _read_certificates(stored.authorities)
        if each.not_valid_before_utc <= now < each.not_valid_after_utc
        and (key := keys.get(_public(each.public_key()))) is not None
    ]
    return tuple(
        sorted(found, key=lambda each: each.certificate.not_valid_before_utc, reverse=True)
    )


def _make_authority(now: dt.datetime) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _AUTHORITY_NAME)])
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    made = (
        _builder(name, name, key, now, now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return _Authority(made, key)


def _make_serving(
    signer: _Authority, key: ec.EllipticCurvePrivateKey, names: Sequence[str], now: dt.datetime
) -> x509.Certificate:
    ends = min(now + SERVING_LIFETIME, signer.certificate.not_valid_after_utc)
    # A common name has at most 64 characters, and nobody reads it.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "slackwater webhook")])
    issuer = x509.SubjectKeyIdentifier.from_public_key(signer.key.public_key())
    return (
        _builder(subject, signer.certificate.subject, key, now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False
        )
        .sign(signer.key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: dt.datetime,
    ends: dt.datetime,
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _alternatives(names: Iterable[str]) -> list[x509.GeneralName]:
    return [_alternative(name) for name in names]


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _read_certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _read_keys(pem: bytes) -> list[ec.EllipticCurvePrivateKey]:
    """Several, one after another. What cannot be read is not there."""
    end = b"-----END PRIVATE KEY-----"
    found = []
    for part in pem.split(end)[:-1]:
        try:
            key = serialization.load_pem_private_key(part + end + b"\n", password=None)
        except (ValueError, TypeError):
            continue
        if isinstance(key, ec.EllipticCurvePrivateKey):
            found.append(key)
    return found


def _public(key: object) -> bytes:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return b""
    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(encoding, form)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
