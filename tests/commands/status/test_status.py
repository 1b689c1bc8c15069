from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.documents import page
from tests.index_server import sdist
from tests.projects import (
    FILES,
    LLAMA,
    NAME_PROJ,
    NAMED,
    NO_SUCH,
    SLOW_MODE,
    VERSION,
    archive,
    write_tree,
)
from vpatch.source.resolve import open_tree
from vpatch.workspace import context

# The library claims to be needed in releases that are still to come, as these made-up ones are.
OWN = ("--patch", "name-proj")


def states(run):
    return {
        row["version"]: {d["patch"]: d["state"] for d in row["decisions"]}
        for row in run.json["trees"]
    }


def test_status_of_a_version(project):
    run = project.run("status", "--vllm", VERSION, *OWN, "--patch", "mtp-proj-prefix")
    lines = [line.split()[:2] for line in run.out.splitlines()[1:]]
    assert ["needed", "name-proj"] in lines
    assert ["absent", "mtp-proj-prefix"] in lines
    assert not (project.folder / ".vpatch").exists()


def test_status_of_several_versions_is_a_table(project):
    run = project.run("status", "--vllm", f"{VERSION},0.51", *OWN)
    lines = [line.split() for line in run.out.splitlines()]
    assert lines[:3] == [["0", "0"], ["50", "51"], ["vllm", "0", "0"]]
    assert lines[4] == ["name-proj", "N", "N"]
    assert "\x1b" not in run.out


def test_status_of_all_releases(project):
    project.index.add("0.19.0", archive("0.19.0"))
    project.index.add("0.52.0rc1", archive("0.52.0rc1"))
    project.index.add("0.50.1", archive("0.50.1"))
    project.index.yanked.add("vllm-0.50.1.tar.gz")
    run = project.run("status", "--all", *OWN, "--json")
    assert list(states(run)) == ["0.50.0", "0.51.0"]
    assert project.run("status", "--all", "--vllm", VERSION, code=2).err.startswith("error: --all")


@pytest.fixture
def recipe(project):
    """A recipe that pins a release, and lists two patches in an order of its own."""
    (project.folder / "recipes").mkdir()
    pin = f"{{source: {VERSION}, sha256: {'ab' * 32}}}"
    text = f"vllm: {pin}\npatches: [slow-mode, name-proj]\n"
    (project.folder / "recipes" / "mine.yaml").write_text(text)
    return project


def test_status_of_a_recipe_on_another_release(recipe):
    """The question before an upgrade: what do the patches that I carry mean there?"""
    recipe.patch("aside", NAME_PROJ)
    run = recipe.run("status", "--recipe", "mine", "--vllm", "0.51")
    assert run.out.splitlines()[0].endswith("  the patches of recipe mine")
    lines = [line.split()[:2] for line in run.out.splitlines()[1:]]
    assert lines == [["needed", "slow-mode"], ["needed", "name-proj"]]
    # The recipe's digest is that of its own pin.
    rows = recipe.run("status", "--recipe", "mine", "--vllm", f"{VERSION},0.51", "--json").json[
        "trees"
    ]
    assert [(row["version"], row["recipe"]) for row in rows] == [
        (VERSION, "mine"),
        ("0.51.0", "mine"),
    ]
    assert recipe.run("status", "--recipe", "mine", "--all", "--json").json["trees"] == rows
    recipe.run("apply", "--recipe", "mine", "--vllm", "0.51", code=2)


def test_status_of_a_recipe_that_does_not_fit_another_release(recipe):
    lost = {LLAMA: b"class Llama:\n    proj = None\n"}
    recipe.index.add("0.52.0", archive("0.52.0", lost))
    run = recipe.run("status", "--recipe", "mine", "--all", code=1)
    assert "name-proj in vllm 0.52.0: " in run.out
    why = recipe.run("status", "--recipe", "mine", "--vllm", "0.52", "--why", "name-proj", code=1)
    assert "name-proj is conflict" in why.out


def test_further_trees_of_a_recipe_are_shown_once(recipe):
    recipe.index.add("1.0.0", name="vllm-ascend")
    file = recipe.folder / "recipes" / "mine.yaml"
    file.write_text(file.read_text() + "trees: {vllm-ascend: 1.0.0}\n")
    run = recipe.run("status", "--recipe", "mine", "--all", "--json")
    assert [row["tree"] for row in run.json["trees"]] == ["vllm", "vllm-ascend", "vllm"]


