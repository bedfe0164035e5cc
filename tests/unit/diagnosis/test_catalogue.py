"""The catalogue that comes with the program is whole; a bad one is refused with its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.diagnosis.catalogue import load, read_catalogue
from builder.errors import ConfigError

GOOD = ('[[issue]]\nname = "some-name"\npatterns = ["a"]\ncause = "x"\nremedy = "y"\n'
        'until = "z"\nlinks = ["https://x.example"]\n')


def test_the_catalogue_comes_with_the_program() -> None:
    names = [issue.name for issue in load().issues]
    assert {"gemma4-unsupported", "undefined-symbol", "engine-dead"} <= set(names)
    aliases = [issue.alias for issue in load().issues if issue.alias]
    assert len(aliases) == len(set(aliases))


@pytest.mark.parametrize(("old", "new", "words"), [
    ('["a"]', '["("]', "not a regular expression"), ('["a"]', "[]", "a pattern or a check"),
    ('["a"]', '[""]', "patterns"), ('"x"', '""', "cause"), ('"some-name"', '"F1"', "name"),
    ('"https://x.example"', '"javascript:x"', "https://"), ('["https://x.example"]', "[]", "links"),
    ("name", "\xff", "not UTF-8 text"),
])
def test_a_file_that_would_claim_nonsense_is_refused(tmp_path: Path, old: str, new: str,
                                                     words: str) -> None:
    file = tmp_path / "some.toml"
    file.write_bytes(GOOD.encode())
    assert read_catalogue([file]).issues
    file.write_bytes(GOOD.replace(old, new, 1).encode("latin-1"))
    with pytest.raises(ConfigError, match=words):
        read_catalogue([file])


def test_two_issues_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).write_text(GOOD)
    with pytest.raises(ConfigError, match="some-name: two issues have this name"):
        read_catalogue(sorted(tmp_path.glob("*.toml")))
