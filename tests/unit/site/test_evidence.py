"""Runs grouped by image, and what they say together."""

from __future__ import annotations

from site_samples import DOCUMENTED, GOOD, sample, thirty_nights

from builder.site.evidence import NO_MODEL, changes, gather, in_words, model_of, verdict_of


def measured(night: int, cell: str = "cpu", **changed: object) -> object:
    return sample(night, cell, labels={}, **changed)


def test_runs_are_grouped_by_digest_and_the_newest_image_comes_first() -> None:
    images = gather(thirty_nights())["cpu"].images
    assert len(images) == 10
    assert len({image.digest for image in images}) == 10
    started = [run.started for image in images for run in image.runs]
    assert started == sorted(started, reverse=True)


def test_one_failed_run_outweighs_every_pass() -> None:
    runs = [sample(night, "tf5") for night in (5, 6)]
    assert (verdict_of(runs).outcome, verdict_of(runs).words) == ("fail", "1 of 2 runs failed")
    assert verdict_of(runs[1:]).words == "failed"
    assert verdict_of(runs[:1]).outcome == "pass"


def test_a_benchmark_and_a_cut_off_run_give_no_verdict() -> None:
    runs = [sample(1, "cpu", level="bench"), sample(1, "cpu", state="interrupted"),
            sample(1, "cpu", state="running")]
    assert verdict_of(runs).outcome == "none"
    assert in_words(verdict_of(runs)) == "no verdict"


def test_a_run_that_failed_before_it_was_cut_off_counts_as_failed() -> None:
    cut_off = sample(6, "tf5", state="interrupted")
    assert any(check.status.value == "fail" for check in cut_off.checks)
    verdict = verdict_of([sample(5, "tf5"), cut_off])
    assert (verdict.outcome, verdict.words) == ("fail", "1 of 2 runs failed")


def test_only_a_measured_pass_on_a_gb10_is_verified() -> None:
    assert verdict_of([measured(1, "tf5")]).gb10  # type: ignore[list-item]
    assert not verdict_of([sample(1, "tf5")]).gb10, "a sample proves nothing"
    assert not verdict_of([measured(1)]).gb10  # type: ignore[list-item]
    assert in_words(verdict_of([sample(1, "tf5")])) == "sample: passed level 2 on GB10"


def test_a_measured_run_is_named_before_a_sample_of_better_hardware() -> None:
    best = verdict_of([sample(1, "tf5"), measured(2)]).best  # type: ignore[list-item]
    assert best is not None
    assert best.where == "cpu"


def test_what_changed_from_one_image_to_the_next() -> None:
    images = gather([sample(0, "cpu"), sample(3, "cpu")])["cpu"].images
    assert images[0].changes == ("vllm 0.30.0 → 0.30.1",)
    assert images[1].changes == ()
    assert changes({"a": "1", "b": "1"}, {"b": "1", "c": "2"}) == ("a 1 → none", "c none → 2")


def test_an_image_in_no_registry_is_known_by_its_configuration() -> None:
    images = gather([sample(0, "cpu", image_digest="", model=None, checks=GOOD,
                            diagnosis=(DOCUMENTED,))])["cpu"].images
    assert (images[0].kind, images[0].digest) == ("configuration", "sha256:" + "0" * 64)
    assert images[0].models == (NO_MODEL,) == (model_of(images[0].runs[0]),)
    assert images[0].of_model(NO_MODEL).outcome == "pass"
