"""Where the options of a smoke run let it happen, and which have no effect together."""

from __future__ import annotations

import pytest

from vpatch.commands.smoke.request import InImage, Installed, where_of
from vpatch.commands.smoke.usecase import SmokeOptions
from vpatch.errors import UsageError
from vpatch.runs.cluster_options import Here, OnCluster
from vpatch.workspace.selection import Request


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"resume": True}, "cli.unused-option", "--resume would have no effect without --cluster"),
        ({"attempts": 2}, "cli.unused-option", "--attempts would have no effect without --cluster"),
        (
            {"resume": True, "storage": "/shared", "image": "a:b"},
            "cli.unused-option",
            "--resume and --storage would have no effect without --cluster",
        ),
        (
            {"on": "auto", "python": "p"},
            "cli.conflicting-options",
            "--python and --cluster exclude",
        ),
        ({"on": "auto", "port": 8000}, "cli.conflicting-options", "--port and --cluster exclude"),
        ({"image": "a:b", "python": "p"}, "cli.conflicting-options", "--image and --python name"),
        ({"image": "a:b", "before": True}, "cli.conflicting-options", "an image already says"),
        ({"python": "p", "engine": "cpu"}, "cli.conflicting-options", "an environment already"),
    ],
)
def test_options_that_exclude_each_other(options, code, said):
    with pytest.raises(UsageError) as error:
        where_of(SmokeOptions(**options), Request())
    assert error.value.code == code
    assert said in error.value.what


@pytest.mark.parametrize("options", [{"image": "a:b"}, {"image": "a:b", "on": "auto"}])
def test_an_image_has_its_source_in_it(options):
    with pytest.raises(UsageError) as error:
        where_of(SmokeOptions(**options), Request("0.23"))
    assert error.value.code == "cli.conflicting-options"


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({}, Here(None)),
        ({"engine": "cpu", "port": 8000}, Here("cpu")),
        ({"python": "p", "port": 8000}, Installed("p")),
        ({"image": "a:b"}, InImage("a:b")),
        ({"on": "auto", "engine": "cuda"}, OnCluster("auto", engine="cuda")),
        (
            {"on": "auto", "resume": True, "image": "a:b", "attempts": 1, "storage": "/shared"},
            OnCluster("auto", None, "a:b", attempts=1, resume=True, storage="/shared"),
        ),
    ],
)
def test_options_say_where_a_run_happens(options, where):
    assert where_of(SmokeOptions(**options), Request()) == where
