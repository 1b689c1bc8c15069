"""What runs in an image, run in a folder of packages of this machine's Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.projects import write_tree
from vpatch.image import PAYLOAD
from vpatch.image.payload import verify
from vpatch.util.digest import digest_of

LAYER = "vllm/layer.py"
OLD = b"LIMIT = 1\n\n\nclass Layer:\n    def forward(self):\n        return 1\n"
NEW = b"import json\n\nLIMIT = 2\n\n\nclass Layer:\n    def forward(self):\n        return 2\n"
ADDED = "vllm/added.py"
FILES = {
    "vllm/__init__.py": b"",
    "vllm/_version.py": b"__version__ = version = '0.50.0+cpu'\n",
    LAYER: OLD,
}


def entry(path, before, after):
    return {
        "path": path,
        "before": None if before is None else digest_of(before),
        "after": digest_of(after),
    }


class Image:
    """A folder of packages as that of an image, and the context of a lock for it."""

    def __init__(self, folder):
        self.packages, self.context = folder / "packages", folder / "context"
        write_tree(self.packages, FILES)
        write_tree(self.context / "build/files", {LAYER: NEW, ADDED: b"def new():\n    return 3\n"})
        (self.context / "build/epoch").write_text("86400\n")
        self.layer = self.packages / LAYER
        self.manifest = {
            "vllm": "0.50.0",
            "mode": "overlay",
            "files": [entry(LAYER, OLD, NEW), entry(ADDED, None, b"def new():\n    return 3\n")],
            "modules": ["vllm.layer", "vllm.added"],
            "probes": {
                "one": [
                    {"module": "vllm.layer", "name": "Layer.forward", "kind": "function"},
                    {"module": "vllm.layer", "name": "LIMIT", "kind": "constant"},
                    {"module": "vllm.layer", "name": "json", "kind": "import"},
                ],
                "two": [{"module": "vllm.added", "name": "new", "kind": "function"}],
            },
        }

    def run(self, script, *words, cwd=None):
        ours = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        return subprocess.run(
            [sys.executable, PAYLOAD / script, *words],
            cwd=cwd,
            env=ours | {"PYTHONPATH": str(self.packages)},
            capture_output=True,
            text=True,
            check=False,
        )

    def install(self):
        text = json.dumps(self.manifest)
        (self.context / "manifest.json").write_text(text)
        return self.run("install.py", self.context)

    def verify(self):
        """What the script finds, without a process for it: it imports in one of its own."""
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("PYTHON")]:
                patch.delenv(name)
            patch.setenv("PYTHONPATH", str(self.packages))
            patch.syspath_prepend(self.packages)
            return verify.verify(self.manifest)

    def verify_by_script(self, cwd=None):
        text = json.dumps(self.manifest)
        (self.context / "manifest.json").write_text(text)
        words = self.context / "manifest.json", self.context / "result"
        run = self.run("verify.py", *words, cwd=cwd)
        assert run.returncode == 0, run.stderr
        return json.loads((self.context / "result").read_text())

    def problems(self):
        found = self.verify()
        assert all(problem["path"] == str(self.layer) for problem in found["problems"])
        return [problem["what"] for problem in found["problems"]]


@pytest.fixture
def image(tmp_path):
    return Image(tmp_path)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder of an image in which the patched files were installed; tests have copies."""
    folder = tmp_path_factory.mktemp("installed")
    run = Image(folder).install()
    assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture
def patched(image, installed, tmp_path):
    shutil.copytree(installed, tmp_path, dirs_exist_ok=True)
    record = image.context / "installed.json"
    record.write_text(record.read_text().replace(str(installed), str(tmp_path)))
    return image


