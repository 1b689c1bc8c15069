from __future__ import annotations

from types import SimpleNamespace

import pytest

from vpatch.workspace.upstream_history import _revision


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("v{version}", "v0.50.0"),
        ("{version.__class__}-{version}", "{version.__class__}-0.50.0"),
        ("{version}{other}", "0.50.0{other}"),
        ("{version}{", "0.50.0{"),
        ("{version}{version:>999999999999}", "0.50.0{version:>999999999999}"),
    ],
)
def test_a_tag_is_no_format_of_python(tag, name):
    pin = SimpleNamespace(kind="pypi", version="0.50.0")
    assert _revision(SimpleNamespace(tag=tag), pin) == name