def test_a_recipe_whose_own_source_is_gone_can_be_asked(recipe):
    file = recipe.folder / "recipes" / "mine.yaml"
    file.write_text("vllm: ../gone\npatches: [slow-mode]\n")
    run = recipe.run("status", "--recipe", "mine", "--vllm", VERSION)
    assert "needed      slow-mode" in run.out


def test_status_says_why(project):
    run = project.run("status", "--vllm", VERSION, "--why", "name-proj")
    assert ": what `concerns` names: there" in run.out
    assert "name-proj is needed" in run.out
    assert f"{LLAMA}:3: " in run.out
    assert "slow-mode" not in run.out


def test_why_is_asked_after_the_patches_before_it(recipe):
    recipe.patch("other-mode", SLOW_MODE.replace('"slow"', '"other"'))
    file = recipe.folder / "recipes" / "mine.yaml"
    file.write_text(f"vllm: {VERSION}\npatches: [slow-mode, other-mode]\n")
    stopped = recipe.run("apply", "--recipe", "mine", code=1)
    command = next(line for line in stopped.err.splitlines() if "--why" in line)
    assert "vpatch status --recipe mine --why other-mode" in command
    why = recipe.run("status", "--recipe", "mine", "--why", "other-mode", code=1)
    assert "other-mode is conflict" in why.out
    assert "slow-mode is" not in why.out
    # Alone, it fits.
    alone = recipe.run("status", "--vllm", VERSION, "--patch", "other-mode")
    assert "needed      other-mode" in alone.out


def test_status_says_why_not(project):
    project.patch("z-tail", NO_SUCH)
    run = project.run("status", "--vllm", VERSION, "--why", "z-tail", code=1)
    assert "z-tail is conflict" in run.out
    assert "expected 1, found 0" in run.out
    assert f"{LLAMA}:3: nearest: self.proj = Linear(4, 4" in run.out


def test_status_as_json(project):
    (row,) = project.run("status", "--vllm", VERSION, *OWN, "--json").json["trees"]
    decision = next(d for d in row["decisions"] if d["patch"] == "name-proj")
    assert decision["files"] == [LLAMA]
    assert decision["findings"] == []
    keys = {"tree", "kind", "version", "ref", "origin", "digest", "recipe", "decisions", "changed"}
    assert set(row) == keys


def test_status_with_a_conflict_ends_with_1(project):
    project.patch("z-tail", NO_SUCH)
    run = project.run("status", "--vllm", VERSION, "--json", code=1)
    assert states(run)[VERSION]["z-tail"] == "conflict"
    (row,) = run.json["trees"]
    lines = {one["patch"]: [f["line"] for f in one["findings"]] for one in row["decisions"]}
    assert lines["z-tail"] == [4, 3]
    assert lines["name-proj"] == []
    asked = ("status", "--vllm", VERSION, "--why", "name-proj", "--json")
    (decision,) = project.run(*asked).json["trees"][0]["decisions"]
    assert decision["findings"][-1]["line"] == 3


def test_status_with_a_wrong_claim_ends_with_1(empty):
    file = empty.patch("name-proj", NAME_PROJ) / "patch.yaml"
    file.write_text(file.read_text().replace(">=0.50", "<0.50"))
    run = empty.run("status", "--vllm", VERSION, code=1)
    assert "declared that it is not needed in vllm-0.50.0 ('<0.50'), but is needed" in run.out


@pytest.mark.parametrize("args", [[], ["--vllm", "x/y"], ["--vllm", VERSION, "--why", "nothing"]])
def test_status_used_wrongly(project, args):
    run = project.run("status", *args, code=2)
    assert run.err.count("error: ") == 1
    assert run.out == ""
    assert project.run("status", *args, "--json", code=2).json_errors


def test_status_of_what_is_known_is_the_same(project):
    first = project.run("status", "--vllm", f"{VERSION},0.51", *OWN, "--patch", "slow-mode")
    assert len(list((project.cache / "plans").iterdir())) == 2
    assert project.run("status", "--vllm", f"{VERSION},0.51", *OWN, "--patch", "slow-mode").out == (
        first.out
    )
    project.patch("name-proj", NO_SUCH)
    project.run("status", "--vllm", VERSION, *OWN, code=1)
    project.run("status", "--vllm", VERSION, *OWN, code=1)


