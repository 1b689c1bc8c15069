from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from tests.helpers import fails
from vpatch.source.cache import default_cache_folder
from vpatch.source.pip_settings import _config_files
from vpatch.trust.store import default_folder
from vpatch.util.home import expanded
from vpatch.util.os_errors import path_or_machine_error


@pytest.fixture
def nobody(monkeypatch):
    """As of a user whom the machine does not know, as in a container."""

    def unknown(_):
        raise KeyError

    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "VPATCH_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.parametrize(
    "find",
    [
        default_folder,
        default_cache_folder,
        lambda: _config_files({}, Path("/etc"), Path("/usr")),
        lambda: expanded("~/x"),
    ],
)
@pytest.mark.usefixtures("nobody")
def test_a_user_without_a_home(find):
    with fails("util.no-home", "there is no home folder") as caught:
        find()
    assert "HOME" in caught.value.hint


def test_a_home_of_nobody():
    with fails("util.no-home", "'~no-such-user/x'"):
        expanded("~no-such-user/x")
    assert expanded("~") == Path.home()


def test_a_current_folder_that_was_removed(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FileNotFoundError) as caught:
        Path.cwd()
    error = path_or_machine_error(caught.value)
    assert (error.code, error.exit_code) == ("util.bad-path", 2)
    assert str(error).startswith("the current folder was removed")
    # It is there, and a file is not.
    monkeypatch.chdir(tmp_path)
    assert path_or_machine_error(caught.value) is None
