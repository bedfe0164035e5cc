"""Two nights in one checkout: the second is refused, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import UsageError
from builder.nightly.alone import alone


def test_a_second_night_of_a_checkout_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    folder, root = tmp_path / "nightly", tmp_path / "checkout"
    with alone(folder, root):
        with (pytest.raises(UsageError, match="another night is at work in this checkout"),
              alone(folder, root)):
            pytest.fail("two nights at once")
        with alone(folder, tmp_path / "other"):
            pass
    with alone(folder, root):
        pass
