"""`vpatch import --tree`: patches of plugins and libraries."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from tests.index_server import sdist
from tests.projects import git, write_tree

NAME = "vllm-tiny"
PATH = "vllm_tiny/worker.py"
CODE = b'def start(config):\n    return launch(config, mode="fast")\n'


def files(version="1.0.0", code=CODE):
    return {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n".encode(),
        "vllm_tiny/__init__.py": b"",
        "tests/__init__.py": b"",
        PATH: code,
    }


DIFF = f"""\
--- a/{PATH}
+++ b/{PATH}
@@ -1,2 +1,2 @@
 def start(config):
-    return launch(config, mode="fast")
+    return launch(config, mode="slow")
"""
SLOW = CODE.replace(b"fast", b"slow")


@pytest.fixture
def plugged(empty):
    """A project beside two releases of a plugin; the second one has DIFF."""
    for version, code in (("1.0.0", CODE), ("1.1.0", SLOW)):
        empty.index.add(version, sdist(version, files(version, code)), name=NAME)
    (empty.folder / "fix.diff").write_text(DIFF)
    return empty


def declared(project):
    return YAML(typ="safe").load((project.patches / "fix" / "patch.yaml").read_text())


@pytest.mark.parametrize(
    "diff",
    [
        DIFF,
        # As it was made in a checkout of the plugin that lies in a folder, or in a site-packages.
        DIFF.replace("a/vllm_tiny", "a/work/vllm_tiny").replace("b/vllm_tiny", "b/work/vllm_tiny"),
        DIFF.replace("a/vllm_tiny", "/opt/lib/site-packages/vllm_tiny"),
    ],
)
def test_a_diff_of_a_plugin_becomes_its_patch(plugged, diff):
    (plugged.folder / "fix.diff").write_text(diff)
    args = ("fix.diff", "--tree", f"{NAME}==1.0", "--releases", "1.1", "--examples")
    run = plugged.run("import", *args)
    lines = [line.split()[:2] for line in run.out.splitlines() if "git apply" in line]
    assert lines == [["1.1.0", "upstreamed"]]
    assert declared(plugged)["needed-in"] == {NAME: ">=1.0.0,<1.1.0"}
    assert declared(plugged)["concerns"] == {"find": "def start(...): ..."}
    plugged.run("apply", "--tree", f"{NAME}==1.0.0", "--patch", "fix")
    checkout = plugged.folder / ".vpatch" / f"{NAME}-1.0.0"
    assert (checkout / PATH).read_bytes() == SLOW
    assert "1 of 1 example holds" in plugged.run("test", "fix").out


def test_a_change_that_the_release_of_a_plugin_has_is_for_those_before(plugged):
    run = plugged.run("import", "fix.diff", "--tree", f"{NAME}==1.1.0", "--releases", "1.0.0")
    assert "1.1.0 has this change already" in run.out
    assert declared(plugged)["needed-in"] == {NAME: ">=1.0.0,<1.1.0"}


def source(plugged, kind):
    """Write a source of a kind, and return how the command line names it."""
    mine = write_tree(plugged.folder / "mine", files(code=SLOW))
    if kind == "site-packages":
        (mine / "PKG-INFO").unlink()
        return "--from-tree", "mine"
    if kind == "tree":
        return "--from-tree", "mine"
    (plugged.folder / "patches.py").write_text(
        "from vllm_tiny import worker\nworker.start = lambda config: 1\n"
    )
    return "--from-module", "patches.py"


@pytest.mark.parametrize("kind", ["tree", "site-packages", "module"])
def test_the_other_sources_take_a_tree_too(plugged, kind):
    args = (*source(plugged, kind), "--tree", f"{NAME}==1.0.0", "--id", "fix")
    plugged.run("import", *args, "--releases", "none")
    assert list(declared(plugged)["needed-in"]) == [NAME]
    plugged.run("apply", "--tree", f"{NAME}==1.0.0", "--patch", "fix")


@pytest.mark.parametrize("form", ["folder", "tag", "wheel"])
def test_a_tree_may_be_a_folder_or_a_tag(plugged, form):
    tree = files()
    if form == "wheel":
        tree["vllm_tiny-1.0.0.dist-info/METADATA"] = tree.pop("PKG-INFO")
    write_tree(plugged.folder / "tiny", tree)
    place = "./tiny"
    if form == "tag":
        git(plugged.folder / "tiny", "init", "--quiet")
        git(plugged.folder / "tiny", "add", "--all", "--force")
        git(plugged.folder / "tiny", "commit", "--quiet", "--message", "one")
        git(plugged.folder / "tiny", "tag", "v1.0.0")
        place = "./tiny@v1.0.0"
    args = ("fix.diff", "--tree", f"{NAME}={place}", "--releases", "none")
    plugged.run("import", *args)
    assert declared(plugged)["needed-in"] == {NAME: ">=1.0.0"}


def test_a_patch_of_a_plugin_is_lifted(plugged):
    args = ("fix.diff", "--tree", f"{NAME}==1.0.0", "--releases", "none", "--text")
    plugged.run("import", *args)
    run = plugged.run("import", "--lift", "fix", "--tree", f"{NAME}==1.0.0")
    assert "1 of 1 edit by text lifted" in run.out
    run = plugged.run("import", "--lift", "fix", "--vllm", "0.50.0", code=2)
    assert run.codes == ("library.wrong-tree",)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ((), "cli.missing-option", "missing option '--vllm'"),
        (("--vllm", "0.50.0", "--tree", f"{NAME}==1.0.0"), "cli.conflicting-options", "both name"),
        (("--tree", NAME), "source.wrong-spec", "it does not name a tree and a source"),
        (("--tree", f"{NAME}==9.9"), "source.no-such-release", "9.9"),
        (("--tree", f"{NAME}==1.0.0", "--releases", "all"), "cli.bad-value", "is for vLLM"),
        (("--tree", f"{NAME}=./plain"), "cli.bad-value", "PATH@TAG"),
        (("--tree", "acme=./src"), "source.wrong-tree", "--tree acme=./FOLDER"),
        (("--tree", "acme==1.0.0"), "source.wrong-tree", "unpack a wheel of acme"),
    ],
)
def test_a_tree_that_cannot_be_taken_says_what_to_do(plugged, args, code, said):
    plain = files()
    plain["setup.cfg"] = b"[metadata]\nname = vllm-tiny\n"
    del plain["PKG-INFO"]
    write_tree(plugged.folder / "plain", plain)
    sources = {"PKG-INFO": b"Name: acme\nVersion: 1.0.0\n", "src/acme/__init__.py": b""}
    sources |= {"tests/__init__.py": b""}
    write_tree(plugged.folder / "src", sources)
    plugged.index.add("1.0.0", sdist("1.0.0", sources), name="acme")
    run = plugged.run("import", "fix.diff", *args, code=2)
    assert run.codes == (code,)
    assert said in run.err