def test_what_is_installed_is_verified(image):
    stale = image.packages / "vllm/__pycache__/layer.cpython-311.opt-1.pyc"
    stale.parent.mkdir()
    stale.write_bytes(b"old")
    run = image.install()
    assert run.stdout.splitlines() == [
        f"verified: 2 files as locked, in {image.packages / 'vllm'}",
        "verified: one: 3 names found to be the patched code",
        "verified: two: 1 name found to be the patched code",
    ]
    assert image.layer.read_bytes() == NEW
    assert stale.read_bytes() == b""
    assert {p.stat().st_mtime for p in (stale, stale.parent, image.layer)} == {86400}
    assert json.loads((image.context / "installed.json").read_text()) == {
        "package": str(image.packages / "vllm"),
        "not-importable": {},
    }
    assert (
        image.verify()
        == image.verify_by_script()
        == {
            "package": str(image.packages / "vllm"),
            "problems": [],
            "imports": {},
            "probes": {
                "one": {"held": 3, "problems": [], "unknown": []},
                "two": {"held": 1, "problems": [], "unknown": []},
            },
        }
    )


def refused(image):
    before = {p: p.read_bytes() for p in image.packages.rglob("*.py")}
    run = image.install()
    assert run.returncode == 1
    assert {p: p.read_bytes() for p in image.packages.rglob("*.py")} == before
    return run.stderr.splitlines()


def test_a_base_that_differs_in_one_byte(image):
    image.layer.write_bytes(OLD.replace(b"1\n\n", b"7\n\n"))
    heading, line = refused(image)
    assert heading == f"the vLLM in {image.packages / 'vllm'} is not the one that was locked:"
    assert line == (
        f"{LAYER} is {digest_of(image.layer.read_bytes())}, and was locked as {digest_of(OLD)}"
    )


def test_a_base_that_has_the_new_file_already(image):
    write_tree(image.packages, {ADDED: b""})
    assert refused(image)[1] == f"{ADDED} is {digest_of(b'')}, and was locked as None"


def test_a_base_of_another_version(image):
    (image.packages / "vllm/_version.py").write_text("__version__ = version = '0.49.0'\n")
    assert refused(image)[1] == "it has vLLM 0.49.0, and the lock is of 0.50.0"


def test_a_base_without_vllm(image):
    image.packages.rename(image.packages.with_name("elsewhere"))
    run = image.install()
    assert run.returncode == 1
    assert "of this image has no package vllm: name another base" in run.stderr


TINY = {"vllm_tiny/__init__.py": b"", "vllm_tiny/a.py": b"def one():\n    return 1\n"}
TWO = b"def two():\n    return 2\n"


@pytest.fixture
def beside(image):
    """The manifest of a plugin; vLLM's new file imports what a patch of the plugin adds."""
    needs = b"from vllm_tiny.a import two\n"
    write_tree(image.packages, TINY)
    write_tree(image.context / "build/files", {ADDED: needs})
    image.manifest["files"][1] = entry(ADDED, None, needs)
    image.manifest["probes"].pop("two")
    image.manifest["trees"] = ["vllm-tiny"]
    workdir = image.context / "trees/vllm-tiny"
    write_tree(workdir / "build/files", {"vllm_tiny/a.py": TWO})
    manifest = {
        "tree": "vllm-tiny",
        "package": "vllm_tiny",
        "release": None,
        "mode": "overlay",
        "files": [entry("vllm_tiny/a.py", TINY["vllm_tiny/a.py"], TWO)],
        "modules": ["vllm_tiny.a"],
        "probes": {"tiny": [{"module": "vllm_tiny.a", "name": "two", "kind": "function"}]},
    }
    (workdir / "manifest.json").write_text(json.dumps(manifest))
    return workdir


def test_all_trees_are_laid_before_one_is_verified(image, beside):
    run = image.install()
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-2:] == [
        f"verified: 1 file as locked, in {image.packages / 'vllm_tiny'}",
        "verified: tiny: 1 name found to be the patched code",
    ]
    assert (image.packages / "vllm_tiny/a.py").read_bytes() == TWO
    installed = json.loads((beside / "installed.json").read_text())
    assert installed["package"] == str(image.packages / "vllm_tiny")
    assert {p.stat().st_mtime for p in (beside, beside / "installed.json")} == {86400}


