"""The search finds the boundary in the least number of judgements, around what must be skipped."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from builder.bisection.search import Search, Verdict

VERSIONS = tuple(f"0.{number}.0" for number in range(20, 33))


def run(versions: tuple[str, ...], first_bad: int, skipped: Collection[int] = ()
        ) -> tuple[Search, list[str]]:
    verdicts: dict[str, Verdict] = {}
    asked: list[str] = []
    while (version := Search(versions, verdicts).next_version) is not None:
        place = versions.index(version)
        verdicts[version] = (Verdict.SKIPPED if place in skipped else
                             Verdict.BAD if place >= first_bad else Verdict.GOOD)
        asked.append(version)
    return Search(versions, verdicts), asked


@pytest.mark.parametrize("count", range(2, 14))
def test_every_boundary_is_found_in_the_least_number_of_judgements(count: int) -> None:
    versions = VERSIONS[:count]
    for first_bad in range(1, count):
        found, asked = run(versions, first_bad)
        assert found.suspects == (versions[first_bad],)
        assert found.last_good == versions[first_bad - 1]
        assert len(asked) <= Search(versions).most_left


def test_four_versions_need_two_judgements_at_most() -> None:
    assert Search(VERSIONS[:4]).most_left == 2
    assert [len(run(VERSIONS[:4], bad)[1]) for bad in (1, 2, 3)] == [1, 2, 2]


def test_the_order_may_run_from_new_to_old() -> None:
    found, _ = run(tuple(reversed(VERSIONS)), 5)
    assert (found.last_good, found.suspects) == (VERSIONS[-5], (VERSIONS[-6],))


def test_a_skipped_version_is_gone_around() -> None:
    found, asked = run(VERSIONS, 9, skipped=(6,))
    assert found.suspects == (VERSIONS[9],)
    assert asked[0] == VERSIONS[6]
    assert len(asked) <= Search(VERSIONS).most_left + 1


def test_where_the_boundary_is_skipped_all_suspects_are_named() -> None:
    found, asked = run(VERSIONS, 6, skipped=(5, 6))
    assert found.suspects == VERSIONS[5:8]
    assert found.next_version is None
    assert len(asked) < len(VERSIONS)


def test_neighbours_need_no_judgement() -> None:
    search = Search(VERSIONS[:2])
    assert (search.next_version, search.suspects, search.most_left) == (None, (VERSIONS[1],), 0)
