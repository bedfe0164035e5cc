"""Git diffs into frozen file patches, read the way ``git apply`` reads them, or refused.

The rules are those of git's own reader (https://git-scm.com/docs/diff-format,
https://github.com/git/git/blob/master/apply.c). Where git is lenient about damage (hunks in
another format, text that no header announces, counts that end a hunk early), a diff is refused:
a patch that is locked by its hash has no reason to be damaged. Nothing here touches a file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from builder import limits
from builder.errors import PatchError
from builder.patches.filepatch import Change, FilePatch, Hunk
from builder.tarball import why_not

SIZE_LIMIT = 32_000_000  # bytes, looked at before anything is parsed; releases differ by less
FILES_LIMIT = 10_000
HUNKS_LIMIT = 50_000
_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPE = re.compile(rb'\\([abtnvfr"\\]|[0-3][0-7]{2})|([\\"])')
_ESCAPES = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))
_MARKER_BYTES = 12  # git: at least "\ No newline", whatever the language


def parse_diff(data: bytes, name: str = "patch") -> tuple[FilePatch, ...]:
    """Parse the bytes of a diff; ``name`` is for the errors.

    Raises PatchError for what is too large, damaged, empty, or would leave the tree.
    """
    if len(data) > SIZE_LIMIT:
        raise PatchError(f"the diff is larger than {SIZE_LIMIT // limits.MB} MB",
                         where=name, next_step="use a smaller one, or include fewer paths of it")
    return _Reader(data, name).files()


@dataclass
class _Header:
    """The lines above the hunks of one file, as far as they have been read."""

    names: tuple[str, str] | None
    change: Change = Change.MODIFY
    modes: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    sides: dict[str, str | None] = field(default_factory=dict)


class _Reader:
    """Walks the lines of one diff."""

    def __init__(self, data: bytes, name: str) -> None:
        self._lines = _lines(data)
        self._at, self._name, self._hunks = 0, name, 0

    def files(self) -> tuple[FilePatch, ...]:
        found: list[FilePatch] = []
        while self._seek_header():
            found.append(self._file())
            if len(found) > FILES_LIMIT:
                raise self._refuse(f"it changes more than {FILES_LIMIT} files")
        if not found:
            raise self._refuse("it holds no git diff")
        return tuple(found)

    def _refuse(self, reason: str) -> PatchError:
        return PatchError(f"not a usable git diff: {reason}",
                          where=f"{self._name}: line {min(self._at + 1, len(self._lines))}",
                          next_step="export it again, from its repository with `git diff`")

    def _peek(self) -> bytes:
        return self._lines[self._at] if self._at < len(self._lines) else b""

    def _seek_header(self) -> bool:
        """Go to the next file; mail headers and signatures may stand between, lost hunks not."""
        while line := self._peek():
            if line.startswith(b"diff --git "):
                return True
            if line.startswith(b"@@ -") and _HUNK.match(line):
                raise self._refuse("a hunk stands under no file")
            following = self._lines[self._at + 1:self._at + 2]
            if line.startswith(b"--- ") and following and following[0].startswith(b"+++ "):
                raise self._refuse("it is not in git's own format (no `diff --git` line)")
            if line.startswith((b"diff --cc ", b"diff --combined ")):
                raise self._refuse("it is the combined diff of a merge")
            self._at += 1
        return False

    def _file(self) -> FilePatch:
        header = _Header(self._names(self._peek()[11:].rstrip(b"\n")))
        self._at += 1
        while self._header_line(header):
            self._at += 1
        hunks = []
        while self._peek().startswith(b"@@ -"):
            hunks.append(self._hunk())
        if hunks and not header.sides:
            raise self._refuse("hunks stand under no file")
        binary = not hunks and self._peek().startswith((b"GIT binary patch", b"Binary files "))
        if binary:
            self._at += 1
        elif hunks:
            self._end_of_hunks()
        return self._finish(header, tuple(hunks), binary=binary)

    def _names(self, text: bytes) -> tuple[str, str] | None:
        """Return the names of the ``diff --git`` line where it can be taken apart."""
        if text.startswith(b'"'):
            match = re.match(rb'"(?:[^"\\]|\\.)*"', text)
            if match is None or text[match.end():match.end() + 1] != b" ":
                raise self._refuse("a quoted name has no end")
            parts = text[:match.end()], text[match.end() + 1:]
        elif text.endswith(b'"') and b' "' in text:
            first, _, second = text.partition(b' "')
            parts = first, b'"' + second
        else:
            middle = len(text) // 2
            parts = text[:middle], text[middle + 1:]
            if text[middle:middle + 1] != b" " or parts[0][2:] != parts[1][2:]:
                return None  # a rename: the names stand below
        return self._path(parts[0], b"a/"), self._path(parts[1], b"b/")

    def _path(self, text: bytes, prefix: bytes = b"") -> str:
        """Return a name without quotes and prefix; refuse what would leave the tree."""
        name = self._unquoted(text)
        if not name.startswith(prefix):
            raise self._refuse(f"a name does not begin with {prefix.decode()}: {name!r}")
        try:
            path = name[len(prefix):].decode()
        except UnicodeDecodeError:
            raise self._refuse(f"a name is not UTF-8: {name!r}") from None
        reason = why_not(path)
        if not reason and ".git" in path.lower().split("/"):
            reason = "is git's own"
        if reason:
            raise self._refuse(f"{path!r} {reason}")
        return path

    def _unquoted(self, text: bytes) -> bytes:
        if not text.startswith(b'"'):
            return text
        if len(text) < 2 or not text.endswith(b'"'):
            raise self._refuse("a quoted name has no end")

        def plain(match: re.Match[bytes]) -> bytes:
            code = match[1]
            if code is None:
                raise self._refuse("a quoted name is damaged")
            return bytes([_ESCAPES[code[0]] if len(code) == 1 else int(code, 8)])
        return _ESCAPE.sub(plain, text[1:-1])

    def _header_line(self, header: _Header) -> bool:
        """Read one header line; False upon a line that is none."""
        line = self._peek().rstrip(b"\n")
        words = line.split(b" ")
        two, value = b" ".join(words[:2]).decode("latin-1"), b" ".join(words[2:])
        match two:
            case "old mode" | "new mode":
                header.modes[two[:3]] = value.decode("latin-1")
            case "deleted file" | "new file" if words[2:3] == [b"mode"]:
                header.change = Change.DELETE if two[0] == "d" else Change.CREATE
                side = "old" if header.change is Change.DELETE else "new"
                header.modes[side] = b" ".join(words[3:]).decode("latin-1")
            case "rename from" | "rename to" | "copy from" | "copy to":
                header.change = Change.RENAME if two[0] == "r" else Change.COPY
                header.moved["old" if two.endswith("from") else "new"] = self._path(value)
            case "similarity index" | "dissimilarity index":
                pass
            case _ if words[0] == b"index" and b".." in line:
                if len(words) > 2:
                    header.modes.setdefault("old", words[2].decode("latin-1"))
            case _ if words[0] in (b"---", b"+++"):
                side, prefix = ("old", b"a/") if words[0] == b"---" else ("new", b"b/")
                if side in header.sides:
                    raise self._refuse(f"a second {words[0].decode()} line for one file")
                header.sides[side] = self._side(line[4:], prefix)
            case _:
                return False
        return True

    def _side(self, text: bytes, prefix: bytes) -> str | None:
        name = text if text.startswith(b'"') else text.partition(b"\t")[0]
        return None if name == b"/dev/null" else self._path(name.rstrip(b"\t"), prefix)

    def _hunk(self) -> Hunk:
        match = _HUNK.match(self._peek())
        if match is None:
            raise self._refuse("a hunk's header is damaged")
        self._hunks += 1
        if self._hunks > HUNKS_LIMIT:
            raise self._refuse(f"it has more than {HUNKS_LIMIT} hunks")
        left = {"-": int(match[2] or 1), "+": int(match[4] or 1)}
        header = match[0].decode()
        self._at += 1
        lines: list[tuple[str, bytes]] = []
        ended: set[str] = set()
        while left["-"] or left["+"] or self._peek().startswith(b"\\ "):
            self._hunk_line(lines, left, ended)
        if all(sign == " " for sign, _ in lines):
            raise self._refuse("a hunk changes nothing")
        return Hunk(int(match[1]), int(match[3]), tuple(lines), header)

    def _hunk_line(self, lines: list[tuple[str, bytes]], left: dict[str, int],
                   ended: set[str]) -> None:
        line = self._peek()
        if line.startswith(b"\\ ") and len(line) >= _MARKER_BYTES and lines and \
                lines[-1][1].endswith(b"\n"):
            sign, text = lines[-1]
            lines[-1] = sign, text[:-1]
            ended |= {"-", "+"} if sign == " " else {sign}
            self._at += 1
            return
        sign = " " if line == b"\n" else line[:1].decode("latin-1")
        sides = {" ": {"-", "+"}, "-": {"-"}, "+": {"+"}}.get(sign)
        if sides is None or not line.endswith(b"\n") or sides & ended or \
                any(not left[side] for side in sides):
            raise self._refuse("a hunk is damaged: its lines are not as many as it says")
        for side in sides:
            left[side] -= 1
        lines.append((sign, b"\n" if line == b"\n" else line[1:]))
        self._at += 1

    def _end_of_hunks(self) -> None:
        """Refuse lines that look like a hunk's own but that its counts leave out."""
        line = self._peek()
        if line[:1] in (b" ", b"+", b"-", b"\\") and line.rstrip() != b"--":
            raise self._refuse("a hunk has more lines than it says")

    def _finish(self, header: _Header, hunks: tuple[Hunk, ...], *, binary: bool) -> FilePatch:
        old, new = self._both_names(header)
        modes = header.modes
        if header.change is Change.CREATE and any(hunk.old for hunk in hunks):
            raise self._refuse(f"{new!r} is new and yet expects lines")
        if header.change is Change.DELETE and any(hunk.new for hunk in hunks):
            raise self._refuse(f"{old!r} is deleted and yet keeps lines")
        changed = modes.get("new") and modes.get("old") != modes["new"]
        if header.change is Change.MODIFY and not (hunks or binary or changed):
            raise self._refuse(f"nothing is said about {old!r}")
        return FilePatch(header.change, old, new, modes.get("old", ""), modes.get("new", ""),
                         hunks, binary)

    def _both_names(self, header: _Header) -> tuple[str, str]:
        """Return both names; every line that names the file must say the same."""
        if header.change in (Change.RENAME, Change.COPY):
            if set(header.moved) != {"old", "new"} or header.moved["old"] == header.moved["new"]:
                raise self._refuse("a rename or copy does not name both files")
            names = header.moved["old"], header.moved["new"]
        elif header.names is not None and header.names[0] == header.names[1]:
            names = header.names
        else:
            raise self._refuse("the names of a file do not agree")
        expected: dict[str, str | None] = dict(zip(("old", "new"), names, strict=True))
        if header.change is Change.CREATE:
            expected["old"] = None
        if header.change is Change.DELETE:
            expected["new"] = None
        if header.names not in (None, names) or (header.moved and header.change not in (
                Change.RENAME, Change.COPY)):
            raise self._refuse("the names of a file do not agree")
        if len(header.sides) == 1 or any(expected[side] != name
                                         for side, name in header.sides.items()):
            raise self._refuse("the names of a file do not agree")
        return names


def _lines(data: bytes) -> list[bytes]:
    """Split at newlines only: a carriage return belongs to its line."""
    found = data.split(b"\n")
    last = found.pop()
    return [line + b"\n" for line in found] + ([last] if last else [])
