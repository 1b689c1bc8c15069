from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers import patch_of, tree_of, write_patch
from vpatch.library.loading import load_patch
from vpatch.library.shapes import KnownShape, Shapes, write_shapes
from vpatch.planning import plan as planning
from vpatch.planning import plan_cache
from vpatch.planning.plan import plan
from vpatch.planning.plan_cache import cached_plan, kept_plan, reasons_to_decide_anew
from vpatch.planning.state import Change, State
from vpatch.trust.decision import EVERYTHING, Trust
from vpatch.trust.store import Store, content_of

EDIT = {"find": "f($x)", "rewrite": "g($x)"}
FILES = {"vllm/m.py": "f(1)\n"}


@pytest.fixture
def patch(tmp_path):
    return patch_of(tmp_path, edits=[EDIT])


@pytest.fixture
def made(monkeypatch):
    """How often a plan was really made."""
    calls = []
    monkeypatch.setattr(
        planning, "plan", lambda *args, **options: (calls.append(1), plan(*args, **options))[1]
    )
    return calls


def remembered(tmp_path, *patches, files=FILES, to_write=True, alone=(), **pin):
    tree = tree_of(files, **pin)
    return cached_plan(tmp_path / "memo", patches, tree, to_write=to_write, alone=alone)


def test_a_plan_is_made_once(tmp_path, patch, made):
    first, second = (remembered(tmp_path, patch) for _ in range(2))
    assert len(made) == 1
    assert second == first
    (decision,) = second.decisions
    assert (decision.state, decision.reason) == (State.NEEDED, "1 place to edit in 1 file")
    assert decision.patch is patch
    assert decision.changes == {"vllm/m.py": Change(b"f(1)\n", b"g(1)\n")}


def test_who_waits_for_a_plan_is_told_before_it_is_made(tmp_path, patch, made):
    told = []
    for _ in range(2):
        cached_plan(
            tmp_path / "memo",
            [patch],
            tree_of(FILES),
            to_write=True,
            answers=lambda: told.append(len(made)),
        )
    assert told == [0]


def test_changes_build_on_each_other(tmp_path, patch, made):
    new = {"add-file": "vllm/n.py", "from": "n.py"}
    again = {"find": "g($x)", "rewrite": "h($x)"}
    second = patch_of(
        tmp_path,
        "second",
        edits=[again, new],
        files={"n.py": "\u00e9 = 1\n"},
        concerns={"text": "("},
    )
    remembered(tmp_path, patch, second)
    plan = remembered(tmp_path, patch, second)
    assert len(made) == 1
    assert plan.decisions[1].changes == {
        "vllm/m.py": Change(b"g(1)\n", b"h(1)\n"),
        "vllm/n.py": Change(None, "\u00e9 = 1\n".encode()),
    }


@pytest.mark.parametrize("alone", [(), ("fix",), ("second",), ("fix", "second")])
def test_changes_of_patches_that_are_decided_alone(tmp_path, patch, made, alone):
    """Two patches change one file; each that is alone starts from the file as it is."""
    other = patch_of(
        tmp_path, "second", edits=[{"find": "k($x)", "rewrite": "l($x)"}], concerns={"text": "k("}
    )
    files = {"vllm/m.py": "f(1)\nk(1)\n"}
    first, again = (remembered(tmp_path, patch, other, files=files, alone=alone) for _ in range(2))
    assert len(made) == 1
    assert again == first
    expected = b"g(1)\nk(1)\n" if not alone else files["vllm/m.py"].encode()
    assert again.decisions[1].changes["vllm/m.py"].before == expected


def test_a_plan_that_is_only_shown_has_no_changes(tmp_path, patch, made):
    remembered(tmp_path, patch, to_write=False)
    (decision,) = remembered(tmp_path, patch, to_write=False).decisions
    assert (decision.state, decision.changes) == (State.NEEDED, {})
    assert remembered(tmp_path, patch).decisions[0].changes
    assert len(made) == 2


def test_nothing_is_known_of_anything_else(tmp_path, patch, made, monkeypatch):
    remembered(tmp_path, patch)
    other = patch_of(tmp_path / "other", edits=[EDIT], title="Another")
    remembered(tmp_path, other)
    remembered(tmp_path, patch, alone={"fix"})
    remembered(tmp_path, patch, version="0.24.0")
    remembered(tmp_path, patch, carried=["fix"])
    monkeypatch.setattr(plan_cache, "code_digest", lambda: "other code")
    remembered(tmp_path, patch)
    assert len(made) == 6
    remembered(tmp_path, patch)
    assert len(made) == 6


