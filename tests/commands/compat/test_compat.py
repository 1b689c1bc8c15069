from __future__ import annotations

import base64
import hashlib
import json
import zipfile

import pytest

from tests.commands.audit.sarif_schema import sarif_validator
from tests.commands.compat.plugins import CONFIG, CORE, PLUGIN, UTILS, VLLM, write_plugin
from tests.index_server import sdist
from tests.projects import archive

NEXT = VLLM | {
    CORE: VLLM[CORE].replace(b"return batch + 1", b"return batch + 2"),
    UTILS: VLLM[UTILS].replace(b"def close(handle):", b"def close(handle, force):"),
    CONFIG: VLLM[CONFIG].replace(b"    width: int = 4\n", b"    breadth: int = 4\n"),
}


@pytest.fixture
def releases(project):
    project.index.add("0.50.0", archive("0.50.0", VLLM))
    project.index.add("0.51.0", archive("0.51.0", NEXT))
    return project


INFO = "my_plugin-1.0.dist-info"
METADATA = b"Metadata-Version: 2.1\nName: my-plugin\nVersion: 1.0\nRequires-Dist: vllm==0.50.0\n"


def digest_in_record(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()


def item_of(document, name, kind=None):
    return next(
        one for one in document["items"] if one["name"] == name and kind in {None, one["kind"]}
    )


def document_of(project, text):
    """What compat says of a module in two releases; the first one is the base."""
    file = project.folder / "module.py"
    file.write_text(text)
    args = ("--vllm", "0.50.0,0.51.0", "--base", "0.50.0", "--json")
    return project.run("compat", file, *args, code=None).json


def verdict_of(project, text, name, release="0.51.0", **more):
    """The verdict on an item of a module in a release."""
    return item_of(document_of(project, text), name, **more)["verdicts"][release]


def state_of(project, text, name, release="0.51.0", **more):
    return verdict_of(project, text, name, release, **more)["state"]


def test_the_text_says_what_breaks_and_where(releases):
    plugin = write_plugin(releases.folder)
    run = releases.run("compat", plugin, "--vllm", "0.50.0,0.51.0")
    assert "my-plugin: " in run.out
    assert "compared with 0.50.0: it is the first one that the metadata allows" in run.out
    lines = [line.strip() for line in run.out.splitlines()]
    start = lines.index("changed     call vllm.utils.close")
    assert lines[start + 1 : start + 3] == [
        "my_plugin/__init__.py:34",
        "it requires force (vllm/utils.py:5)",
    ]
    assert run.out.splitlines()[-1] == "Fits 0.50.0; first break in 0.51.0: 3 names"


def test_it_ends_with_1_only_for_a_release_that_the_target_declares(releases):
    plugin = write_plugin(releases.folder)
    releases.run("compat", plugin, "--vllm", "0.51.0", code=0)
    run = releases.run("compat", plugin, "--vllm", "0.51.0", "--supports", ">=0.50", code=1)
    assert "0.51.0*" in run.out
    releases.run("compat", plugin, "--vllm", "0.51.0", "--supports", "0.50.0,0.51.0", code=1)
    releases.run("compat", plugin, "--vllm", "0.51.0", "--supports", "<0.51", code=0)


def test_without_releases_it_is_what_the_target_declares_and_the_latest(releases):
    document = releases.run("compat", write_plugin(releases.folder), "--json").json
    assert [(r["release"], r["is_declared"]) for r in document["releases"]] == [
        ("0.50.0", True),
        ("0.51.0", False),
    ]


def test_a_target_that_declares_nothing_needs_releases(releases):
    plugin = write_plugin(releases.folder, requires="")
    run = releases.run("compat", plugin, "--json", code=2)
    assert run.json_errors[0]["code"] == "cli.missing-option"
    document = releases.run("compat", plugin, "--all", "--json").json
    assert document["base"] is None


def test_from_to_shows_the_diff_of_each_definition(releases):
    plugin = write_plugin(releases.folder)
    run = releases.run("compat", plugin, "--from", "0.50.0", "--to", "0.51.0")
    assert "-        return batch + 1" in run.out
    assert "+        return batch + 2" in run.out
    assert "+def close(handle, force):" in run.out
    document = releases.run("compat", plugin, "--from", "0.50.0", "--to", "0.51.0", "--json").json
    names = {one["item"]["name"] for one in document["differences"]}
    assert {"vllm.utils.close", "my_plugin.MyWorker.run"} <= names
    assert "my_plugin.MyWorker.stop" not in names


def test_only_breaks_leaves_out_what_is_to_be_looked_at(releases):
    plugin = write_plugin(releases.folder)
    whole = releases.run("compat", plugin, "--vllm", "0.51.0").out
    breaks = releases.run("compat", plugin, "--vllm", "0.51.0", "--only-breaks").out
    assert "look again  override my_plugin.MyWorker.run" in whole
    assert "look again  override" not in breaks


def test_sarif_has_each_break_with_its_place(releases):
    plugin = write_plugin(releases.folder)
    run = releases.run(
        "compat", plugin, "--all", "--supports", ">=0.50", "--format", "sarif", code=1
    )
    document = json.loads(run.out)
    sarif_validator().validate(document)
    result = next(
        one
        for one in document["runs"][0]["results"]
        if one["message"]["text"].startswith("call vllm.utils.close")
    )
    assert (result["ruleId"], result["level"]) == ("compat/changed", "error")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "my_plugin/__init__.py"
    assert place["region"]["startLine"] == PLUGIN.split(b"\n").index(b"    close(config)") + 1


def test_markdown_shows_names_as_text(releases):
    plugin = write_plugin(releases.folder)
    run = releases.run("compat", plugin, "--vllm", "0.51.0", "--format", "md")
    assert "| 0.51.0 |" in run.out
    assert "my_plugin.MyWorker.run" in run.out


@pytest.mark.parametrize("inside", ["", "/parts"])
def test_a_folder_that_is_a_package_is_read_as_that_package(releases, inside):
    package = releases.folder / "source" / "extension"
    (package / "parts").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "parts" / "__init__.py").write_text("")
    text = "from vllm.core import Worker\nclass Base(Worker):\n    def load(self): pass\n"
    (package / "parts" / "base.py").write_text(text)
    text = "from extension.parts.base import Base\nclass Mine(Base):\n    def run(self): pass\n"
    (package / "parts" / "mine.py").write_text(text)
    folder = f"{package}{inside}"
    document = releases.run("compat", folder, "--vllm", "0.50.0", "--json").json
    assert document["target"] == ("parts" if inside else "extension")
    item = item_of(document, "extension.parts.mine.Mine.run", "override")
    assert item["verdicts"]["0.50.0"]["where"] == "vllm/core.py:15"
    assert item["places"] == [{"path": "extension/parts/mine.py", "line": 3}]


