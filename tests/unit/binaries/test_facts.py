"""The names that GPU code is shown by."""

from __future__ import annotations

import pytest

from builder.binaries.facts import Code, Form


@pytest.mark.parametrize(("form", "arch", "variant", "name"), [
    (Form.SASS, 121, "a", "sm_121a"), (Form.SASS, 90, "", "sm_90"),
    (Form.PTX, 120, "f", "compute_120f")])
def test_code_is_named_as_nvidias_tools_name_it(form: Form, arch: int, variant: str, name: str
                                                ) -> None:
    assert Code(form, arch, variant, 1, 1).name == name
