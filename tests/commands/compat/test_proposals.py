"""Patches of a target's own tree: each holds in both releases, or is not written."""

from __future__ import annotations

import pytest

from tests.commands.compat.plugins import CONFIG, UTILS, VLLM, write_plugin
from tests.documents import ROOT
from tests.projects import archive
from vpatch.library.loading import load_patch
from vpatch.planning.plan import plan
from vpatch.source.memory import MemoryTree
from vpatch.source.tree import Pin
from vpatch.trust.decision import Trust

MODEL = "optional-disable-inplace"
EXAMPLE = ROOT / "patches" / MODEL / "examples" / "needed-0.23"
MOE = "vllm/model_executor/layers/fused_moe/config.py"
METHOD = "vllm/model_executor/layers/quantization/moe_wna16.py"
PLATFORM = "vllm/platforms/interface.py"


def moe_release(default):
    field = f"    disable_inplace: bool = {default}\n" if default else ""
    return {
        MOE: f"class FusedMoEConfig:\n    experts: int\n{field}".encode(),
        METHOD: b"""from vllm.model_executor.layers.fused_moe.config import FusedMoEConfig


class MoeWNA16Method:
    def __init__(self, moe: FusedMoEConfig):
        self.moe = moe

    def apply(self, layer, x, topk_weights, topk_ids, shared_experts, shared_experts_input):
        return x
""",
        "vllm/model_executor/layers/fused_moe/__init__.py": b"RoutedExperts = SharedExperts = 1\n",
        PLATFORM: b"class PlatformEnum:\n    OOT = 1\n\n\nclass Platform:\n    pass\n",
    }


def propose(project, target, old, new, code=None):
    project.index.add("0.50.0", archive("0.50.0", old))
    project.index.add("0.51.0", archive("0.51.0", new))
    folder = project.folder / "proposed"
    args = ("--vllm", "0.50.0,0.51.0", "--base", "0.50.0", "--propose", folder, "--json")
    return folder, project.run("compat", target, *args, code=code).json


def applied(folder, files):
    """What a patch makes of some files."""
    pin = Pin("vllm-metax", "folder", "0.23.0", "sha256:0", "x")
    patch = load_patch(folder, Trust(None))
    decision = plan([patch], MemoryTree(pin, files), findings_for="none").decisions[0]
    return {path: change.after for path, change in decision.changes.items()}


@pytest.mark.parametrize("default", ["False", "True"])
def test_the_proposal_for_an_optional_field_is_that_of_the_library(project, default):
    files = {
        str(path.relative_to(EXAMPLE / "before")): path.read_bytes()
        for path in (EXAMPLE / "before").rglob("*.py")
    }
    old, new = moe_release(default), moe_release("")
    folder, document = propose(project, EXAMPLE / "before", old, new)
    (proposal,) = document["proposals"]
    assert proposal["id"] == MODEL
    by_proposal = applied(folder / MODEL, files)
    by_library = applied(ROOT / "patches" / MODEL, files)
    assert by_library
    # The library's patch works in place where there is no field, whatever the default was.
    wanted = f'"disable_inplace", {default})'.encode()
    assert by_proposal == {
        path: text.replace(b'"disable_inplace", False)', wanted)
        for path, text in by_library.items()
    }


IMPORTS = {
    "alone": b"from vllm.utils import close\nclose(1)\n",
    "with others": b"from vllm.utils import (\n    close as shut,\n    launch,\n)\nshut(1)\n",
    "in a function": b"def go():\n    from vllm.utils import close\n\n    close(1)\n",
}
TWO = b"from vllm.utils import close, launch\nclose(launch(1))\n"
CLOSE = b"def close(handle):\n    handle.close()\n"
MOVED = VLLM | {UTILS: VLLM[UTILS].replace(CLOSE, b""), "vllm/closing.py": CLOSE}


