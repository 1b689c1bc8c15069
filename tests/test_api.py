"""The public API, as the documentation uses it, on the real archive of vLLM 0.23.0."""

from __future__ import annotations

import contextlib
import doctest
import io
import re

import pytest

from tests.documents import page, shown
from tests.helpers import fails
from vpatch import api

PATCH = "mtp-proj-prefix"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_script_of_the_documentation():
    (code,) = re.findall(
        r"^```python\n(.*?)^```", page("how-to/python.md"), re.MULTILINE | re.DOTALL
    )
    assert len(code.splitlines()) <= 30
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "python.md", "exec"), {})  # noqa: S102 - the page's own code
    assert printed.getvalue() == shown("python")


@pytest.mark.slow
def test_the_examples_of_docstrings():
    found = doctest.testmod(api)
    assert found.attempted >= 6
    assert found.failed == 0


def test_every_public_name_is_there_and_documented():
    for name in api.__all__:
        assert getattr(api, name).__doc__, name


@pytest.mark.slow
def test_nothing_is_printed(capfd):
    context = api.open_context()
    api.apply(context, "0.23", patches=[PATCH])
    assert api.check(context).differences == ()
    assert b"+" in api.diff(context, PATCH)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_project_elsewhere(folder, tmp_path_factory, monkeypatch):
    api.apply(api.open_context(), "0.23", patches=[PATCH])
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    (folder / "vpatch.toml").write_text("")
    result = api.check(api.open_context(folder))
    assert (result.differences, result.hint) == ((), None)
    lock = result.path.resolve()
    assert lock.is_relative_to(folder)
    assert api.check(api.open_context(), lock=lock).differences == ()


@pytest.mark.slow
def test_a_changed_checkout_is_told_with_what_to_do():
    context = api.open_context()
    (applied,) = api.apply(context, "0.23", patches=[PATCH], checkout="here")
    assert applied.outcome == "created"
    (path, *_) = applied.lock.files
    changed = applied.order.target / path.path
    changed.write_text(changed.read_text() + "# mine\n")
    result = api.check(context, checkout="here")
    assert result.drifted == ()
    assert all(path.path in difference for difference in result.damaged)
    assert result.hint.endswith("--force")
    with pytest.raises(api.VpatchError, match="changes that vpatch did not make"):
        api.apply(context, "0.23", patches=[PATCH], checkout="here")
    assert api.apply(context, "0.23", patches=[PATCH], checkout="here", force=True)


def test_what_is_not_there():
    with pytest.raises(api.UsageError, match="no-such-patch"):
        api.status(api.open_context(), "0.23", patches=["no-such-patch"])
    with fails("vpatch.lock-named-twice"):
        api.check(api.open_context(), "0.23", lock="x")
