"""The list of messages sees every way that a text reaches a user."""

from __future__ import annotations

from tests.messages import all_messages, messages_of

SOURCE = '''
raise UsageError(f"no {kind}", next_step="name " + "one")
console.info("reading" if new else "again")
group.add_argument("--all", help="everything")
compute(1, "not a message")
'''


def test_errors_narration_and_help_are_listed_with_their_lines() -> None:
    listed = [(each.line, each.kind, each.text) for each in messages_of("x.py", SOURCE)]
    assert listed == [
        (2, "UsageError", "no {…} / next_step: name one"),
        (3, "info", "reading | again"),
        (4, "add_argument", "everything"),
    ]


def test_the_whole_package_is_read() -> None:
    files = {message.file for message in all_messages()}
    assert {"builder/build.py", "builder/gate/run.py", "builder/commands/plan.py"} & files
    assert len(all_messages()) > 300
