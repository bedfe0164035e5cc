"""The certificate bundle: what the configuration names, under Debian's names."""

from __future__ import annotations

from pathlib import Path

from builder import process
from builder.debian.certificates import CERTS, STORE, install_bundle, link_name, trusted_names


def make_certificate(path: Path, name: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    process.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj",
                 f"/CN={name}", "-keyout", "/dev/null", "-out", path])


def test_names_marked_or_commented_are_left_out() -> None:
    assert trusted_names("# c\nmozilla/A.crt\n!mozilla/B.crt\n\nmozilla/C.crt\n") == [
        "mozilla/A.crt", "mozilla/C.crt"]


def test_awkward_names_become_plain_links() -> None:
    assert link_name("mozilla/Some CA (2,048).crt") == "Some_CA_=2_048=.pem"


def test_bundle_and_links(tmp_path: Path) -> None:
    for name in ("A", "B"):
        make_certificate(tmp_path / STORE / f"mozilla/{name}.crt", name)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ca-certificates.conf").write_text("mozilla/A.crt\nmozilla/B.crt\n")
    install_bundle(tmp_path)
    install_bundle(tmp_path)  # again over what is there
    certs = tmp_path / CERTS
    assert (certs / "ca-certificates.crt").read_text().count("BEGIN CERTIFICATE") == 2
    assert str((certs / "A.pem").readlink()) == f"/{STORE}/mozilla/A.crt"
    hashed = [link for link in certs.iterdir() if link.name.endswith(".0")]
    assert {str(link.readlink()) for link in hashed} == {"A.pem", "B.pem"}