def test_another_content_is_another_tree(patch):
    # What tells contents apart is the pin's digest, which the sources take of them.
    tree = tree_of(FILES)
    other = replace(tree, pin=replace(tree.pin, digest="sha256:1"))
    keys = {plan_cache._key([patch], one.pin, (), True, "all", (), False) for one in (tree, other)}
    assert len(keys) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-5],
        lambda _: "[{}]",
        lambda _: '{"a": 1}',
        lambda _: "[1]",
        lambda _: "",
        lambda text: text.replace("needed", "wanted"),
        lambda text: text.replace("ZygxKQo=", "ZygyKQo="),  # g(1) and g(2)
        lambda text: text.replace("ZygxKQo", "ZygxKQp"),
        lambda text: text.partition("\n")[0] + "\n[]",
    ],
)
def test_what_is_damaged_is_made_again(tmp_path, patch, made, damage):
    first = remembered(tmp_path, patch)
    (file,) = (tmp_path / "memo").iterdir()
    text = file.read_text()
    assert damage(text) != text
    file.write_text(damage(text))
    assert remembered(tmp_path, patch) == first
    assert len(made) == 2
    assert file.read_text() == text


def test_findings_are_kept_too(tmp_path, patch, made):
    files = {"vllm/m.py": "f(1)\nf(2)\n"}
    plans = [remembered(tmp_path, patch, files=files) for _ in range(2)]
    assert plans[0].decisions[0].findings
    assert plans[1].decisions[0].findings == plans[0].decisions[0].findings
    assert len(made) == 1


def test_a_folder_that_cannot_be_written(tmp_path, patch, made):
    (tmp_path / "memo").write_text("a file is in the way")
    for _ in range(2):
        assert remembered(tmp_path, patch).decisions[0].state is State.NEEDED
    assert len(made) == 2


READS = """
from pathlib import Path
import libcst as cst
from vpatch.codemods import SiteTransformer

class Codemod(SiteTransformer):
    kinds = (cst.Integer,)

    def edit(self, original, updated):
        new = (Path(__file__).parent / "new.txt").read_text()
        self.add(original, todo=updated.value != new)
        return updated.with_changes(value=new)
"""


CODEMODS = [{"codemod": "codemod.py", "contains": ["f"]}]


def test_what_a_codemod_may_have_read_is_not_known(tmp_path, made):
    patch = patch_of(tmp_path, edits=CODEMODS, files={"codemod.py": READS, "new.txt": "2"})
    assert remembered(tmp_path, patch).decisions[0].changes["vllm/m.py"].after == b"f(2)\n"
    (patch.folder / "new.txt").write_text("3")
    # As another process would: one runs a codemod from a copy that stays as it is.
    patch = anew(patch)
    assert remembered(tmp_path, patch).decisions[0].changes["vllm/m.py"].after == b"f(3)\n"
    assert len(made) == 2
    assert kept_plan(tmp_path / "memo", [patch], tree_of(FILES).pin) is None
    (reason,) = reasons_to_decide_anew([patch])
    assert reason.startswith(f"{patch.folder / 'codemod.py'}:2: it imports pathlib, so vpatch ")


@pytest.mark.parametrize(
    "reads", ["open('new.txt').read()", "os.environ['NEW']", "str(time.time_ns())"]
)
def test_a_codemod_that_reads_more_is_not_remembered_and_named(tmp_path, made, reads, caplog):
    caplog.set_level("INFO")
    text = OWN.replace("from myplan.new import NEW", "import os, time").replace("NEW,", f"{reads},")
    patch = patch_of(tmp_path, edits=CODEMODS, files={"codemod.py": text})
    for _ in range(2):
        cached_plan(tmp_path / "memo", [patch], tree_of({"vllm/m.py": "g()\n"}), to_write=True)
    assert len(made) == 2
    assert f"{patch.folder / 'codemod.py'}:4: it imports os, so vpatch cannot" in caplog.text


# It changes each 1 to what it imports.
OWN = """
import libcst as cst
from vpatch.codemods import SiteTransformer
from myplan.new import NEW

class Codemod(SiteTransformer):
    kinds = (cst.Integer,)

    def edit(self, original, updated):
        self.add(original, todo=updated.value == "1")
        return updated.with_changes(value=NEW, lpar=updated.lpar)
"""


