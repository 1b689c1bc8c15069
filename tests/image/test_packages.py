"""The packages of an image: what `payload/packages.py` lists, and what vpatch takes of it."""

from __future__ import annotations

import importlib.metadata
import json
from contextlib import contextmanager
from email.message import Message

import pytest

from tests.helpers import fails
from vpatch.image.inventory import inventory_of
from vpatch.image.payload import packages

STATUS = """\
Package: libc6
Status: install ok installed
Maintainer: GNU Libc Maintainers <debian-glibc@lists.debian.org>
Architecture: amd64
Version: 2.36-9

Package: gone
Status: deinstall ok config-files
Version: 1

Package: zlib1g
Status: install ok installed
Architecture: amd64
Version: 1:1.2
Description: a library
 Version: not this one
"""
READABLE = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
License: LGPL-2.1+

Files: debian/*
License: GPL-2+
 The text.
"""


@pytest.fixture
def root(tmp_path):
    for path, text in {
        "etc/os-release": 'NAME="Debian"\nID=debian\nVERSION_ID="12"\n',
        "var/lib/dpkg/status": STATUS,
        "usr/share/doc/libc6/copyright": READABLE,
        "usr/share/doc/zlib1g/copyright": "License: see the text. It is the one of zlib.\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_debian_packages_are_described_by_their_own_metadata(root):
    libc, zlib = packages.debian_packages(root)
    assert libc == {
        "name": "libc6",
        "version": "2.36-9",
        "architecture": "amd64",
        "supplier": "GNU Libc Maintainers <debian-glibc@lists.debian.org>",
        "licenses": ["GPL-2+", "LGPL-2.1+"],
        "requires": [],
    }
    assert (zlib["version"], zlib["supplier"]) == ("1:1.2", "")
    # No one can tell from a text that no machine is meant to read.
    assert zlib["licenses"] == []
    assert packages.system(root) == ["debian", "12"]


def test_an_image_without_dpkg_has_no_debian_packages(tmp_path):
    assert packages.debian_packages(tmp_path) == []
    assert packages.system(tmp_path) == ["", ""]


class Distribution:
    def __init__(self, *fields):
        self.metadata = Message()
        for key, value in fields:
            self.metadata[key] = value


def named(*fields):
    return Distribution(("Name", "One.Two"), ("Version", "1.0"), *fields)


@pytest.mark.parametrize(
    ("fields", "licenses"),
    [
        ([("License-Expression", "MIT OR 0BSD"), ("License", "other")], ["MIT OR 0BSD"]),
        ([("License", "BSD-3-Clause")], ["BSD-3-Clause"]),
        ([("License", "x" * 201), ("Classifier", "License :: OSI Approved :: MIT License")],
         ["MIT License"]),
        ([("License", "UNKNOWN"), ("Classifier", "License :: OSI Approved")], []),
        ([], []),
    ],
)  # fmt: skip
def test_licences_are_those_that_the_metadata_names(monkeypatch, fields, licenses):
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: [named(*fields)])
    (package,) = packages.python_packages()
    assert package["licenses"] == licenses


def test_of_two_python_packages_the_first_one_counts(monkeypatch):
    first, second = named(("Author-email", "A <a@b>")), named(("Author", "B"))
    nameless = Distribution(("Version", "1"))
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: [first, second, nameless])
    (package,) = packages.python_packages()
    assert (package["name"], package["supplier"]) == ("One.Two", "A <a@b>")


class Engine:
    """A container whose Python answers with a text."""

    def __init__(self, answer):
        self.answer = answer

    @contextmanager
    def container(self, *_):
        yield self

    def put(self, files, _):
        assert all(b"package_list" in text for text in files.values())

    def start(self):
        pass

    def wait(self, _):
        return 0 if self.answer else 1

    def read(self, _):
        return self.answer

    def logs(self):
        return b"Traceback"


def test_an_inventory_is_what_the_script_writes(root):
    answer = json.dumps(packages.package_list(root)).encode()
    inventory = inventory_of(Engine(answer), "sha256:1", "a:b")
    assert inventory.system == ("debian", "12")
    assert [one.name for one in inventory.debian] == ["libc6", "zlib1g"]
    assert "pytest" in {one.name for one in inventory.python}


@pytest.mark.parametrize("answer", [b"", b"{", b"[]", b'{"python": [{"name": 1}]}', b'{"x": 1}'])
def test_another_answer_is_refused(answer):
    with fails("image.python-failed", "did not list its packages") as caught:
        inventory_of(Engine(answer), "sha256:1", "a:b")
    assert caught.value.where == "a:b"