def test_a_module_that_only_the_base_of_all_trees_cannot_import(image, beside):
    """A module that fails without any patch in the same way is no difference."""
    broken = b"import nowhere\n"
    for folder, text in ((image.packages, broken), (beside / "build/files", broken + b"\n")):
        write_tree(folder, {"vllm_tiny/a.py": text})
    manifest = json.loads((beside / "manifest.json").read_text())
    manifest |= {"files": [entry("vllm_tiny/a.py", broken, broken + b"\n")], "probes": {}}
    (beside / "manifest.json").write_text(json.dumps(manifest))
    image.manifest["files"].pop()
    image.manifest["modules"].remove("vllm.added")
    run = image.install()
    assert run.returncode == 0, run.stderr
    why = "ModuleNotFoundError: No module named 'nowhere'"
    installed = json.loads((beside / "installed.json").read_text())
    assert installed["not-importable"] == {"vllm_tiny.a": why}
    assert json.loads((image.context / "installed.json").read_text())["not-importable"] == {}
    assert (image.packages / "vllm_tiny/a.py").read_bytes() == broken + b"\n"


def test_a_tree_of_an_earlier_build_is_left_alone(image, beside):
    """A base that vpatch built has the trees of its own lock."""
    del image.manifest["trees"]
    image.manifest["files"].pop()
    image.manifest["modules"].remove("vllm.added")
    run = image.install()
    assert run.returncode == 0, run.stderr
    assert (image.packages / "vllm_tiny/a.py").read_bytes() == TINY["vllm_tiny/a.py"]
    assert not (beside / "installed.json").exists()


def test_a_base_with_another_plugin_is_left_as_it_was(image, beside):
    (image.packages / "vllm_tiny/a.py").write_bytes(TWO)
    heading, line = refused(image)
    assert heading == (
        f"the vllm-tiny in {image.packages / 'vllm_tiny'} is not the one that was locked:"
    )
    assert line.startswith(f"vllm_tiny/a.py is {digest_of(TWO)}")
    assert not (beside / "installed.json").exists()


def test_a_tree_that_was_built_has_its_files_already(image):
    image.manifest["mode"] = "source"
    write_tree(image.packages, {LAYER: NEW, ADDED: b"def new():\n    return 3\n"})
    assert image.install().returncode == 0
    assert image.problems() == []


def test_a_tree_that_was_built_from_something_else(image):
    image.manifest["mode"] = "source"
    write_tree(image.packages, {ADDED: b"def new():\n    return 3\n"})
    (line,) = refused(image)[1:]
    assert line == f"{LAYER} is {digest_of(OLD)}, and was locked as {digest_of(NEW)}"


def test_a_file_that_was_changed(patched):
    patched.layer.write_bytes(NEW + b"\n")
    (what,) = patched.problems()
    found, wanted = digest_of(NEW + b"\n")[:23], digest_of(NEW)[:23]
    assert what == f"it was changed: it is {found}, and the lock has {wanted}"


def test_a_package_installed_over_the_patch(patched):
    patched.layer.write_bytes(OLD)
    assert patched.problems() == ["it is as before the patch: vLLM was installed over it"]
    assert patched.verify()["probes"]["one"]["problems"] == ["vllm.layer:json is not there"]


def test_a_file_that_is_gone(patched):
    patched.layer.unlink()
    assert patched.problems() == ["it is missing"]


def test_another_version_around_the_patched_files(patched):
    (patched.packages / "vllm/_version.py").write_text("__version__ = version = '0.51.0'\n")
    (problem,) = patched.verify()["problems"]
    assert problem["what"] == "the image has vLLM 0.51.0, and the lock is of 0.50.0"


def test_nothing_is_compiled(patched):
    assert not list(patched.packages.rglob("layer*.pyc"))


@pytest.mark.parametrize("name", ["__pycache__/layer.cpython-39.pyc", "layer.pyc"])
def test_bytecode(patched, name):
    stale = patched.layer.parent / name
    stale.parent.mkdir(exist_ok=True)
    stale.write_bytes(b"")
    assert patched.problems() == []
    stale.write_bytes(b"old")
    assert patched.problems() == [f"stale bytecode lies beside it: {stale.name}"]


def test_a_module_that_does_not_import(image):
    text = b"import nowhere_to_be_had\n"
    write_tree(image.context / "build/files", {ADDED: text})
    image.manifest["files"][1] = entry(ADDED, None, text)
    lines = refused_after(image)
    assert lines == [
        "the image is not what the lock says:",
        "vllm.added does not import: ModuleNotFoundError: No module named 'nowhere_to_be_had'",
    ]