@pytest.mark.parametrize("name", IMPORTS)
def test_a_moved_import_works_in_both_releases(project, name):
    files = {"my_plugin/__init__.py": b"", "my_plugin/use.py": IMPORTS[name]}
    plugin = write_plugin(project.folder, files)
    folder, document = propose(project, plugin, VLLM, MOVED)
    (proposal,) = document["proposals"]
    assert proposal["folder"] == str(folder / "moved-from-vllm-utils")
    (text,) = applied(folder / "moved-from-vllm-utils", files).values()
    assert b"from vllm.closing import close" in text
    (plugin / "my_plugin" / "use.py").write_bytes(text)
    args = ("--vllm", "0.50.0,0.51.0", "--base", "0.50.0", "--json")
    document = project.run("compat", plugin, *args, code=None).json
    assert [document["items"], document["summary"]] == [document["items"], "Fits 0.50.0 to 0.51.0"]


def test_names_of_one_statement_move_together(project):
    plugin = write_plugin(project.folder, {"my_plugin/__init__.py": TWO})
    new = VLLM | {UTILS: b"", "vllm/closing.py": CLOSE, "vllm/a.py": VLLM[UTILS]}
    new["vllm/a.py"] = new["vllm/a.py"].replace(CLOSE, b"")
    folder, document = propose(project, plugin, VLLM, new)
    assert [one["id"] for one in document["proposals"]] == ["moved-from-vllm-utils"]
    (text,) = applied(folder / "moved-from-vllm-utils", {"my_plugin/__init__.py": TWO}).values()
    assert text.splitlines()[:5] == [
        b"try:",
        b"    from vllm.closing import close",
        b"    from vllm.a import launch",
        b"except ImportError:",
        b"    from vllm.utils import close, launch",
    ]


def test_what_does_not_hold_is_not_written(project):
    # The new function has another parameter.
    new = MOVED | {"vllm/closing.py": CLOSE.replace(b"handle)", b"handle, force)", 1)}
    files = {"my_plugin/__init__.py": IMPORTS["alone"]}
    folder, document = propose(project, write_plugin(project.folder, files), VLLM, new)
    (proposal,) = document["proposals"]
    assert proposal["folder"] is None
    assert "would break: call vllm.utils.close in 0.51.0" in proposal["text"]
    assert not folder.exists()


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        # It has no default, or one that is no literal; it moved nowhere, or nobody knows where.
        (VLLM, {CONFIG: b"class Config:\n    width: int = 1\n"}, b"c.depth"),
        (VLLM, {CONFIG: b"class Config:\n    depth: int\n    width: int = 4\n"}, b"c.names"),
        (VLLM, {UTILS: b""}, b"1"),
        (VLLM, {UTILS: b"", "vllm/a.py": CLOSE, "vllm/b.py": CLOSE}, b"1"),
        # The target sets it.
        (VLLM, {CONFIG: b"class Config:\n    depth: int\n"}, b"c.width\n    c.width = 1"),
    ],
)
def test_nothing_is_proposed_that_is_not_known(project, old, new, text):
    code = b"from vllm.config import Config\nfrom vllm.utils import close\n\n"
    code += b"def go(c: Config):\n    return " + text + b"\n"
    code = code.replace(b"return c.width\n", b"c.width\n")
    files = {"my_plugin/__init__.py": code}
    _, document = propose(project, write_plugin(project.folder, files), old, VLLM | new)
    assert document["proposals"] == []


def test_nothing_is_written_over(project):
    files = {"my_plugin/__init__.py": IMPORTS["alone"]}
    plugin = write_plugin(project.folder, files)
    (project.folder / "proposed" / "moved-from-vllm-utils").mkdir(parents=True)
    project.index.add("0.50.0", archive("0.50.0", VLLM))
    project.index.add("0.51.0", archive("0.51.0", MOVED))
    args = ("--vllm", "0.50.0,0.51.0", "--propose", project.folder / "proposed", "--json")
    run = project.run("compat", plugin, *args, code=2)
    assert run.json_errors[0]["code"] == "compat.proposal-exists"
    assert list((project.folder / "proposed" / "moved-from-vllm-utils").iterdir()) == []


def test_a_proposal_needs_a_base(project):
    project.index.add("0.50.0", archive("0.50.0", VLLM))
    plugin = write_plugin(project.folder, requires="")
    args = ("--vllm", "0.50.0", "--propose", project.folder / "proposed", "--json")
    assert project.run("compat", plugin, *args, code=2).json_errors[0]["code"] == (
        "cli.missing-option"
    )