def anew(patch, trust=None):
    """The patch, as another process reads it."""
    return load_patch(patch.folder, trust or Trust(None, everything=True))


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A patch whose codemod imports a module that imports another."""
    write(
        tmp_path / "site", {"__init__": "", "new": "from .base import NEW\n", "base": "NEW = '2'"}
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    return patch_of(tmp_path, edits=CODEMODS, files={"codemod.py": OWN})


def write(folder, modules):
    for name, text in modules.items():
        file = folder / "myplan" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_a_plan_with_a_codemod_is_made_once(tmp_path, own, made):
    first, second = (remembered(tmp_path, anew(own)) for _ in range(2))
    assert len(made) == 1
    assert second.decisions[0].changes == first.decisions[0].changes
    assert first.decisions[0].changes["vllm/m.py"].after == b"f(2)\n"
    assert reasons_to_decide_anew([own]) == []
    tree = tree_of(FILES)
    assert kept_plan(tmp_path / "memo", [own], tree.pin) is None
    remembered(tmp_path, own, to_write=False)
    assert kept_plan(tmp_path / "memo", [own], tree.pin).decisions[0].state is State.NEEDED


def after(tmp_path, patch):
    return remembered(tmp_path, anew(patch)).decisions[0].changes["vllm/m.py"].after.decode()


def test_the_decision_follows_codemod_py_and_what_it_imports(tmp_path, own, made, monkeypatch):
    site = tmp_path / "site"
    assert after(tmp_path, own) == "f(2)\n"
    (own.folder / "codemod.py").write_text(OWN.replace("value=NEW", "value='3'"))
    assert after(tmp_path, own) == "f(3)\n"
    (own.folder / "codemod.py").write_text(OWN)
    assert after(tmp_path, own) == "f(2)\n"
    assert len(made) == 2
    write(site, {"base": "NEW = '4'"})
    assert after(tmp_path, own) == "f(4)\n"
    write(site, {"new": "NEW = '5'"})
    assert after(tmp_path, own) == "f(5)\n"
    # Another module of this name is found first.
    write(tmp_path / "first", {"__init__": "", "new": "NEW = '6'"})
    monkeypatch.syspath_prepend(tmp_path / "first")
    assert after(tmp_path, own) == "f(6)\n"
    assert len(made) == 5


def test_the_decision_follows_trust(tmp_path, own, made):
    trust = Trust(Store(tmp_path / "trust"))
    states = []
    for trusts in (False, True, False, True):
        if trusts:
            digest = content_of(own.folder).digest
            trust.store.add("path", str(own.folder.resolve()), digest)
        else:
            trust.store.remove("path", str(own.folder.resolve()))
        # As in another process: a copy that may run stays until the end of a run.
        patch = anew(own, Trust(trust.store))
        states.append(remembered(tmp_path, patch).decisions[0].state)
    assert states == [State.UNTRUSTED, State.NEEDED] * 2
    assert len(made) == 2
    # What was trusted is not what is there now.
    (own.folder / "notes.md").write_text("new")
    decision = remembered(tmp_path, anew(own, Trust(trust.store))).decisions[0]
    assert decision.state is State.UNTRUSTED
    assert "it changed since you trusted it" in decision.reason


def test_a_refusal_stays_while_a_plan_is_made(tmp_path, own):
    """Else a plan that ran the code could be kept under the name of one that did not."""
    store = Store(tmp_path / "trust")
    patch = anew(own, Trust(store))
    assert patch.variants[0].edits[0].codemod.refusal is not None
    store.add("path", str(own.folder.resolve()), content_of(own.folder).digest)
    assert remembered(tmp_path, patch).decisions[0].state is State.UNTRUSTED


@pytest.mark.parametrize(
    ("edit", "before"),
    [
        ({"insert": {"from": "new.py", "name": "g"}, "before": "f($x)"}, "f(1)\n"),
        (
            {
                "find": "def g(): ...",
                "replace-body": {"from": "new.py", "name": "g"},
                "having": "f(1)",
            },
            "def g():\n    f(1)\n",
        ),
        ({"add-file": "vllm/n.py", "from": "new.py"}, "f(1)\n"),
    ],
)
def test_the_decision_follows_what_edits_read(tmp_path, made, edit, before):
    for value in ("2", "3", "3"):
        text = f"def g():\n    return {value}\n"
        patch = patch_of(tmp_path, edits=[edit], files={"new.py": text})
        plan = remembered(tmp_path, patch, files={"vllm/m.py": before})
        changed = b"".join(change.after for change in plan.decisions[0].changes.values())
        assert f"return {value}".encode() in changed
    assert len(made) == 2


def test_the_decision_follows_patch_yaml_and_shapes_json(tmp_path, made):
    write_patch(tmp_path, edits=[EDIT])
    contents = []
    for rewrite in ("g($x)", "h($x)"):
        write_patch(tmp_path, edits=[{**EDIT, "rewrite": rewrite}])
        plan = remembered(tmp_path, load_patch(tmp_path / "fix", EVERYTHING))
        contents.append(plan.decisions[0].changes["vllm/m.py"].after)
    assert contents == [b"g(1)\n", b"h(1)\n"]
    patch = load_patch(tmp_path / "fix", EVERYTHING)
    definitions = dict(plan.decisions[0].shape.definitions)
    known = KnownShape(
        releases=("0.23.0",), state=State.NEEDED, variant=None, definitions=definitions
    )
    write_shapes(patch.folder, Shapes(patch_digest=patch.digest, shapes={"vllm": (known,)}))
    for _ in range(2):
        patch = load_patch(tmp_path / "fix", EVERYTHING)
        assert remembered(tmp_path, patch).decisions[0].shape.known == ("0.23.0",)
    assert len(made) == 3