def refused_after(image):
    run = image.install()
    assert run.returncode == 1
    return run.stderr.splitlines()


def test_a_module_that_ends_the_process_in_the_base_as_well(image):
    """What comes after it is imported all the same."""
    old, new = b"import os\nos._exit(7)\n", b"import os\nos._exit(7)\nA = 1\n"
    broken_base(image, old, new)
    text = b"import nowhere_to_be_had\n"
    write_tree(image.context / "build/files", {ADDED: text})
    image.manifest["files"][1] = entry(ADDED, None, text)
    assert refused_after(image)[1:] == [
        "vllm.added does not import: ModuleNotFoundError: No module named 'nowhere_to_be_had'",
    ]


def broken_base(image, old, new):
    image.layer.write_bytes(old)
    write_tree(image.context / "build/files", {LAYER: new})
    image.manifest["files"][0] = entry(LAYER, old, new)
    image.manifest["probes"]["one"] = [{"module": "vllm.layer", "name": "A", "kind": "constant"}]


def test_a_module_that_the_base_cannot_import_either(image):
    broken_base(image, b"import libcuda\nA = 1\n", b"import libcuda\nA = 2\n")
    run = image.install()
    assert run.returncode == 0, run.stderr
    why = "ModuleNotFoundError: No module named 'libcuda'"
    assert run.stdout.splitlines()[1:] == [
        f"verified: vllm.layer is not importable here, nor was it in the base: {why}",
        "verified: one: 1 name not asked: its module cannot be imported",
        "verified: two: 1 name found to be the patched code",
        "one: not asked: vllm.layer:A: its module cannot be imported here",
    ]
    installed = json.loads((image.context / "installed.json").read_text())
    assert installed["not-importable"] == {"vllm.layer": why}
    assert image.problems() == []


def test_a_module_that_the_base_cannot_import_for_another_reason(image):
    broken_base(image, b"import libcuda\nA = 1\n", b"import libcudb\nA = 2\n")
    assert refused_after(image)[1:] == [
        "vllm.layer does not import: ModuleNotFoundError: No module named 'libcudb'"
    ]


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("import os; os._exit(7)", "the process that imports it ended with 7"),
        ("import os; os.kill(os.getpid(), 11)", "the process that imports it ended with -11"),
        ("raise SystemExit('no')", "SystemExit: no"),
    ],
)
def test_a_module_that_ends_the_process(image, end, said):
    text = f"{end}\n".encode()
    write_tree(image.context / "build/files", {LAYER: text})
    image.manifest["files"][0] = entry(LAYER, OLD, text)
    image.manifest["probes"] = {}
    assert refused_after(image)[1] == f"vllm.layer does not import: {said}"


def plugin(image, text):
    """What another package does to vLLM while it is imported, as a plugin of a platform."""
    write_tree(image.packages, {"vllm/__init__.py": text})


def test_a_function_that_somebody_replaces(patched):
    plugin(patched, b"import vllm.layer\nvllm.layer.Layer.forward = lambda self: 0\n")
    (text,) = patched.verify()["probes"]["one"]["problems"]
    assert text.startswith("vllm.layer:Layer.forward is not what its source says: it comes from ")
    assert text.endswith("vllm/__init__.py")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # As those do who mean to be polite.
        (
            (
                b"import functools\nold = vllm.layer.Layer.forward\n"
                b"@functools.wraps(old)\ndef new(self):\n    return 0\n"
                b"vllm.layer.Layer.forward = new\n"
            ),
            "is not what its source says: it comes from ",
        ),
        (
            (
                b"import functools\n"
                b"vllm.layer.Layer.forward = functools.cache(vllm.layer.Layer.forward)\n"
            ),
            "is a _lru_cache_wrapper, and a function in its source",
        ),
        (b"vllm.layer.Layer.forward = len\n", "is a builtin_function_or_method, and a function"),
        (b"vllm.layer.Layer.forward = None\n", "is a NoneType, and a function in its source"),
        (b"del vllm.layer.Layer.forward\n", "is not there"),
    ],
)
def test_a_function_that_somebody_wraps(patched, text, said):
    plugin(patched, b"import vllm.layer\n" + text)
    (problem,) = patched.verify()["probes"]["one"]["problems"]
    assert problem.startswith(f"vllm.layer:Layer.forward {said}")


