"""Does the model see? `python -m benchmarks.vision [QUESTIONS [RECIPE]]` (bar: 98 % of 200).

Boots the tiny model on the CPU image and asks, four at a time, about random pictures that it was
never trained on: the questions of the battery, as many of each kind. An answer is judged as the
battery judges it. Prints what was wrong, and the share of right answers by kind.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.healthy_runs import options, served
from benchmarks.pictures import Question, questions
from builder.smoke.client import Client
from builder.smoke.probes.cases import AnswerCase
from builder.smoke.probes.judge import judge
from builder.smoke.probes.pictures import data_url

BAR = 0.98
SEED = 98  # neither of the training (11, 21) nor of its proof (2026)
AT_ONCE = 4
KINDS = 5


def case_of(question: Question) -> AnswerCase:
    """Return the question as a case of the battery, with its pictures drawn."""
    shown = [{"type": "image_url", "image_url": {"url": data_url(seen.picture)}}
             for seen in question.shown]
    content = [*shown, {"type": "text", "text": question.text}]
    return AnswerCase(name=question.kind, kind="answer", needs="vision", contains=question.order,
                      order=question.order, lacks=question.lacks,
                      messages=({"role": "user", "content": content},))


def wrong(client: Client, question: Question) -> str:
    """Ask and return what is wrong with the answer, or nothing."""
    case = case_of(question)
    request: dict[str, Any] = {"model": client.model, "temperature": 0,
                               "max_tokens": case.max_tokens, "messages": list(case.messages)}
    answer = client.chat(request)
    problem = judge(case, answer)
    said = answer["choices"][0]["message"].get("content")
    return f"{problem}: {said!r}" if problem else ""


def main() -> int:
    """Ask and sum up."""
    count, recipe = options(__doc__, "pictures", 200, "how many questions")
    chance = random.Random(SEED)
    asked = [question for _ in range(count // KINDS) for question in questions(chance)]
    with served(recipe) as (_, client), ThreadPoolExecutor(AT_ONCE) as pool:
        began = time.monotonic()
        found = list(pool.map(lambda question: wrong(client, question), asked))
        seconds = time.monotonic() - began
    of_kind, right = Counter(each.kind for each in asked), Counter[str]()
    for question, problem in zip(asked, found, strict=True):
        right[question.kind] += not problem
        if problem:
            print(f"{question.kind}: expected {question.answer!r}; {problem}")
    for kind, number in of_kind.items():
        print(f"{kind:26} {right[kind]:3} of {number}")
    share = right.total() / len(asked)
    print(f"{recipe.name}: {right.total()} of {len(asked)} right ({100 * share:.1f} %, at least "
          f"{100 * BAR:.0f} %) in {seconds:.0f} s")
    return 0 if share >= BAR else 1


if __name__ == "__main__":
    raise SystemExit(main())
