"""Tokens in files, which somebody else replaces."""

import os
from pathlib import Path

import pytest

from slackwater.http.endpoint import Identity
from slackwater.http.errors import CredentialsError
from slackwater.kube.access import FixedCredentials, TokenFile


def test_fixed_ones_are_what_they_are() -> None:
    fixed = FixedCredentials(Identity("Bearer a"))
    assert fixed.identity() == Identity("Bearer a")
    assert not fixed.renew(Identity("Bearer a"))
    assert fixed.renew(Identity("Bearer other"))


def test_a_replaced_file_is_read_again(tmp_path: Path) -> None:
    """As the kubelet replaces it: a link to a new folder, all at once."""
    for number in (1, 2):
        (tmp_path / f"data{number}").mkdir()
        (tmp_path / f"data{number}/token").write_text(f"token-{number}\n")
    (tmp_path / "data").symlink_to("data1")
    tokens = TokenFile(str(tmp_path / "data/token"))
    assert tokens.identity() == Identity("Bearer token-1")
    (tmp_path / "next").symlink_to("data2")
    (tmp_path / "next").rename(tmp_path / "data")
    assert tokens.identity() == Identity("Bearer token-2")


def test_an_unchanged_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "token"
    path.write_text("a")
    tokens = TokenFile(str(path))
    first = tokens.identity()
    monkeypatch.setattr(tokens, "_identity_in_file", None)
    assert tokens.identity() is first


def test_a_file_that_goes_leaves_its_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a")
    tokens = TokenFile(str(path))
    tokens.identity()
    path.unlink()
    assert tokens.identity() == Identity("Bearer a")


def test_after_a_refusal_it_is_read_whatever_its_dates_say(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    tokens = TokenFile(str(path))
    old = tokens.identity()
    stamp = os.stat(path)
    path.write_text("new")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert tokens.identity() == old, "same size, same time, same inode: it looks unchanged"
    assert tokens.renew(old)
    assert tokens.identity() == Identity("Bearer new")
    assert not tokens.renew(Identity("Bearer new"))


def test_a_certificate_goes_along(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a")
    tokens = TokenFile(str(tmp_path / "token"), Identity("", b"CERT", b"KEY"))
    assert tokens.identity() == Identity("Bearer a", b"CERT", b"KEY")


def test_no_file_is_no_credentials(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"token's file .*/none: No such file or directory"):
        TokenFile(str(tmp_path / "none")).identity()


@pytest.mark.parametrize("content", [b"", b" \n", b"a b", b"a\nb", b"\xff\xfe", b"a\x00b"])
def test_what_is_no_token_is_told(content: bytes, tmp_path: Path) -> None:
    """It would become a header."""
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(CredentialsError, match="holds no token"):
        TokenFile(str(tmp_path / "token")).identity()