def test_a_wheel_says_what_it_requires(releases):
    members = {
        "my_plugin/__init__.py": PLUGIN,
        f"{INFO}/METADATA": METADATA,
        f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{INFO}/entry_points.txt": b"[vllm.general_plugins]\nmine = my_plugin:start\n",
    }
    rows = [f"{path},sha256={digest_in_record(text)},{len(text)}" for path, text in members.items()]
    members[f"{INFO}/RECORD"] = "\n".join([*rows, f"{INFO}/RECORD,,", ""]).encode()
    wheel = releases.folder / "my_plugin-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for path, text in members.items():
            file.writestr(path, text)
    document = releases.run("compat", wheel, "--vllm", "0.51.0", "--json").json
    facts = [document[key] for key in ("target", "version", "base", "files")]
    assert facts == ["my-plugin", "1.0", "0.50.0", 1]
    assert item_of(document, "vllm.utils.close", "call")["verdicts"]["0.51.0"]["state"] == "changed"
    item = item_of(document, "vllm.general_plugins: mine")
    assert item["verdicts"]["0.51.0"]["state"] == "holds"


def test_a_release_of_the_index_is_a_target(releases):
    files = {"PKG-INFO": METADATA, "my_plugin/__init__.py": PLUGIN}
    releases.index.add("1.0", sdist("1.0", files, name="my-plugin"), name="my-plugin")
    document = releases.run("compat", "my-plugin==1.0", "--vllm", "0.51.0", "--json").json
    facts = [document[key] for key in ("target", "version", "base", "files")]
    assert facts == ["my-plugin", "1.0", "0.50.0", 1]


def test_a_second_run_reads_what_the_first_one_kept(releases, monkeypatch):
    plugin = write_plugin(releases.folder)
    first = releases.run("compat", plugin, "--all", "--json").json

    def fail(*_):
        raise AssertionError

    monkeypatch.setattr("vpatch.commands.compat.usecase.surface_of", fail)
    assert releases.run("compat", plugin, "--all", "--json").json == first
    (plugin / "my_plugin" / "__init__.py").write_bytes(PLUGIN + b"\nx = 1\n")
    with pytest.raises(AssertionError):
        releases.run("compat", plugin, "--all", "--json")


