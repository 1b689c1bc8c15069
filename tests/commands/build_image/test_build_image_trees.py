"""Images of vLLM and a plugin, with a real Docker Engine and packages of a few lines."""

from __future__ import annotations

import os
import uuid

import pytest

from tests.commands.build_image.test_build_image import (
    DOCKERFILE,
    SETTINGS,
    SMALL,
    VERSION_FILE,
    serve_folder,
)
from tests.commands.conftest import PLUGIN, PLUGIN_ENGINE, plug
from tests.docker_engine import PACKAGES
from tests.engine.wheels import engine_wheels, wheel
from tests.index_server import sdist
from tests.projects import ENGINE
from vpatch.checkout.lockfile import read_lock
from vpatch.util.digest import digest_of

TREES = ("--vllm", "0.50", "--tree", "vllm-tiny==1.0.0")
INFO = "vllm_tiny-{0}.dist-info"
COPIES = f"COPY vllm_tiny {PACKAGES}/vllm_tiny\nCOPY {INFO} {PACKAGES}/{INFO}"
BESIDE = "/opt/vpatch/trees/vllm-tiny"


def with_plugin(release="1.0.0"):
    metadata = f"Metadata-Version: 2.1\nName: vllm-tiny\nVersion: {release}\n"
    package = {path: text for path, text in PLUGIN.items() if path.startswith("vllm_tiny/")}
    return SMALL | package | {f"{INFO.format(release)}/METADATA": metadata.encode()}


@pytest.fixture(scope="module")
def both(docker_engine):
    """A base with the small vLLM and the plugin."""
    tag = f"vpatch-test-both:{uuid.uuid4().hex[:8]}"
    dockerfile = DOCKERFILE % (docker_engine.base, COPIES.format("1.0.0"))
    docker_engine.build(tag, dockerfile, with_plugin())
    yield tag
    docker_engine.forget(tag)


@pytest.fixture(scope="module")
def with_compilers(docker_engine):
    """A base with most of what a CPU image needs of Debian: to install that takes minutes."""
    tag = f"vpatch-test-compilers:{uuid.uuid4().hex[:8]}"
    install = "apt-get update && apt-get install --yes --no-install-recommends g++ python3-dev"
    docker_engine.build(tag, f"FROM {docker_engine.base}\nRUN {install}\n", network="host")
    yield tag
    docker_engine.forget(tag)


@pytest.fixture
def names(docker):
    """Names for two images, which are removed at last."""
    run = uuid.uuid4().hex[:8]
    made = [f"vpatch-test-{number}:{run}" for number in range(2)]
    yield made
    docker.forget(*made)


def build(project, base, tag, *args, **options):
    return project.run("build-image", *TREES, "--base", base, "--tag", tag, *args, **options)


@pytest.fixture(scope="module")
def first_build(docker_engine):
    """A name for an image, which is removed at last."""
    name = f"vpatch-test-built:{uuid.uuid4().hex[:8]}"
    yield name
    docker_engine.forget(name)


@pytest.fixture
def built(plugged, docker, both, first_build):
    """The name of an image with the plugin, which the first test builds for all."""
    if not docker.has(first_build):
        build(plugged, both, first_build)
    return first_build


def image_of(project):
    return read_lock(project.target / "vpatch.lock").image


def locks_of(project):
    names = ("vllm-0.50.0", "vllm-tiny-1.0.0")
    return [project.folder / ".vpatch" / name / "vpatch.lock" for name in names]


def test_a_plugin_beside_vllm(plugged, docker, both, names):
    tag, second = names
    run = build(plugged, both, tag)
    vllm, tiny = locks_of(plugged)
    image = read_lock(vllm).image
    files = docker.files(tag, "/opt/vpatch")
    # The lock of the plugin is as `apply` wrote it, and that of vLLM names it.
    assert read_lock(tiny).image is None
    assert files["trees/vllm-tiny/lock"] == tiny.read_bytes()
    assert image.trees["vllm-tiny"].model_dump() == {
        "lock": digest_of(tiny.read_bytes()),
        "manifest": digest_of(files["trees/vllm-tiny/manifest.json"]),
        "source": read_lock(tiny).source.digest,
        "name": "vllm_tiny",
        "package": f"{PACKAGES}/vllm_tiny",
        "contents": digest_of(files["trees/vllm-tiny/package.json"]),
    }
    assert "trees       vllm-tiny: .vpatch/vllm-tiny-1.0.0/vpatch.lock\n" in run.out
    assert f"            1 file as locked, in {PACKAGES}/vllm_tiny\n" in run.out
    assert files["trees/vllm-tiny/NOTICE"].decode().splitlines()[:4] == [
        "This image has vllm-tiny (1.0.0) with modified files.",
        "The modifications are under the license of that package.",
        "",
        f"{PLUGIN_ENGINE}: modified by tiny-mode",
    ]
    labels = docker.settings(tag)["Labels"]
    assert labels["vpatch.trees"] == f"vllm-tiny@{image.trees['vllm-tiny'].lock}"
    for path in (ENGINE, PLUGIN_ENGINE):
        package, _, name = path.partition("/")
        assert b'mode="slow"' in docker.files(tag, f"{PACKAGES}/{package}")[name]
    where = f"in {PACKAGES}/vllm and 1 other package"
    version = labels["org.opencontainers.image.version"]
    assert plugged.run("verify-image", tag, "--lock", vllm).out.splitlines() == [
        f"{tag} is vLLM {version} and vllm-tiny, with 3 patches and 3 files as locked",
        f"  from outside: 3 files of patches and 3 other files as locked, {where}",
        "  its own Python says: 3 names found to be the patched code",
        "  not compared: VEX and SBOM in the image; vpatch audit --image makes new ones",
    ]
    assert plugged.run("verify-image", tag, "--json").json["trees"] == ["vllm-tiny"]
    # Two builds of the locks make the same layers.
    words = ["--lock", tiny, "--lock", vllm, "--no-cache", "--tag", second]
    plugged.run("build-image", *words)
    assert docker.layers(second) == docker.layers(tag)


