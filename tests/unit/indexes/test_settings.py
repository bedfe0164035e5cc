"""The machine's sources: uv's settings first, then pip's."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import ConfigError
from builder.indexes.settings import (
    UvSettings,
    combine,
    parse_uv_settings,
    pip_settings,
    user_sources,
)

BUILTIN = UvSettings("https://builtin.example/simple")


@pytest.fixture
def pip_home(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose only pip configuration file lies under ``tmp_path``."""
    (tmp_path / ".config" / "pip").mkdir(parents=True)
    return {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "none")}


def write_conf(env: dict[str, str], text: str) -> None:
    (Path(env["HOME"]) / ".config" / "pip" / "pip.conf").write_text(text)


def test_uv_names_its_indexes_and_folders() -> None:
    text = ("--index-url https://mirror.example/simple\n--extra-index-url https://a.example/\n"
            "--find-links /wheels\n--find-links '/more wheels'\n\n")
    assert parse_uv_settings(text) == UvSettings(
        "https://mirror.example/simple", ("https://a.example/",), ("/wheels", "/more wheels"))


def test_uv_s_own_default_index_wins_over_pip_s() -> None:
    own = UvSettings("https://uv.example/simple")
    assert combine(own, BUILTIN, {"index-url": "https://pip.example/simple"}
                   ).default_index == "https://uv.example/simple"


def test_pip_s_index_serves_where_uv_has_none() -> None:
    sources = combine(BUILTIN, BUILTIN, {"index-url": "https://pip.example/simple",
                                         "find-links": "/a /b"})
    assert sources.default_index == "https://pip.example/simple"
    assert sources.find_links == ("/a", "/b")


def test_without_any_setting_uv_s_built_in_index_is_the_default() -> None:
    assert combine(BUILTIN, BUILTIN, {}).default_index == BUILTIN.index


def test_extra_indexes_add_up_without_repetition() -> None:
    own = UvSettings(BUILTIN.index, ("https://a.example/",))
    sources = combine(own, BUILTIN, {"extra-index-url": "https://b.example/ https://a.example/"})
    assert sources.extra_indexes == ("https://a.example/", "https://b.example/")


def test_uv_s_folders_replace_pip_s() -> None:
    own = UvSettings(BUILTIN.index, (), ("/uv",))
    assert combine(own, BUILTIN, {"find-links": "/pip"}).find_links == ("/uv",)


def test_pip_s_environment_wins_over_its_file(pip_home: dict[str, str]) -> None:
    write_conf(pip_home, "[global]\nindex-url = https://file.example/\nfind-links =\n  /x\n  /y\n")
    settings = pip_settings({**pip_home, "PIP_INDEX_URL": "https://env.example/"})
    assert settings["index-url"] == "https://env.example/"
    assert settings["find-links"].split() == ["/x", "/y"]


def test_a_percent_sign_in_a_pip_url_is_no_error(pip_home: dict[str, str]) -> None:
    write_conf(pip_home, "[global]\nindex-url = https://u:p%40x@file.example/\n")
    assert pip_settings(pip_home)["index-url"] == "https://u:p%40x@file.example/"


def test_pip_can_be_told_to_read_no_file(pip_home: dict[str, str]) -> None:
    write_conf(pip_home, "[global]\nfind-links = /x\n")
    assert "find-links" not in pip_settings({**pip_home, "PIP_CONFIG_FILE": "/dev/null"})


def test_a_broken_pip_conf_is_named(pip_home: dict[str, str]) -> None:
    write_conf(pip_home, "find-links = /x\n")
    with pytest.raises(ConfigError, match=r"pip\.conf"):
        pip_settings(pip_home)


def test_the_real_uv_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://me:pw@mirror.example/simple")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    monkeypatch.delenv("UV_INDEX_URL", raising=False)
    user_sources.cache_clear()
    sources = user_sources()
    user_sources.cache_clear()
    assert sources.default_index == "https://me:pw@mirror.example/simple"
    assert sources.find_links == (str(tmp_path),)