@pytest.fixture
def opened(monkeypatch):
    """The trees that were opened."""
    calls = []

    def counting(spec, **options):
        calls.append(spec.version)
        return open_tree(spec, **options)

    monkeypatch.setattr(context, "open_tree", counting)
    return calls


def test_status_of_what_is_known_opens_no_tree(project, opened):
    asked = ("status", "--vllm", f"{VERSION},0.51.0", *OWN)
    first = project.run(*asked)
    assert opened == [VERSION, "0.51.0"]
    assert project.run(*asked).out == first.out
    assert len(opened) == 2
    # What an index means by a series is known, too, and JSON says no more where nothing stops.
    project.run("status", "--vllm", "0.51", *OWN)
    project.run(*asked, "--json")
    assert len(opened) == 2
    project.run(*asked, "--why", "name-proj")
    assert opened[2:] == [VERSION, "0.51.0"]


def test_status_of_what_is_not_known_mends_the_tree(project, opened):
    asked = ("status", "--vllm", VERSION, *OWN)
    known = project.run(*asked)
    damaged = next(project.cache.glob(f"trees/*/files/{LLAMA}"))
    damaged.write_text("cut")
    assert project.run(*asked).out == known.out
    assert damaged.read_text() == "cut"
    project.patch("name-proj", NAME_PROJ.replace("(...)", "(4, ...)"))
    run = project.run(*asked)
    assert "is damaged" in run.err
    assert "it is fetched again" in run.err
    assert run.out == known.out
    assert damaged.read_bytes() == FILES[LLAMA]
    assert opened == [VERSION, VERSION]


def test_a_known_tree_that_carries_a_patch_is_not_taken_for_the_release(project, opened):
    """Its plan is kept for what it carries, which only the tree tells."""
    lock = json.dumps({"patches": [{"id": "name-proj"}]}).encode()
    patched = FILES[LLAMA].replace(b"        self.proj = Linear(4, 4)  # narrow\n", NAMED)
    project.index.add("0.52.0", archive("0.52.0", {LLAMA: patched, "vpatch.lock": lock}))
    asked = ("status", "--vllm", "0.52.0", *OWN)
    for _ in range(2):
        assert "applied     name-proj" in project.run(*asked).out
    assert opened == ["0.52.0", "0.52.0"]