@pytest.mark.parametrize(
    ("command", "where", "what"),
    [
        (f"echo >> {PACKAGES}/{PLUGIN_ENGINE}", f"{PACKAGES}/{PLUGIN_ENGINE}", "it was changed: "),
        (
            f"echo >> {PACKAGES}/vllm_tiny/__init__.py",
            f"{PACKAGES}/vllm_tiny/__init__.py",
            "it was changed, and no patch touches it",
        ),
        (f"rm {BESIDE}/lock", f"{BESIDE}/lock", "it is missing, so vllm-tiny was not verified"),
        (f"echo >> {BESIDE}/lock", f"{BESIDE}/lock", "it is not the lock "),
        (f"rm {BESIDE}/manifest.json", f"{BESIDE}/manifest.json", "it is missing"),
        # Without names to ask for, code that a start-up file replaces would not be seen.
        (
            f"echo >> {BESIDE}/manifest.json",
            f"{BESIDE}/manifest.json",
            "it is not the manifest that was locked",
        ),
    ],
)
def test_a_plugin_that_was_changed(plugged, docker, built, names, command, where, what):
    changed = names[0]
    docker.build(changed, f"FROM {built}\nRUN {command}\n")
    run = plugged.run("verify-image", changed, "--json", code=1)
    found = [(one["where"], one["what"]) for one in run.json["differences"]]
    assert any(place == where and text.startswith(what) for place, text in found), found


def test_a_patch_of_vllm_that_needs_one_of_the_plugin(plugged, both, names):
    """All files are laid before anything is imported."""
    needs = plugged.patch("needs-tiny", "- add-file: vllm/needs.py\n  from: added")
    (needs / "added").write_text("from vllm_tiny.added import LIMIT\n\nSHOWN = LIMIT\n")
    adds = plug(plugged, "tiny-adds", "- add-file: vllm_tiny/added.py\n  from: added", "text: def")
    (adds / "added").write_text("LIMIT = 1\n")
    run = build(plugged, both, names[0])
    assert "not importable" not in run.out


@pytest.mark.parametrize(
    ("release", "copies", "code", "said"),
    [
        ("1.0.0", "", "image.no-package", "python3 of this image has no package vllm_tiny"),
        (
            "1.1.0",
            COPIES,
            "docker.build-failed",
            "it has vllm-tiny 1.1.0, and the lock is of 1.0.0",
        ),
    ],
)
def test_a_base_without_that_plugin(plugged, docker, names, release, copies, code, said):
    base, tag = names
    dockerfile = DOCKERFILE % (docker.base, copies.format(release))
    docker.build(base, dockerfile, with_plugin(release))
    run = build(plugged, base, tag, code=1)
    assert run.codes == (code,)
    assert said in run.errors
    assert not docker.has(tag)


def test_a_plugin_in_a_cpu_image(plugged, with_compilers, names, monkeypatch, tmp_path):
    """Pip installs the plugin's release beside vLLM, and the lock has it."""
    plugged.index.add("1.1.0", sdist("1.1.0", PLUGIN, "vllm-tiny"), "vllm-tiny")
    content = {path: text.decode() for path, text in SMALL.items()}
    content[VERSION_FILE] = "__version__ = version = '{version}'\n"
    wheels = engine_wheels(tmp_path / "wheels", files=content)
    package = {path: text.decode() for path, text in PLUGIN.items() if path != "PKG-INFO"}
    # It requires vLLM: the one that is there is enough.
    wheel(wheels, "vllm-tiny", "1.0.0", package, ["vllm==0.50.0", "tiny"])
    # Debian's client has BuildKit; another one on the PATH may lack the plugin for it.
    monkeypatch.setenv("PATH", f"/usr/bin:{os.environ['PATH']}")
    with serve_folder(wheels) as url:
        settings = tmp_path / "pip.conf"
        settings.write_text(SETTINGS.format(url))
        words = ["--mode", "cpu", "--network", "host", "--secret", f"id=pip.conf,src={settings}"]
        build(plugged, with_compilers, names[0], *words)
        assert ("vllm-tiny", "1.0.0") in {(one.name, one.version) for one in image_of(plugged).pip}
        assert image_of(plugged).trees["vllm-tiny"].package.endswith("/vllm_tiny")
        found = plugged.run("verify-image", names[0]).out
        assert "3 names found to be the patched code" in found
        # Pins of the first build make the same packages, at any time.
        plugged.env["SOURCE_DATE_EPOCH"] = "700000000"
        build(plugged, with_compilers, names[1], *words, "--no-cache")
        # A plugin that wants other packages than vLLM's gets none of them.
        wheel(wheels, "tiny", "2.0")
        wheel(wheels, "vllm-tiny", "1.1.0", package, ["tiny<2"])
        trees = ("--vllm", "0.50", "--tree", "vllm-tiny==1.1.0")
        tagged = ("--base", with_compilers, "--tag", names[1], *words)
        run = plugged.run("build-image", *trees, *tagged, "--repin", code=1)
        assert "tiny<2" in run.errors
