"""The text that prompts are cut from: made here, the same on every machine, needing no download.

llama-benchy takes a random piece of a long text for every request. Its own default is a book that
it downloads; what it cuts from matters little for the speed, but must be the same in a benchmark
and its baseline, so the sha256 of the text is one of the conditions.
"""

from __future__ import annotations

import random

SENTENCES = 8000  # about 600 kB, longer than any context that is measured
WHO = ("the keeper of the lighthouse", "a retired engineer", "my neighbour's daughter",
       "the last passenger", "an old cartographer", "the baker at the corner",
       "her younger brother", "the night nurse", "a travelling clockmaker", "the mayor's secretary",
       "the ferryman", "a student of botany", "the orchestra's cellist", "the man in the grey coat",
       "their grandmother", "the captain's clerk", "a locksmith from the north", "the librarian")
DID = ("counted", "remembered", "painted", "repaired", "sold", "described", "carried away",
       "measured", "hid", "inherited", "photographed", "lost", "translated", "refused", "ordered",
       "drew a plan of", "wrote a letter about", "asked for")
WHAT = ("copper kettles", "letters without a stamp", "barrels of salt", "broken umbrellas",
        "maps of the coast", "blue glass bottles", "wooden chairs", "pairs of boots",
        "notes about the weather", "sacks of barley", "silver spoons", "apple trees",
        "railway timetables", "unfinished poems", "clocks that ran backwards", "paper lanterns",
        "bundles of firewood", "questions nobody had asked")
WHERE = ("behind the harbour wall", "in the attic of the school", "beside the frozen canal",
         "on the road to the mill", "under the old bridge", "in a village without a name",
         "at the end of the pier", "between two train stations", "in the reading room",
         "near the glass works", "on the second floor", "across the river")
WHEN = ("before the rain came", "while the bells were ringing", "long after the market had closed",
        "on the first warm day of the year", "when the lamps went out", "every other Thursday",
        "until the snow melted", "as soon as the boat arrived", "without saying a word",
        "to the great surprise of everybody", "as if nothing had happened", "at half past six")


def sentences(count: int = SENTENCES) -> str:
    """Return ``count`` different sentences, in paragraphs of eight."""
    dice = random.Random(20)  # noqa: S311 - prose, not secrets

    def any_of(words: tuple[str, ...]) -> str:
        # Only random() itself is promised to give the same numbers in every version of Python.
        return words[int(dice.random() * len(words))]

    lines = []
    for number in range(count):
        who = any_of(WHO)
        lines.append(f"{who[0].upper()}{who[1:]} {any_of(DID)} {2 + int(dice.random() * 98)} "
                     f"{any_of(WHAT)} {any_of(WHERE)} {any_of(WHEN)}."
                     + ("\n\n" if number % 8 == 7 else " "))
    return "".join(lines)