def decorated(image, source, name="Layer.forward"):
    """The patched file with decorators of its own."""
    write_tree(image.context / "build/files", {LAYER: source})
    image.manifest["files"][0] = entry(LAYER, OLD, source)
    image.manifest["probes"] = {"one": [{"module": "vllm.layer", "name": name, "kind": "function"}]}
    run = image.install()
    assert run.returncode == 0, run.stderr
    return image.verify()["probes"]["one"]


WRAPPER = (
    b"import functools\n\n\ndef deco(f):\n    @functools.wraps(f)\n    def around(*a):\n"
    b"        return f(*a)\n    return around\n\n\n"
)


@pytest.mark.parametrize(
    "decorators",
    [
        b"    @staticmethod\n",
        b"    @classmethod\n",
        b"    @property\n",
        b"    @functools.cached_property\n",
        b"    @functools.cache\n",
        b"    @deco\n",
        b"    @deco\n    @deco\n",
    ],
)
def test_a_decorator_of_its_own_is_looked_below(image, decorators):
    source = (
        WRAPPER + b"class Layer:\n" + decorators + b"    def forward(self):\n        return 2\n"
    )
    assert decorated(image, source) == {"held": 1, "problems": [], "unknown": []}


def test_around_a_decorator_of_its_own_nobody_wraps(image):
    source = WRAPPER + b"class Layer:\n    @deco\n    def forward(self):\n        return 2\n"
    decorated(image, source)
    plugin(
        image,
        b"import vllm.layer\nold = vllm.layer.Layer.forward\nimport functools\n"
        b"@functools.wraps(old)\ndef new(self):\n    return 0\nvllm.layer.Layer.forward = new\n",
    )
    (problem,) = image.verify()["probes"]["one"]["problems"]
    # Below the one layer that is its own there is the decorator's function, and not the patch.
    assert problem.startswith("vllm.layer:Layer.forward is not what its source says")


def test_what_a_decorator_of_the_class_replaces_is_not_known(image):
    source = (
        b"def compiled(cls):\n    cls.forward = len\n    return cls\n\n\n"
        b"@compiled\nclass Layer:\n    def forward(self):\n        return 2\n"
    )
    assert decorated(image, source)["unknown"] == [
        "vllm.layer:Layer.forward: a decorator of its class puts something else in its place"
    ]


def test_an_import_that_somebody_replaces(patched):
    plugin(patched, b"import vllm.layer\nvllm.layer.json = None\n")
    assert patched.verify()["probes"]["one"]["problems"] == [
        "vllm.layer:json is something else than what is imported"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            (
                b"class Odd:\n    def __eq__(self, other):\n        raise RuntimeError('no')\n"
                b"vllm.layer.LIMIT = Odd()\n"
            ),
            "vllm.layer:LIMIT cannot be looked at: RuntimeError: no",
        ),
        (
            (
                b"import os\nclass Odd:\n    def __eq__(self, other):\n        os._exit(9)\n"
                b"vllm.layer.LIMIT = Odd()\n"
            ),
            "cannot be asked for: the process ended with 9",
        ),
    ],
)
def test_what_cannot_be_looked_at_does_not_hold(patched, text, said):
    plugin(patched, b"import vllm.layer\n" + text)
    assert patched.verify()["probes"]["one"]["problems"] == [said]


def test_a_package_that_hides_vllm_where_the_image_works(patched):
    hiding = patched.context / "work"
    write_tree(hiding, {"vllm/__init__.py": b""})
    (what, *_) = [p["what"] for p in patched.verify_by_script(cwd=hiding)["problems"]]
    assert what == "the image has vLLM None, and the lock is of 0.50.0"


def test_a_constant_that_somebody_sets(patched):
    plugin(patched, b"import vllm.layer\nvllm.layer.LIMIT = 128\n")
    assert patched.verify()["probes"]["one"]["problems"] == [
        "vllm.layer:LIMIT is 128, and its source says 2"
    ]
