"""Certificates over the years: what is served is always trusted, valid, by an authority."""

import datetime as dt
import ipaddress

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from slackwater.manager.webhook.certificates import (
    AUTHORITY_LIFETIME,
    SERVING_LIFETIME,
    SERVING_RENEWAL,
    StoredCertificates,
    expiry,
    renew,
)

NAMES = ("slackwater-webhook.slackwater-system.svc", "127.0.0.1")
START = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC)
NOTHING = StoredCertificates()


def load(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem)


def check(stored: StoredCertificates, trusted: bytes, at: dt.datetime) -> None:
    """As the API server checks it."""
    verifier = PolicyBuilder().store(Store(load(trusted))).time(at)
    verifier.build_server_verifier(x509.DNSName(NAMES[0])).verify(load(stored.certificate)[0], [])
    address = x509.IPAddress(ipaddress.ip_address(NAMES[1]))
    verifier.build_server_verifier(address).verify(load(stored.certificate)[0], [])


def test_the_first_certificate_is_trusted_by_the_first_authority() -> None:
    made = renew(NOTHING, NAMES, b"", START)
    check(made, made.authorities, START)
    assert len(load(made.authorities)) == 1
    assert expiry(made.certificate) == (START + SERVING_LIFETIME).timestamp()


def test_nothing_is_renewed_that_is_not_due() -> None:
    made = renew(NOTHING, NAMES, b"", START)
    soon = START + SERVING_LIFETIME - SERVING_RENEWAL - dt.timedelta(hours=1)
    assert renew(made, NAMES, made.authorities, soon) == made
    due = renew(made, NAMES, made.authorities, soon + dt.timedelta(hours=2))
    assert due.authorities == made.authorities
    assert due.certificate != made.certificate


def test_other_names_need_another_certificate() -> None:
    made = renew(NOTHING, NAMES, b"", START)
    other = renew(made, ("elsewhere",), made.authorities, START)
    assert (other.authorities, other.certificate == made.certificate) == (made.authorities, False)


def test_for_ten_years_no_certificate_is_served_that_was_not_trusted_before() -> None:
    """A look each day; the API server trusts what the look before published."""
    stored = renew(NOTHING, NAMES, b"", START)
    trusted, served, authorities = stored.authorities, set(), set()
    for day in range(0, 3650, 3):
        now = START + dt.timedelta(days=day)
        stored = renew(stored, NAMES, trusted, now)
        if stored.certificate not in served or day % 30 == 0:
            check(stored, trusted, now)
        served.add(stored.certificate)
        trusted = stored.authorities
        authorities |= {each.serial_number for each in load(trusted)}
    assert len(authorities) == 5  # a new one every two years
    assert len(served) > 50
    assert len(load(trusted)) <= 2  # those that expired are gone


def test_an_authority_that_the_api_server_was_never_told_of_signs_nothing() -> None:
    first = renew(NOTHING, NAMES, b"", START)
    late = START + AUTHORITY_LIFETIME - dt.timedelta(days=200)
    both = renew(first, NAMES, first.authorities, late)
    assert len(load(both.authorities)) == 2
    later = renew(both, NAMES, first.authorities, late + dt.timedelta(days=3))
    check(later, first.authorities, late + dt.timedelta(days=3))
    told = renew(later, NAMES, both.authorities, late + dt.timedelta(days=4))
    check(told, both.authorities, late + dt.timedelta(days=4))
    assert told.certificate != later.certificate


@pytest.mark.parametrize(
    "broken",
    [
        StoredCertificates(b"x", b"y", b"z", b"w"),
        StoredCertificates(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        StoredCertificates(
            authority_keys=b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----"
        ),
    ],
)
def test_what_cannot_be_read_is_made_anew(broken: StoredCertificates) -> None:
    made = renew(broken, NAMES, b"", START)
    check(made, made.authorities, START)


def test_a_key_of_another_certificate_is_not_served() -> None:
    one, other = (renew(NOTHING, NAMES, b"", START) for _ in range(2))
    mixed = StoredCertificates(one.authorities, one.authority_keys, one.certificate, other.key)
    made = renew(mixed, NAMES, one.authorities, START)
    assert made.certificate != one.certificate
    check(made, one.authorities, START)


def test_an_expiry_that_cannot_be_read_is_not_known() -> None:
    assert expiry(b"x") is None
