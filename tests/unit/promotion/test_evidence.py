"""What proves that an image passed: its own records, unaltered, of the right level and hardware."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.errors import NetworkError, VerdictError
from builder.matrix.promotion import IgnoredRecord, Promotion, Requirement
from builder.promotion import evidence
from builder.promotion.evidence import (
    RECORD_TYPE,
    UnprovenError,
    attach_record,
    attach_signature,
    demand,
    gather,
    is_about,
    mend_evidence,
    prove,
    sign_record,
)
from builder.promotion.signing import SIGNATURE_TYPE
from builder.record.check import Status
from builder.record.models import Record
from builder.registry.client import TooLongError
from builder.registry.repository import Manifest, Repository, fallback_tag
from tests.unit.fake_repository import Memory, digest_of, of_image, put_image, repository
from tests.unit.record.test_models import SPARK, a_record

CPU = Promotion(level="2", hardware=("cpu",))


@pytest.fixture
def there() -> Repository:
    return repository(Memory())


@pytest.fixture
def image(there: Repository) -> Manifest:
    return put_image(there.client._memory, "image")  # type: ignore[attr-defined]


def refusal(there: Repository, image: Manifest, policy: Promotion = CPU,
            needed: Requirement | None = None) -> str:
    with pytest.raises(VerdictError) as caught:
        prove(gather(there, image.digest), "cpu", needed or policy, policy)
    return caught.value.what


def attach(there: Repository, image: Manifest, *records: Record) -> None:
    for record in records:
        attach_record(there, image, of_image(record, image))


def test_a_passing_record_of_this_image_is_a_proof(there: Repository, image: Manifest) -> None:
    attach(there, image, a_record())
    proof = prove(gather(there, image.digest), "cpu", CPU, CPU)
    assert proof.manifest.digest == image.digest
    assert proof.records == (of_image(a_record(), image).digest,)


def test_a_record_may_name_the_manifest_or_the_configuration(image: Manifest) -> None:
    assert is_about(of_image(a_record(), image), image)
    for name in ("image_digest", "image_id"):
        assert is_about(a_record().model_copy(update={name: image.digest}), image)
    assert not is_about(a_record(), image)


def test_a_record_of_another_image_is_not_attached(there: Repository, image: Manifest) -> None:
    with pytest.raises(VerdictError, match="another image"):
        attach_record(there, image, a_record())


def test_no_record_a_lower_level_another_cell_and_a_benchmark_are_no_proof(
        there: Repository, image: Manifest) -> None:
    assert "no passing record" in refusal(there, image)
    attach(there, image, a_record(level="1a"), a_record(level="bench"),
           a_record().model_copy(update={"cell": "tf5"}))
    assert "attached: level 1a, cpu, tiny" in refusal(there, image)


def test_a_cpu_record_is_none_of_a_gb10_and_a_gb10s_is(there: Repository, image: Manifest) -> None:
    spark = Promotion(level="2", hardware=("gb10",),
                      unverified=Requirement(level="1a", hardware=("cpu",)))
    attach(there, image, a_record())
    assert demand(spark) in refusal(there, image, spark)
    assert spark.unverified is not None
    assert prove(gather(there, image.digest), "cpu", spark.unverified, spark).records
    attach(there, image, a_record().model_copy(update={"gpus": (SPARK,)}))
    assert prove(gather(there, image.digest), "cpu", spark, spark).records


def test_one_failing_record_refuses_whatever_the_clocks_say(
        there: Repository, image: Manifest) -> None:
    attach(there, image, a_record(Status.FAIL, started="2019-01-01T00:00:00Z"), a_record())
    assert "a record says fail" in refusal(there, image)
    failing = of_image(a_record(Status.FAIL, started="2019-01-01T00:00:00Z"), image)
    ignoring = CPU.model_copy(update={"ignored": (
        IgnoredRecord(record=failing.digest, reason="the disk was full"),)})
    assert prove(gather(there, image.digest), "cpu", ignoring, ignoring).records


def test_lost_records_refuse_until_the_policy_names_the_loss(
        there: Repository, image: Manifest, capsys: pytest.CaptureFixture[str]) -> None:
    attach(there, image, a_record(Status.FAIL), a_record())
    mend_evidence(there, image, "2026-11-23T00:00:00Z")
    assert (gather(there, image.digest).lost, capsys.readouterr().err) == ((), "")
    there.client._memory.damaged.add(fallback_tag(image.digest))  # type: ignore[attr-defined]
    mend_evidence(there, image, "2026-11-23T00:00:00Z")
    assert "the list begins anew" in capsys.readouterr().err
    attach(there, image, a_record())
    (lost,) = gather(there, image.digest).lost
    with pytest.raises(VerdictError, match="records were lost, 2026-11-23") as caught:
        prove(gather(there, image.digest), "cpu", CPU, CPU)
    assert f'record = "{lost.digest}"' in caught.value.next_step
    answered = CPU.model_copy(update={"ignored": (
        IgnoredRecord(record=lost.digest, reason="every machine pushed again"),)})
    assert prove(gather(there, image.digest), "cpu", answered, answered).records
    attach(there, image, a_record(Status.FAIL))
    assert "a record says fail" in refusal(there, image, answered)


@pytest.mark.parametrize("how", ["other bytes", "gone"])
def test_a_record_that_was_attached_as_failed_refuses_also_where_it_cannot_be_read(
        there: Repository, image: Manifest, how: str) -> None:
    memory: Memory = there.client._memory  # type: ignore[attr-defined]
    attach(there, image, a_record())
    failing = of_image(a_record(Status.FAIL), image)
    artifact = attach_record(there, image, failing)
    others = [attach_record(there, image, of_image(record, image)) for record in (
        a_record(Status.FAIL, level="bench"),
        a_record(Status.FAIL).model_copy(update={"cell": "tf5"}))]
    for one in (artifact, *others):
        manifest = there.manifest(one)
        assert manifest is not None
        blob = manifest.value["layers"][0]["digest"]
        if how == "gone":
            del memory.blobs[blob]
        else:
            memory.blobs[blob] = bytes(len(memory.blobs[blob]))
    said = refusal(there, image)
    assert said.count("a record was attached as failed, and does not count now") == 1
    assert f"as failed, and does not count now: {artifact[:19]}" in said
    ignoring = CPU.model_copy(update={"ignored": (
        IgnoredRecord(record=artifact, reason="its disk was full"),)})
    assert prove(gather(there, image.digest), "cpu", ignoring, ignoring).records
    elsewhere = CPU.model_copy(update={"recipes": (a_record().recipe, "other")})
    assert "as failed" in refusal(there, image, elsewhere)
    assert "as failed" not in refusal(there, image,
                                      CPU.model_copy(update={"recipes": ("other",)}))


def test_what_lacks_is_made_with_this_very_image(there: Repository, image: Manifest) -> None:
    with pytest.raises(VerdictError) as caught:
        prove(gather(there, image.digest), "cpu", CPU, CPU)
    assert f"smoke -- cpu --level 2 --pull --image {there.name}@{image.digest}" in (
        caught.value.next_step)


def test_a_failed_benchmark_refuses_nothing(there: Repository, image: Manifest) -> None:
    attach(there, image, a_record(Status.FAIL, level="bench"), a_record())
    assert prove(gather(there, image.digest), "cpu", CPU, CPU).records


def test_a_record_that_is_too_long_does_not_count(
        there: Repository, image: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(of_image(a_record(), image).document()).encode()
    there.attach(image, RECORD_TYPE, data, {}, "r")
    monkeypatch.setattr(evidence, "RECORD_BYTES", len(data))
    assert prove(gather(there, image.digest), "cpu", CPU, CPU).records
    monkeypatch.setattr(evidence, "RECORD_BYTES", len(data) - 1)
    assert "too long" in refusal(there, image)


def test_a_record_that_no_client_reads_to_its_end_takes_the_others_nothing(
        there: Repository, image: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    attach(there, image, a_record())
    there.attach(image, RECORD_TYPE, b"x" * 5000, {}, "r")
    read = there.blob

    def blob(digest: str) -> bytes | None:
        data = read(digest)
        if data == b"x" * 5000:  # as the client does it
            raise TooLongError("asking the registry: the registry's answer is too long")
        return data

    monkeypatch.setattr(there, "blob", blob)
    found = gather(there, image.digest)
    assert prove(found, "cpu", CPU, CPU).records
    assert "too long" in str(found.refused[0])


def test_each_named_recipe_needs_its_record(there: Repository, image: Manifest) -> None:
    both = CPU.model_copy(update={"recipes": ("tiny", "large")})
    attach(there, image, a_record())
    assert "no passing record of recipe large" in refusal(there, image, both)
    attach(there, image, a_record().model_copy(update={"recipe": "large"}))
    assert len(prove(gather(there, image.digest), "cpu", both, both).records) == 2


def test_altered_records_and_those_of_others_say_why_they_do_not_count(
        there: Repository, image: Manifest) -> None:
    document = of_image(a_record(Status.FAIL), image).document()
    there.attach(image, RECORD_TYPE, json.dumps({**document, "verdict": "pass"}).encode(), {}, "r")
    there.attach(image, RECORD_TYPE, json.dumps(a_record().document()).encode(), {}, "r")
    there.attach(image, RECORD_TYPE, b"no json", {}, "r")
    said = refusal(there, image)
    for reason in ("altered after it was written", "of another image", "does not count"):
        assert reason in said


def test_a_fault_without_a_word_is_refused_as_well(
        there: Repository, image: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    def wordless(*_: object) -> None:
        raise ValueError

    attach(there, image, a_record())
    monkeypatch.setattr(evidence, "_record", wordless)
    assert "does not count: sha256:" in refusal(there, image)


def test_damaged_bytes_of_a_record_do_not_count(there: Repository, image: Manifest) -> None:
    memory: Memory = there.client._memory  # type: ignore[attr-defined]
    before = set(memory.blobs)
    attach(there, image, a_record())
    record = max(set(memory.blobs) - before, key=lambda digest: len(memory.blobs[digest]))
    memory.blobs[record] = memory.blobs[record].replace(b"pass", b"fail")
    assert "the registry gives other bytes" in refusal(there, image)


def test_an_image_that_is_gone_is_said(there: Repository) -> None:
    with pytest.raises(VerdictError, match="does not have this image"):
        gather(there, "sha256:" + "0" * 64)


@pytest.mark.parametrize("which", ["blob", "artifact", "list"])
def test_what_a_full_disk_damaged_of_a_signature_is_mended_by_signing_again(
        there: Repository, image: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        which: str) -> None:
    memory: Memory = there.client._memory  # type: ignore[attr-defined]
    key, record = tmp_path / "own.pub", of_image(a_record(), image)
    key.touch()
    signatures = iter(("first", "second", "third"))  # two by one key differ, as cosign's do
    monkeypatch.setattr(evidence, "sign_text", lambda *_: next(signatures))
    monkeypatch.setattr(evidence, "is_signed", lambda *_: True)
    artifact = attach_record(there, image, record)
    for _ in range(2):
        sign_record(there, artifact, record, key.with_suffix(".key"))
    (signature,) = there.referrers(artifact, SIGNATURE_TYPE)
    memory.damaged.add({"blob": digest_of(b"first"), "artifact": signature.digest,
                        "list": fallback_tag(artifact)}[which])
    with pytest.raises(NetworkError, match="500"):
        gather(there, image.digest, [key])
    sign_record(there, artifact, record, key.with_suffix(".key"))
    assert next(signatures) == "third"
    assert gather(there, image.digest, [key]).signed == {record.digest}


def test_with_keys_only_what_one_of_them_signed_proves_and_a_failure_needs_no_signature(
        there: Repository, image: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, key = CPU.model_copy(update={"keys": ("own.pub",)}), Path("own.pub")
    record = of_image(a_record(), image)
    artifact = attach_record(there, image, record)
    monkeypatch.setattr(evidence, "is_signed",
                        lambda text, signature, _key: (text, signature) == (record.digest, "good"))
    for signature in ("", "bad"):
        if signature:
            attach_signature(there, artifact, signature)
        with pytest.raises(UnprovenError, match=r"no key of the policy \(own.pub\) signed: level"):
            prove(gather(there, image.digest, [key]), "cpu", policy, policy)
    attach_signature(there, artifact, "good")
    assert prove(gather(there, image.digest, [key]), "cpu", policy, policy).records == (
        record.digest,)
    assert gather(there, image.digest).signed == frozenset()
    attach_record(there, image, of_image(a_record(Status.FAIL), image))
    with pytest.raises(UnprovenError, match="a record says fail"):
        prove(gather(there, image.digest, [key]), "cpu", policy, policy)