GUARDED = """
try:
    from vllm.nowhere import close
except ImportError:
    from vllm.utils import close
"""
TYPES = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from vllm.nowhere import Thing
"""
VERSIONS = """
import vllm
from packaging.version import Version
if Version(vllm.__version__) < Version("0.51"):
    from vllm.old import Thing
else:
    from vllm.new import Thing
"""
HAS = """
import vllm.utils
if hasattr(vllm.utils, "close"):
    vllm.utils.close
if hasattr(vllm.utils, "absent"):
    vllm.utils.absent
"""


def test_an_import_whose_error_is_caught_breaks_nothing(releases):
    # The base has none either.
    assert state_of(releases, GUARDED, "vllm.nowhere.close") == "holds"
    assert state_of(releases, GUARDED, "vllm.utils.close") == "holds"


def test_what_only_type_checkers_import_does_not_run(releases):
    assert state_of(releases, TYPES, "vllm.nowhere.Thing") == "not run"


@pytest.mark.parametrize(
    ("release", "old", "new"), [("0.50.0", "gone", "not run"), ("0.51.0", "not run", "gone")]
)
def test_a_branch_for_other_releases_does_not_run(releases, release, old, new):
    assert state_of(releases, VERSIONS, "vllm.old.Thing", release) == old
    assert state_of(releases, VERSIONS, "vllm.new.Thing", release) == new


EARLY = (
    "if OLD: return",
    "if OLD:\n        raise ImportError\n    # or:",
    "if not OLD: pass\n    else: return",
    "if other: return\n    elif OLD: return",
    "if OLD or other: return",
    "if not (not OLD and other): return",
    "if other:\n        if OLD: return\n        {}",
    "try:\n        if OLD: return\n        {}\n    finally: pass",
)
BELOW = "from vllm.new import Thing"


@pytest.mark.parametrize("code", EARLY)
def test_what_follows_a_branch_that_leaves_runs_in_other_releases(releases, code):
    test = "Version(vllm.__version__) < Version('0.51')"
    code = code.replace("OLD", test)
    body = code.format(BELOW) if "{}" in code else f"{code}\n    {BELOW}"
    text = f"import vllm\nfrom packaging.version import Version\ndef f(other):\n    {body}\n"
    assert state_of(releases, text, "vllm.new.Thing", "0.50.0") == "not run"
    assert state_of(releases, text, "vllm.new.Thing", "0.51.0") == "gone"


NOT_EARLY = (
    "if OLD: other()",
    "if OLD and other: return",
    "if not OLD or other: pass\n    else: return other",
    "if OLD:\n        if other: return",
    "if OLD: return\n\n\ndef g(other):\n    pass",
)


@pytest.mark.parametrize("code", NOT_EARLY)
def test_what_follows_a_branch_that_may_go_on_runs_everywhere(releases, code):
    body = code.replace("OLD", "Version(vllm.__version__) < Version('0.51')")
    text = f"import vllm\nfrom packaging.version import Version\ndef f(other):\n    {body}\n"
    text += f"    {BELOW}\n"
    assert state_of(releases, text, "vllm.new.Thing", "0.50.0") == "gone"


def test_each_part_of_a_condition_counts(releases):
    text = VERSIONS.replace("):\n", ") and vllm:\n").replace("else:", "if not vllm or other:")
    assert state_of(releases, text, "vllm.old.Thing", "0.51.0") == "not run"
    assert state_of(releases, text, "vllm.new.Thing", "0.50.0") == "gone"


def test_a_branch_that_asks_for_an_attribute_runs_where_it_is(releases):
    assert state_of(releases, HAS, "vllm.utils.close") == "holds"
    assert state_of(releases, HAS, "vllm.utils.absent") == "not run"


def test_operators_are_looked_for_in_the_sources(releases):
    bindings = b'ops.def("silu(Tensor! out) -> ()");\n'
    releases.index.add("0.50.1", archive("0.50.1", VLLM | {"csrc/bindings.cpp": bindings}))
    file = releases.folder / "ops.py"
    file.write_text("import torch\ntorch.ops._C.silu(1)\n")
    document = releases.run("compat", file, "--vllm", "0.50.1,0.51.0", "--json").json
    verdicts = item_of(document, "_C.silu")["verdicts"]
    assert verdicts["0.50.1"]["state"] == "holds"
    # This one has no sources of operators.
    assert verdicts["0.51.0"]["state"] == "unknown"


def test_texts_that_name_a_class_are_judged_where_some_release_has_it(releases):
    text = 'A = "vllm.core.Runner"\nB = "vllm.not.a.module"\n'
    assert state_of(releases, text, "vllm.core.Runner") == "holds"
    file = releases.folder / "module.py"
    document = releases.run("compat", file, "--all", "--json").json
    assert [one["name"] for one in document["items"]] == ["vllm.core.Runner"]


DEFAULT = "from vllm.utils import launch\nlaunch(1)\n"


def test_another_default_of_a_parameter_is_to_be_looked_at(releases):
    slow = VLLM[UTILS].replace(b'mode="fast"', b'mode="slow"')
    releases.index.add("0.52.0", archive("0.52.0", VLLM | {UTILS: slow}))
    file = releases.folder / "module.py"
    file.write_text(DEFAULT)
    args = ("--vllm", "0.50.0,0.52.0", "--base", "0.50.0", "--json")
    item = item_of(releases.run("compat", file, *args).json, "vllm.utils.launch", "call")
    verdict = item["verdicts"]["0.52.0"]
    assert (verdict["state"], verdict["why"]) == (
        "look again",
        "the default of mode changed: 'fast' -> 'slow'",
    )


@pytest.mark.parametrize(
    "args",
    [
        ("--json", "--format", "md"),
        ("--from", "0.50.0"),
        ("--from", "0.50.0", "--to", "0.51.0", "--all"),
        ("--all", "--vllm", "0.51.0"),
        ("--format", "sarif", "--only-breaks", "--all"),
        ("--all", "--supports", "a lot"),
    ],
)
def test_options_that_have_no_effect_are_refused(releases, args):
    releases.run("compat", write_plugin(releases.folder), *args, code=2)


def test_a_field_of_a_class_whose_base_is_gone_is_not_known(project):
    project.index.add("0.50.0", archive("0.50.0", VLLM))
    gone = VLLM | {CORE: VLLM[CORE].replace(b"class Runner(", b"class Executor(")}
    project.index.add("0.51.0", archive("0.51.0", gone))
    text = """from vllm.core import Runner
