"""What a command's lines say: the gate's verdict, patches left out, known failures, errors."""

from __future__ import annotations

from builder.nightly.said import diagnosed, last_error, notable


def test_the_gates_verdict_and_patches_left_out_are_noted() -> None:
    gate = "PASSED: gate cpu on slim: 149 wheels"
    patch = "warning: patch o/r#1 is left out: already upstream (found in the sources)"
    assert notable(["fetching", gate, patch, "warning: patch of the weather"]) == (gate, patch)


def test_known_failures_are_named_once_and_what_is_not_claimed_is_not() -> None:
    head = "gemma4-unsupported: transformers is too old"
    assert diagnosed([head, "  seen:     boot", head]) == (head,)
    assert diagnosed([head, "  not claimed: the log looks like it, but it passed"]) == ()
    assert diagnosed(["something-else: it broke", "PASSED: cpu"]) == ()


def test_the_last_error_is_what_a_command_ended_with() -> None:
    assert last_error(["error: one", "error: two", "  where: here"]) == "two"
    assert last_error(["all is well"]) == ""
