"""The gate against the loader, both ways."""

from __future__ import annotations

from builder.locking.findings import Finding, FindingCode
from builder.record.check import Check, Status
from builder.smoke.agreement import agreement

REFUSED = Check(check="extension a/x.so", status=Status.NOT_APPLICABLE, detail="excused")
LOADED = Check(check="every extension loads, all symbols bound", status=Status.PASS)


def claim(file: str, *affected: str, code: str = "missing-library") -> Finding:
    """Return a finding in ``file``, which is an extension itself where nothing else is affected."""
    return Finding(FindingCode(code), "a sentence that nobody reads", "", file=file,
                   affected=affected or (file,))


def test_both_say_that_all_load() -> None:
    assert agreement([], [LOADED]).status is Status.PASS


def test_both_refuse_the_same() -> None:
    found = agreement([claim("a/x.so")], [LOADED, REFUSED])
    assert (found.status, found.detail) == (Status.PASS, "1 refused by both")


def test_a_library_counts_for_its_users() -> None:
    library = claim("t/lib.so", "a/x.so")
    assert agreement([library], [REFUSED]).status is Status.PASS


def test_a_library_counts_for_all_of_its_users_and_none_else() -> None:
    library = claim("t/lib.so", "a/x.so", "a/y.so")
    found = agreement([library], [REFUSED])
    assert found.status is Status.FAIL
    assert found.detail == "the gate would refuse a/y.so, the loader did not"


def test_a_refusal_that_nobody_foretold_fails() -> None:
    found = agreement([], [REFUSED])
    assert found.status is Status.FAIL
    assert "the loader refused a/x.so" in found.detail


def test_a_false_alarm_fails() -> None:
    found = agreement([claim("b/y.so", code="undefined-symbol")], [LOADED])
    assert found.status is Status.FAIL
    assert "the gate would refuse b/y.so" in found.detail


def test_other_findings_are_no_claims_about_loading() -> None:
    assert agreement([claim("b/y.so", code="no-gpu-code")], [LOADED]).status is Status.PASS


def test_nothing_is_compared_where_the_extensions_could_not_be_looked_at() -> None:
    ended = Check(check="extensions.py runs to its end", status=Status.FAIL, detail="status 126")
    found = agreement([claim("a.so")], [ended])
    assert found.status is Status.NOT_APPLICABLE
    assert "not asked" in found.detail
