"""Where an installer puts the members of a wheel, and which ones never enter an image."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest
from hand_made_wheels import make_wheel
from patch_wheels import encrypted

from builder.errors import UsageError
from builder.layers.wheel_contents import Layout, minor_of, open_wheel, unpacked_size
from builder.tarball import content

LAYOUT = Layout("3.11.2")
INFO = "demo-1.0.dist-info"


def placed(wheel: Path) -> dict[str, tuple[bytes, bool, bool]]:
    """Return contents, executable and library by the place in the image."""
    with open_wheel(wheel, LAYOUT) as contents:
        return {item.file.path: (content(item.file), item.file.executable, item.library)
                for item in contents.files}


def add(wheel: Path, member: zipfile.ZipInfo | str, data: bytes = b"x") -> Path:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(member, data)
    return wheel


def test_a_layout_is_that_of_a_virtual_environment() -> None:
    assert minor_of("3.11.2") == "3.11"
    assert LAYOUT.site == "opt/sparkyard/lib/python3.11/site-packages"
    assert LAYOUT.folder("scripts", "demo") == "opt/sparkyard/bin"
    assert LAYOUT.folder("data", "demo") == "opt/sparkyard"
    assert LAYOUT.folder("headers", "demo") == "opt/sparkyard/include/site/python3.11/demo"
    assert LAYOUT.folder("platlib", "demo") == LAYOUT.site
    assert "opt/sparkyard/bin/python3.11" in LAYOUT.reserved


def test_members_go_to_the_folders_of_their_scheme(tmp_path: Path) -> None:
    found = placed(make_wheel(tmp_path, "demo", {
        "demo/__init__.py": b"1", "demo-1.0.data/data/share/x": b"2",
        "demo-1.0.data/headers/x.h": b"3", "demo-1.0.data/scripts/tool": b"#!python\n4",
        "demo-1.0.data/purelib/extra.py": b"5"}))
    assert found[f"{LAYOUT.site}/demo/__init__.py"] == (b"1", False, True)
    assert found["opt/sparkyard/share/x"] == (b"2", False, False)
    assert found["opt/sparkyard/include/site/python3.11/demo/x.h"][0] == b"3"
    assert found["opt/sparkyard/bin/tool"] == (b"#!/opt/sparkyard/bin/python\n4", True, False)
    assert found[f"{LAYOUT.site}/extra.py"] == (b"5", False, True)
    assert f"{LAYOUT.site}/{INFO}/RECORD" not in found, "an installer writes its own"


def test_entry_points_become_scripts_and_wrappers_are_left_out(tmp_path: Path) -> None:
    found = placed(make_wheel(tmp_path, "demo", {
        f"{INFO}/entry_points.txt": b"[console_scripts]\ndemo = demo.cli:App.main\n",
        "demo-1.0.data/scripts/demo.exe": b"MZ", "demo-1.0.data/scripts/demo": b"#!python"}))
    text, executable, _ = found["opt/sparkyard/bin/demo"]
    assert text == (b'#!/opt/sparkyard/bin/python\nimport sys\nfrom demo.cli import App\n'
                    b'if __name__ == "__main__":\n    sys.exit(App.main())\n')
    assert executable
    assert "opt/sparkyard/bin/demo.exe" not in found


def test_ready_made_bytecode_is_left_out(tmp_path: Path) -> None:
    found = placed(make_wheel(tmp_path, "demo", {"demo/__pycache__/a.cpython-311.pyc": b"evil"}))
    assert not any("__pycache__" in path for path in found)


@pytest.mark.parametrize(("member", "reason"), [
    ("../x", "leads out"), ("/etc/x", "absolute"), ("demo/.wh.x", "delete files"),
    ("demo\\x.py", "not a plain path"), ("demo-1.0.data/odd/x", "no known part of .data"),
    ("demo-1.0.data/scripts/python3", "a part of the environment"),
    ("demo-1.0.data/data/pyvenv.cfg", "a part of the environment")])
def test_a_member_in_a_wrong_place_is_refused_by_name(
        tmp_path: Path, member: str, reason: str) -> None:
    wheel = add(make_wheel(tmp_path, "demo", {}), zipfile.ZipInfo(member))
    with pytest.raises(UsageError, match=reason) as caught:
        placed(wheel)
    assert caught.value.where.startswith("demo-1.0-py3-none-any.whl")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_are_refused(tmp_path: Path, kind: int) -> None:
    member = zipfile.ZipInfo("demo/link")
    member.external_attr = (kind | 0o777) << 16
    with pytest.raises(UsageError, match="is a link or a device"):
        placed(add(make_wheel(tmp_path, "demo", {}), member))


@pytest.mark.parametrize("text", [b"[console_scripts]\n../x = a:b\n", b"\xff", b"no section",
                                  b"[console_scripts]\npython = a:b\n"])
def test_damaged_entry_points_are_refused(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(UsageError, match=r"entry_points.txt"):
        placed(make_wheel(tmp_path, "demo", {f"{INFO}/entry_points.txt": text}))


def test_two_members_in_one_place_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="have the same place"):
        placed(make_wheel(tmp_path, "demo", {"x.py": b"1", "demo-1.0.data/purelib/x.py": b"2"}))


@pytest.mark.parametrize("data", [b"", b"not a zip file", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_wheel_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"the wheel demo.* cannot be installed"):
        placed(path)


def test_the_unpacked_size_counts_bytecode(tmp_path: Path) -> None:
    plain = unpacked_size(make_wheel(tmp_path, "demo", {"a.so": bytes(10_000)}))
    module = unpacked_size(make_wheel(tmp_path, "demo", {"a.py": bytes(10_000)}))
    assert module - plain == 10_000


def test_an_encrypted_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is encrypted"):
        placed(encrypted(make_wheel(tmp_path, "a", {"a.py": b""})))
