"""The search itself: versions in order, verdicts so far, and the version to judge next.

Nothing here starts anything. The two ends are taken as they are named. A version that cannot be
judged is skipped, and the next one is sought beside it, so that the number of judgements stays
the least that halving allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """What became of one version."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Search:
    """Versions from the good end to the bad one, and what is known of those between."""

    versions: Sequence[str]
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)

    @property
    def good(self) -> int:
        """Return the place of the last version that is known to be good before the first bad one.

        The good end itself, where no other is.
        """
        return max((place for place in range(self.bad)
                    if self.verdicts.get(self.versions[place]) is Verdict.GOOD), default=0)

    @property
    def bad(self) -> int:
        """Return the place of the first version that is known to be bad."""
        last = len(self.versions) - 1
        return min((place for place in range(1, last)
                    if self.verdicts.get(self.versions[place]) is Verdict.BAD), default=last)

    @property
    def next_version(self) -> str | None:
        """Return the version to judge next: the untried one nearest to the middle."""
        good, bad = self.good, self.bad
        untried = [place for place in range(good + 1, bad)
                   if self.versions[place] not in self.verdicts]
        if not untried:
            return None
        return self.versions[min(untried, key=lambda place: (abs(2 * place - good - bad), place))]

    @property
    def last_good(self) -> str:
        """Return the last good version before the first bad one."""
        return self.versions[self.good]

    @property
    def suspects(self) -> tuple[str, ...]:
        """Return the versions of which one is the first bad one; more than one after a skip."""
        return tuple(self.versions[self.good + 1:self.bad + 1])

    @property
    def most_left(self) -> int:
        """Return how many judgements are needed at most, if none is skipped."""
        return max(self.bad - self.good - 1, 0).bit_length()
