"""Published noise: what llama-benchy's tables for one GB10 say of means and spreads.

google/gemma-4-31B-it with ``--quantization fp8``, vLLM 0.19.1rc1, llama-benchy 0.3.5, three runs a
cell, as its author gave it with https://github.com/eugr/spark-vllm-docker/pull/165. Nothing here
was measured by Sparkyard. The spreads are standard deviations over n, of three.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from builder.record.bench import GridPoint, Metric, Series

RUNS = 3  # behind each of the published spreads
# (pp, tg, concurrency): prefill, its spread, decode of one request, its spread, aggregate, its
# spread; tok/s. With one request the aggregate is the decode.
TABLE: Mapping[tuple[int, int, int], tuple[float, float, float, float, float, float]] = {
    (128, 32, 1): (593.84, 95.22, 6.93, 0.01, 6.93, 0.01),
    (128, 128, 1): (616.91, 98.45, 6.91, 0.01, 6.91, 0.01),
    (512, 32, 1): (1569.74, 84.61, 6.86, 0.01, 6.86, 0.01),
    (512, 128, 1): (1558.11, 10.33, 6.84, 0.00, 6.84, 0.00),
    (2048, 32, 1): (1466.99, 2.91, 6.79, 0.00, 6.79, 0.00),
    (2048, 128, 1): (1478.21, 8.49, 6.79, 0.00, 6.79, 0.00),
    (128, 32, 2): (1142.43, 15.71, 7.04, 0.09, 13.93, 0.33),
    (128, 32, 4): (1189.79, 2.08, 6.96, 0.05, 26.82, 0.01),
    (128, 128, 2): (1142.08, 5.12, 7.01, 0.03, 12.95, 1.57),
    (128, 128, 4): (1504.25, 227.97, 6.94, 0.02, 27.43, 0.31),
    (512, 32, 2): (1904.91, 13.54, 6.95, 0.00, 13.90, 0.01),
    (512, 32, 4): (1770.15, 86.47, 6.63, 0.27, 23.95, 1.81),
    (512, 128, 2): (1906.87, 7.96, 6.88, 0.11, 11.92, 2.78),
    (512, 128, 4): (1846.54, 45.65, 6.75, 0.08, 24.89, 1.06),
    (2048, 32, 2): (1573.33, 5.19, 6.60, 0.47, 12.31, 1.26),
    (2048, 32, 4): (1613.51, 10.79, 5.62, 0.92, 15.75, 1.79),
    (2048, 128, 2): (1574.70, 3.60, 6.81, 0.03, 12.67, 1.25),
    (2048, 128, 4): (1617.20, 8.55, 6.33, 0.32, 22.90, 0.57),
}
# Prefill 10 to 18 % slower, decode 80.0 to 69.1 tok/s: two new wheels, reported by their users.
E112 = "https://github.com/eugr/spark-vllm-docker/issues/112"
E384 = "https://github.com/eugr/spark-vllm-docker/issues/384"
REPORTED: tuple[tuple[str, Metric, float], ...] = (
    (E112, "prefill", 0.90), (E112, "prefill", 0.82), (E384, "decode", 69.1 / 80.0))

Factors = Mapping[Metric, float]
TAIL = 0.1  # part of the samples that a heavy tail makes three times as far off


def draw(dice: random.Random, *, factors: Factors | None = None, drift: float = 0.0,
         runs: int = RUNS, heavy: bool = False,
         concurrency: tuple[int, ...] = (1, 2, 4)) -> tuple[Series, ...]:
    """Return one benchmark as it might be seen: lognormal samples with the published spreads.

    ``factors`` slow a metric down (0.92: 8 % slower); ``drift`` is the standard deviation of what
    all samples of one boot have in common. The decode speed slows the aggregate as well.
    """
    common = math.exp(dice.gauss(0.0, drift))
    slow = dict(factors or {})
    slow["aggregate"] = slow.get("aggregate", slow.get("decode", 1.0))
    found = []
    for (pp, tg, side), row in TABLE.items():
        if side not in concurrency:
            continue
        metrics: tuple[Metric, ...] = ("prefill", "decode", "aggregate")
        for place, metric in enumerate(metrics[:2] if side == 1 else metrics):
            mean, spread = row[2 * place] * common * slow.get(metric, 1.0), _spread(row, place)
            found.append(Series(metric=metric, point=GridPoint(pp=pp, tg=tg, concurrency=side),
                                samples=tuple(mean * math.exp(_noise(dice, spread, heavy=heavy))
                                              for _ in range(runs))))
    return tuple(found)


def _spread(row: tuple[float, ...], place: int) -> float:
    """Return the relative spread over n - 1; a published 0.00 is taken for what rounds to it."""
    return max(row[2 * place + 1], 0.0025) / row[2 * place] * math.sqrt(RUNS / (RUNS - 1))


def _noise(dice: random.Random, spread: float, *, heavy: bool) -> float:
    wide = 3.0 if heavy and dice.random() < TAIL else 1.0
    return dice.gauss(0.0, spread * wide)