CODEMOD = """
import libcst as cst
from vpatch.codemods import SiteTransformer

class Codemod(SiteTransformer):
    kinds = (cst.Call,)

    def edit(self, original, updated):
        {code}
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            CODEMOD.format(code="return original.nothing"),
            ":9: the codemod fails: AttributeError: 'Call' object has no attribute 'nothing'",
        ),
        (CODEMOD.format(code="raise SystemExit(0)"), ":9: the codemod fails: SystemExit: 0"),
        (
            "import nowhere\n",
            ": cannot be imported: ModuleNotFoundError: No module named 'nowhere'",
        ),
        ("x = 1\n", ": defines no class Codemod(SiteTransformer)"),
    ],
)
def test_a_codemod_that_fails_hides_no_other_patch(project, text, said):
    folder = project.patch("slow-mode", "- {codemod: codemod.py, contains: [launch]}")
    (folder / "codemod.py").write_text(text)
    run = project.run("status", "--vllm", VERSION, "--trust", code=1)
    assert re.search("needed +name-proj", run.out)
    assert re.search(f"conflict +slow-mode +.*codemod.py{re.escape(said)}", run.out)
    assert " next: " in run.out
    run = project.run("apply", "--vllm", VERSION, "--trust", code=1)
    assert f"codemod.py{said}" in run.out
    assert "nothing was written: 1 patch cannot be applied" in run.err
    assert not project.target.exists()


DOES = """if original.func.value == "launch": self.add(original, todo=False)
        return updated"""


def test_a_codemod_that_is_remembered(project, opened):
    folder = project.patch("slow-mode", "- {codemod: codemod.py, contains: [launch]}")
    asked = ("status", "--vllm", VERSION, "--trust")
    (folder / "codemod.py").write_text(CODEMOD.format(code=DOES))
    outputs = {project.run(*asked, code=None).out for _ in range(2)}
    assert len(outputs) == 1
    assert opened == [VERSION]
    # Without trust, what was remembered with it is not taken.
    run = project.run("status", "--vllm", VERSION, code=1)
    assert re.search("untrusted +slow-mode", run.out)
    assert opened == [VERSION] * 2


def test_a_codemod_that_may_read_more_is_named_once(project, opened):
    folder = project.patch("slow-mode", "- {codemod: codemod.py, contains: [launch]}")
    (folder / "codemod.py").write_text("import time\n" + CODEMOD.format(code=DOES))
    notes = r"^note: patches/slow-mode/(.*)$"
    (shown,) = re.findall(notes, page("how-to/codemods.md"), re.MULTILINE)
    for _ in range(2):
        run = project.run("status", "--vllm", f"{VERSION},0.51", "--trust", code=None)
        assert run.err.count(shown) == 1
        before = len(opened)
        project.run("status", "--vllm", VERSION, "--trust", code=None)
        assert len(opened) == before + 1


def test_a_pattern_with_very_many_gaps_is_a_conflict(project):
    """It says nothing of the other patches."""
    names = ", ".join(f"x{number}" for number in range(60))
    tree = write_tree(project.folder / "tree", FILES | {"vllm/many.py": f"f({names})\n".encode()})
    gaps = ", ".join(f"..., $a{number}" for number in range(12))
    edit = f"- find: f({gaps}, ..., x0)\n  add-keyword: {{k: '1'}}\n"
    project.patch("third", edit)
    run = project.run("status", "--vllm", tree, "--patch", "third", "--patch", "name-proj", code=1)
    assert "too many ways to fill them" in run.out
    assert "needed      name-proj" in run.out


IMPORTS = """
import sys
from vpatch.main import main

try:
    main()
except SystemExit as end:
    print(end.code, sorted({"libcst", "pydantic", "ruamel.yaml"} & sys.modules.keys()))
"""


def test_status_of_what_is_known_imports_no_parser(project):
    asked = ("status", "--vllm", VERSION, "--patch", "mtp-proj-prefix")
    project.run(*asked)
    run = subprocess.run(
        [sys.executable, "-c", IMPORTS, *asked],
        cwd=project.folder,
        env=os.environ | project.env,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "absent      mtp-proj-prefix" in run.stdout
    assert run.stdout.endswith("\n0 []\n")


def test_a_cell_says_that_code_of_a_patch_changed_since_the_pin(recipe):
    """As `vpatch bump` compares it; a file that only moved makes no difference."""
    changed = FILES[LLAMA].replace(
        b"        self.head", b"        self.norm = 1\n        self.head"
    )
    recipe.index.add("0.51.0", archive("0.51.0", {LLAMA: changed}))
    files = {path: data for path, data in FILES.items() if path != LLAMA}
    moved = files | {"vllm/layers/llama.py": FILES[LLAMA]}
    recipe.index.add("0.52.0", sdist("0.52.0", moved))
    for patch_id in ("name-proj", "slow-mode"):
        recipe.run("test", patch_id, "--record")
    out = recipe.run("status", "--recipe", "mine", "--all").out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[4:6]}
    assert rows == {"name-proj": ["N", "N~", "N"], "slow-mode": ["N", "N", "N"]}
    told = "~ upstream changed code of the patch since vllm-0.50.0; vpatch bump --diff shows it"
    assert told in " ".join(out.split())
    trees = recipe.run("status", "--recipe", "mine", "--all", "--json").json["trees"]
    assert [tree["changed"] for tree in trees] == [None, ["name-proj"], []]
    trees = recipe.run("status", "--all", "--json").json["trees"]
    assert {str(tree["changed"]) for tree in trees} == {"None"}


def test_all_as_a_version_is_every_release(project):
    table = project.run("status", "--all", "--patch", "name-proj").out
    assert project.run("status", "--vllm", "all", "--patch", "name-proj").out == table
    run = project.run("status", "--vllm", "all", "--all", code=2)
    assert run.codes == ("cli.conflicting-options",)
    # One of several names is none of all.
    assert project.run("status", "--vllm", "0.50,all", code=2).codes == ("source.wrong-spec",)
