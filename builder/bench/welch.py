"""Student's t for any number of degrees of freedom, and Welch's standard error of a difference.

The tail is one smooth integral over a finite interval, held against printed tables by the tests;
scipy, which has it too, would bring 216 MB to every user for it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

MOST_DF = 200.0  # beyond, the tail is taken for that of 200: a little wider than the normal one
STEPS = 200  # of Simpson's rule; the error is below one part in a million


@dataclass(frozen=True)
class Difference:
    """An estimated difference, its standard error, and the degrees of freedom of that error."""

    estimate: float
    error: float
    df: float

    def below(self, limit: float) -> float:
        """Return the one-sided p-value of "the true difference is ``limit`` or more"."""
        return tail((limit - self.estimate) / self.error, self.df)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the two-sided confidence interval."""
        reach = quantile((1 - level) / 2, round(min(self.df, MOST_DF), 1)) * self.error
        return self.estimate - reach, self.estimate + reach


def tail(t: float, df: float) -> float:
    """Return P(T > t) for Student's t with ``df`` degrees of freedom.

    With t = sqrt(df) tan(a) the density becomes a power of a cosine on (-pi/2, pi/2).
    """
    if t < 0:
        return 1.0 - tail(-t, df)
    df = min(df, MOST_DF)
    low = math.atan(t / math.sqrt(df))
    width = (math.pi / 2 - low) / STEPS
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(math.pi)
    total: float = sum((4 if step % 2 else 2 if 0 < step < STEPS else 1)
                * max(math.cos(low + step * width), 0.0) ** (df - 1)
                for step in range(STEPS + 1))
    return min(0.5, scale * total * width / 3)


@functools.cache
def quantile(p: float, df: float) -> float:
    """Return the t that is exceeded with probability ``p`` (below one half)."""
    low, high = 0.0, 1.0
    while tail(high, df) > p:
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, df) > p else (low, middle)
    return high


def welch_error(parts: Iterable[tuple[float, int]], floor: float) -> tuple[float, float]:
    """Return the standard error of a sum of means and its degrees of freedom (Satterthwaite).

    ``parts`` are (variance of one mean as estimated, number of samples); ``floor`` is a variance
    that is known, and so makes the result more certain, not less.
    """
    listed = list(parts)
    variance = sum(part for part, _ in listed) + floor
    doubt = sum(part ** 2 / (count - 1) for part, count in listed)
    return math.sqrt(variance), variance ** 2 / doubt if doubt else math.inf