class Mine(Runner):
    def go(self):
        return self.seen
"""
    assert state_of(project, text, "module.Mine.seen", kind="field") == "unknown"
    assert state_of(project, text, "module.Mine.seen", release="0.50.0", kind="field") == "holds"


@pytest.mark.parametrize(
    ("path", "text", "state"),
    [
        ("setup.py", b"copy('vllm/grown/*')\n", "unknown"),
        ("pyproject.toml", b"[tool.setuptools.package-data]\nvllm = ['vllm/grown/*']\n", "unknown"),
        # What linters leave out is not built.
        ("pyproject.toml", b"[tool.ruff]\nexclude = ['vllm/grown/*']\n", "gone"),
        ("pyproject.toml", b"[tool.ruff\nexclude = ['vllm/grown/*']\n", "unknown"),
    ],
)
def test_a_module_that_the_build_may_make_is_not_gone(project, path, text, state):
    files = VLLM | {"vllm/grown/__init__.py": b"", path: text}
    project.index.add("0.50.0", archive("0.50.0", files))
    project.index.add("0.51.0", archive("0.51.0", files))
    name = "vllm.grown.part.thing"
    assert state_of(project, "from vllm.grown.part import thing\n", name) == state


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("old = utils.MODE\nutils.MODE = 2\n", "gone"),
        ("def f():\n    old = utils.MODE\n    utils.MODE = 2\n", "gone"),
        ("utils.MODE = utils.MODE + 1\n", "gone"),
        ("def f():\n    return utils.MODE\nutils.MODE = 2\n", "unknown"),
        ("utils.MODE = 2\nold = utils.MODE\n", "unknown"),
    ],
)
def test_a_name_that_the_target_sets_on_a_module_may_be_read_before(project, text, state):
    project.index.add("0.50.0", archive("0.50.0", VLLM | {UTILS: VLLM[UTILS] + b"MODE = 1\n"}))
    project.index.add("0.51.0", archive("0.51.0", VLLM))
    text = f"import vllm.utils as utils\n{text}"
    assert state_of(project, text, "vllm.utils.MODE", kind="attribute") == state
