"""The real vLLM, from the user's own index and cache. The first run fetches about 700 MB."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.second_parser import differs
from vpatch.commands.bump.changes import ReleaseSide, changed_code
from vpatch.commands.bump.verdict import Verdict, judge
from vpatch.commands.status.usecase import status
from vpatch.planning.code_shape import Sureness
from vpatch.planning.names import ORDER, STATEMENT, plain_name
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.planning.view import View
from vpatch.source.cache import default_cache_folder
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context
from vpatch.workspace.plans import planned
from vpatch.workspace.selection import Request, with_required

pytestmark = pytest.mark.slow

# Fixed here: the same on any machine. The tree's id was made by tar and git alone.
PRISTINE = "fda3af306757947bfc9249da937d5905cd0dc49b"
BASE = "0c8c55590205d5caaf64c67affa39c99b04f9b84"
COMMITS = {
    "mtp-proj-prefix": "2c5e971b3910426f0ba9815ac51e2c56cb81a676",
    "cpu-spec-decode-fp64-gumbel": "1417ad1850bb010f3cbee7a9325aa213938df3df",
}
TWO = ("apply", "--vllm", "0.23.0", *(word for patch in COMMITS for word in ("--patch", patch)))
PREFIXES = ['+            prefix=f"{prefix}.e_proj",', '+            prefix=f"{prefix}.h_proj",']
DIFF = {
    "vllm/models/deepseek_v4/amd/mtp.py": PREFIXES,
    "vllm/models/deepseek_v4/nvidia/mtp.py": PREFIXES,
    "vllm/models/deepseek_v4/xpu/mtp.py": PREFIXES,
    "vllm/utils/cpu_triton_utils.py": [
        "+    USE_FP64_GUMBEL=False,",
        "-        inv_q,",
        "+        inv_q.to(torch.float32),",
    ],
}
# What each patch means for each release, read by hand: needed, upstreamed, absent.
PATCHES = {
    "P1": "mtp-proj-prefix",
    "P2": "optional-disable-inplace",
    "P3": "o-proj-bf16-fallback",
    "P4": "deepgemm-next-n-3",
    "P4c": "deepgemm-next-n-3-kernel",
    "P5a": "cpu-spec-decode-fp64-gumbel",
    "P5d": "cpu-spec-decode-expand-copy-back",
    "P6": "import-time-op-compat",
    "P7": "draft-hf-config-path",
    "G1": "gdn-accepted-count-bounds",
    "G2": "gdn-gates-of-spec-tokens",
    "G3": "mamba-align-chunks-with-drafts",
    "G4": "cpu-gdn-ragged-drafts",
    "G5": "cpu-gdn-zero-accepted",
    "M1": "gate-up-proj-mapping",
    "M2": "glm-ocr-mtp-names",
    "M3": "mtp-head-prefix",
    "M4": "deepseek-v4-quark-mtp",
    "C1": "cpu-spec-decode-synthetic-mode",
    "C2": "cpu-spec-decode-dispatched-kernels",
    "C3": "cpu-slot-mapping-block-size",
    "B1": "mamba-fewer-blocks",
    "B2": "mamba-state-shape-num-spec",
    "M5": "gemma4-mtp-shared-embeddings",
}
# Releases of vllm-ascend, and the file that P1 changes in each.
PLUGINS = {
    "0.23.0": "vllm_ascend/models/deepseek_v4_mtp.py",
    "0.30.0rc2": "vllm_ascend/models/deepseek_v4/mtp.py",
}
ON_REQUEST = {"P4c", "P6"}
# The release that the recipe vllm-0.23 pins.
RECIPE_OF = "0.23.0"
STATES = """
        P1 P2 P3 P4 P4c P5a P5d P6 P7 G1 G2 G3 G4 G5 M1 M2 M3 M4 C1 C2 C3 B1 B2 M5
0.20.0  n  a  n  n  n   a   n   n  n  n  n  n  a  a  n  a  n  a  n  a  a  n  n  a
0.20.1  n  a  n  n  n   a   n   n  n  n  n  n  a  a  n  a  n  a  n  a  a  n  n  a
0.20.2  n  a  n  n  n   a   n   n  n  n  n  n  a  a  n  a  n  a  n  a  a  n  n  a
0.21.0  n  a  n  n  n   a   n   n  n  n  n  n  a  a  n  a  n  a  u  a  a  n  n  a
0.22.0  n  a  n  n  n   a   n   n  n  n  n  n  a  a  n  a  n  a  u  a  a  n  n  a
0.22.1  n  a  n  n  n   a   n   n  n  n  n  n  a  a  n  a  n  a  u  a  a  n  n  a
0.23.0  n  a  n  n  n   n   n   n  n  n  n  n  a  a  n  a  n  a  u  a  a  u  n  a
0.24.0  u  a  n  n  n   n   n   n  n  n  n  n  a  a  n  a  n  a  u  a  a  u  n  a
0.25.0  u  a  n  n  a   u   n   n  n  n  n  n  a  a  u  a  n  a  u  a  a  u  n  n
0.25.1  u  a  n  n  a   u   n   n  n  n  n  n  a  a  u  a  n  a  u  a  a  u  n  n
0.26.0  u  a  n  n  a   u   n   n  n  n  n  n  n  n  u  n  n  a  u  a  a  u  n  n
0.27.0  u  a  n  n  a   u   n   n  n  n  n  u  n  n  u  n  n  a  u  a  a  u  n  u
0.27.1  u  a  n  n  a   u   n   n  n  n  n  u  n  n  u  n  n  a  u  a  a  u  n  u
0.28.0  u  a  n  n  a   u   n   n  n  n  u  u  n  n  u  n  n  n  u  a  a  u  n  u
0.29.0  u  a  n  n  a   u   n   n  n  n  u  u  n  n  u  n  n  n  u  a  a  u  n  u
0.30.0  u  a  u  n  a   u   n   n  n  n  u  u  n  n  u  u  n  n  u  n  a  u  n  u
0.31.0  u  a  u  n  a   u   n   n  n  n  u  u  n  n  u  u  n  n  u  a  a  u  n  u
0.32.0  u  a  u  n  a   u   n   n  n  n  u  u  n  n  u  u  n  n  u  a  n  u  u  u
0.33.0  u  a  u  n  a   u   n   n  n  n  u  u  u  n  u  u  n  u  u  a  u  u  u  u
"""
# What the step to each release means for each patch: keep, look again, retire, not needed; or
# look again at what is around its code.
VERDICTS = """
        P1 P2 P3 P4 P4c P5a P5d P6 P7 G1 G2 G3 G4 G5 M1 M2 M3 M4 C1 C2 C3 B1 B2 M5
0.20.1  l  k  l  k  k   k   k   k  k  k  k  k  k  k  k  k  a  k  k  k  k  k  k  k
0.20.2  k  k  k  k  k   k   k   k  k  k  k  k  k  k  k  k  k  k  k  k  k  l  k  k
0.21.0  l  k  l  l  l   k   k   l  l  l  l  k  k  k  k  k  a  k  r  k  k  k  k  k
0.22.0  l  k  l  l  l   k   k   l  l  a  l  k  k  k  k  k  a  k  r  k  k  l  a  k
0.22.1  k  k  k  k  k   k   k   k  k  k  k  k  k  k  k  k  k  k  r  k  k  k  k  k
0.23.0  l  k  l  k  k   l   l   l  l  k  l  l  k  k  k  k  k  k  r  k  k  r  k  k
0.24.0  r  k  l  l  l   l   l   l  k  k  a  l  k  k  l  k  a  k  r  k  k  r  l  k
0.25.0  r  k  k  l  n   r   l   l  l  a  l  a  k  k  r  k  l  k  r  k  k  r  k  l
0.25.1  r  k  k  k  n   r   k   k  k  k  k  k  k  k  r  k  k  k  r  k  k  r  k  k
0.26.0  r  k  k  l  n   r   l   l  l  k  l  l  l  l  r  l  a  k  r  k  k  r  k  k
0.27.0  r  k  l  l  n   r   l   l  l  l  l  r  l  l  r  l  l  k  r  k  k  r  l  r
0.27.1  r  k  k  k  n   r   k   k  k  k  k  r  k  k  r  k  k  k  r  k  k  r  k  r
0.28.0  r  k  l  l  n   r   k   l  l  k  r  r  l  k  r  l  a  l  r  k  k  r  k  r
0.29.0  r  k  l  l  n   r   l   l  l  a  r  r  l  k  r  l  a  l  r  k  k  r  a  r
0.30.0  r  k  r  l  n   r   l   l  l  l  r  r  l  k  r  r  a  l  r  l  k  r  l  r
0.31.0  r  k  r  l  n   r   l   l  l  l  r  r  l  l  r  r  l  l  r  n  k  r  l  r
0.32.0  r  k  r  l  n   r   k   l  k  l  r  r  l  l  r  r  k  l  r  n  l  r  r  r
0.33.0  r  k  r  l  n   r   l   a  l  l  r  r  r  l  r  r  l  r  r  n  r  r  r  r
"""
LETTERS = {"n": "needed", "u": "upstreamed", "a": "absent"}
_HEAD, *_ROWS = (line.split() for line in STATES.splitlines()[1:])
TABLE = {version: dict(zip(_HEAD, cells, strict=True)) for version, *cells in _ROWS}
_HEAD, *_ROWS = (line.split() for line in VERDICTS.splitlines()[1:])
STEPS = {version: dict(zip(_HEAD, cells, strict=True)) for version, *cells in _ROWS}
BY_LETTER = {
    "k": Verdict.KEEP,
    "l": Verdict.LOOK_AGAIN,
    "a": Verdict.LOOK_AGAIN,
    "r": Verdict.RETIRE,
    "n": Verdict.NOT_NEEDED,
}
GITCONFIG = """[user]
name = Somebody
email = s@example
[core]
autocrlf = true
hooksPath = {home}/hooks
excludesFile = {home}/everything
attributesFile = {home}/attributes
[commit]
gpgSign = true
[gpg]
program = /bin/false
[init]
defaultBranch = other
templateDir = {home}/templates
"""


def vpatch(folder, *args, env=None, umask=-1):
    run = subprocess.run(
        [sys.executable, "-m", "vpatch", *args],
        cwd=folder,
        env=os.environ | (env or {}),
        umask=umask,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def git(repo, *args):
    command = ["git", "-C", str(repo), *args]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release")
    vpatch(folder, *TWO)
    return folder / ".vpatch" / "vllm-0.23.0"


@pytest.fixture(scope="module")
def context():
    with Context() as opened:
        yield opened


@pytest.fixture(scope="module")
def decisions(context):
    """What `vpatch status --all` says of each release, by patch: what is recorded, if current.

    tests/test_decisions.py decides anew.
    """
    rows = status(context, context.releases(), Request())
    assert not any(row.has_findings for row in rows)
    return {row.plan.pin.version: {d.patch.id: d for d in row.plan.decisions} for row in rows}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What `vpatch status --json` shows."""
    trees = [word for version in PLUGINS for word in ("--tree", f"vllm-ascend=={version}")]
    folder = tmp_path_factory.mktemp("status")
    text = vpatch(folder, "status", "--vllm", "0.23.0", *trees, "--json")
    rows = json.loads(text)["result"]["trees"]
    return {
        (row["tree"], row["version"]): {d["patch"]: d for d in row["decisions"]} for row in rows
    }


def test_every_release_is_a_known_shape(decisions):
    new = [
        (version, patch_id)
        for version, found in decisions.items()
        for patch_id in PATCHES.values()
        if found[patch_id].new_shape
    ]
    assert new == []


@pytest.mark.parametrize(
    ("unseen", "chosen"),
    [
        ("0.33.0", "usual"),
        *(pytest.param(one, "usual", marks=pytest.mark.full) for one in list(TABLE)[:-1]),
        *(pytest.param(one, "security", marks=pytest.mark.full) for one in ("0.23.0", "0.33.0")),
    ],
)
def test_a_release_that_nobody_has_seen_is_marked_where_its_code_differs(context, unseen, chosen):
    """Hold a release out: what is recorded of the others alone decides."""
    patches = context.library.load(sorted(getattr(context.library, chosen)))
    held = [without(patch, unseen) for patch in patches]
    ids = [patch.id for patch in held]
    with context.tree(parse_vllm(unseen)) as tree:
        for decision in plan(held, tree, alone=ids, answers=context.answers).decisions:
            assert decision.sureness is not Sureness.ON_RECORD
            if not decision.shape.definitions:
                assert decision.is_unsure, decision.patch.id
            elif decision.new_shape:
                assert_new(context, decision, tree)
            else:
                assert_known(context, decision, tree)


def without(patch, release):
    """A patch as if nobody had recorded a release."""
    shapes = [
        shape.model_copy(update={"releases": left})
        for shape in patch.shapes.shapes["vllm"]
        if (left := tuple(one for one in shape.releases if one != release))
    ]
    archives = {k: v for k, v in patch.shapes.archives["vllm"].items() if k != release}
    update = {"shapes": {"vllm": tuple(shapes)}, "archives": {"vllm": archives}}
    return replace(patch, shapes=patch.shapes.model_copy(update=update))


def assert_new(context, decision, tree):
    """The definitions that are said to differ are those that another parser sees differ."""
    shape, recorded = decision.shape, decision.patch.shapes.shapes["vllm"]
    nearest = next(one for one in recorded if shape.nearest in one.releases)
    is_patched = nearest.state == State.NEEDED and decision.state is State.UPSTREAMED
    differing = {one.name for one in shape.differing if one.kind != "removed"}
    if not is_patched:
        with context.tree(parse_vllm(shape.nearest)) as other:
            keys = {key for key in shape.definitions if STATEMENT not in key}
            changed = {key for key in keys if differs(key, tree, other)}
        # Nobody can tell which of several with a name differs.
        named = set(map(plain_name, changed))
        assert named <= set(map(plain_name, differing)), decision.patch.id
        # What is only read in one of the two is the same in both, maybe.
        surely = {one.name for one in shape.differing if one.kind == "changed"} & keys
        assert set(map(plain_name, surely)) <= named, decision.patch.id
    assert shape.differing or nearest.state != decision.state, decision.patch.id


def assert_known(context, decision, tree):
    """Another parser sees the same code, and other code around it where that is said to differ."""
    shape = decision.shape
    states = {r: one.state for one in decision.patch.shapes.shapes["vllm"] for r in one.releases}
    # What the patch makes of a release has the code of one that has the fix, maybe.
    for release in (one for one in shape.known if states[one] == decision.state):
        with context.tree(parse_vllm(release)) as other:
            keys = [key for key in shape.definitions if STATEMENT not in key]
            assert not any(differs(key, tree, other) for key in keys), decision.patch.id
    if states[shape.compared_with] != decision.state:
        return
    with context.tree(parse_vllm(shape.compared_with)) as other:
        names = Counter(map(plain_name, shape.surroundings))
        for one in shape.around:
            name = plain_name(one.name)
            # What another module has, and not the code, is in no definition. Of several with a
            # name, nobody knows which one differs.
            has_code = name != ORDER and STATEMENT not in name
            if one.kind == "changed" and has_code and names[name] == 1:
                assert differs(one.name, tree, other), (decision.patch.id, one.name)


def test_two_commits_on_the_pristine_release(checkout):
    log = git(checkout, "log", "--format=%H %P").split("\n")[:-1]
    first, second = COMMITS.values()
    assert log == [f"{second} {first}", f"{first} {BASE}", f"{BASE} "]
    assert git(checkout, "rev-parse", f"{BASE}^{{tree}}").strip() == PRISTINE
    assert git(checkout, "status", "--porcelain") == ""
    for patch_id, commit in COMMITS.items():
        trailers = git(checkout, "log", "-1", "--format=%(trailers)", commit).splitlines()
        keys = [trailer.partition(": ")[0] for trailer in trailers if trailer]
        assert keys == ["Vpatch-Id", "Vpatch-Digest", "Vpatch-Variant"]
        assert trailers[0] == f"Vpatch-Id: {patch_id}"


def test_nothing_but_the_intended_lines_differs(checkout):
    assert git(checkout, "diff", "--name-only", BASE, "HEAD").split() == sorted(DIFF)
    for path, lines in DIFF.items():
        diff = git(checkout, "diff", "-U0", "--no-color", BASE, "HEAD", "--", path).splitlines()
        changed = [line for line in diff if line[:1] in "+-" and line[:3] not in {"+++", "---"}]
        assert changed == lines
        ast.parse((checkout / path).read_bytes())


def test_every_other_file_is_that_of_the_archive(checkout):
    (entry,) = (default_cache_folder() / "trees").glob("vllm-0.23.0-760269db3d96")
    files = [path for path in git(checkout, "ls-files", "-z").split("\0") if path]
    assert len(files) > 4000
    other = [path for path in files if path not in DIFF]
    assert all(
        (checkout / path).read_bytes() == (entry / "files" / path).read_bytes() for path in other
    )
    assert len(files) == sum(path.is_file() for path in (entry / "files").rglob("*"))


def test_the_prefix_is_in_the_calls(checkout):
    """By Python's own parser: each projection of each vendor is named after itself."""
    for path in list(DIFF)[:3]:
        calls = {
            ast.unparse(node.targets[0]): {k.arg: ast.unparse(k.value) for k in node.value.keywords}
            for node in ast.walk(ast.parse((checkout / path).read_text()))
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        }
        for name in ("e_proj", "h_proj"):
            assert calls[f"self.{name}"]["prefix"] == f"f'{{prefix}}.{name}'"


def test_hostile_settings_give_the_same_commits(checkout, tmp_path):
    home = tmp_path / "home"
    for folder in ("hooks", "templates/hooks"):
        (home / folder).mkdir(parents=True)
        for name in ("post-checkout", "reference-transaction"):
            (home / folder / name).write_text(f"#!/bin/sh\ntouch {home}/hooked\nexit 1\n")
            (home / folder / name).chmod(0o755)
    (home / ".gitconfig").write_text(GITCONFIG.format(home=home))
    (home / "everything").write_text("*\n")
    (home / "attributes").write_text("* text eol=crlf ident\n")
    # The tree, without the base repository that an innocent user made of it.
    (entry,) = (default_cache_folder() / "trees").glob("vllm-0.23.0-760269db3d96")
    cache = tmp_path / "cache"
    shutil.copytree(
        entry,
        cache / "trees" / entry.name,
        copy_function=os.link,
        ignore=shutil.ignore_patterns("repo.git", "repo.lock"),
    )
    env = {
        "HOME": str(home),
        "VPATCH_CACHE_DIR": str(cache),
        "GIT_DIR": str(home / "elsewhere"),
        "GIT_INDEX_FILE": str(home / "index"),
        "GIT_AUTHOR_NAME": "Somebody",
        "GIT_COMMITTER_DATE": "2001-01-01T00:00:00",
        "TZ": "Asia/Tokyo",
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "C",
    }
    vpatch(tmp_path, *TWO, "--offline", env=env, umask=0o077)
    other = tmp_path / ".vpatch" / "vllm-0.23.0"
    assert (other / "vpatch.lock").read_bytes() == (checkout / "vpatch.lock").read_bytes()
    assert git(other, "rev-parse", "HEAD").strip() == list(COMMITS.values())[-1]
    assert not (home / "hooked").exists()
    assert not (home / "elsewhere").exists()
    assert (other / "vllm/utils/cpu_triton_utils.py").read_bytes() == (
        checkout / "vllm/utils/cpu_triton_utils.py"
    ).read_bytes()


def wanted_states(version):
    return {PATCHES[column]: LETTERS[letter] for column, letter in TABLE[version].items()}


def test_status_of_all_releases(decisions):
    assert list(decisions) == list(TABLE)
    for version, found in decisions.items():
        assert {i: str(d.state) for i, d in found.items()} == wanted_states(version), version
        assert {d.disagreement for d in found.values()} == {None}, version


def test_status_as_json_says_the_same(shown, decisions):
    found = shown["vllm", "0.23.0"]
    assert {i: d["state"] for i, d in found.items()} == wanted_states("0.23.0")
    for i, d in found.items():
        assert (d["disagreement"], d["new_shape"]) == (None, False)
        assert d["shape"]["definitions"] == dict(decisions["0.23.0"][i].shape.definitions)


@pytest.fixture(scope="module")
def steps(context, decisions):
    """What each step from a release to the next one means for each patch."""
    found = {}
    with ExitStack() as stack:
        trees = [stack.enter_context(context.tree(parse_vllm(version))) for version in TABLE]
        views = [View(tree, answers=context.answers) for tree in trees]
        for (old, new), (was, now) in zip(
            pairwise(views), pairwise(decisions.values()), strict=True
        ):
            found[new.tree.pin.version] = {
                i: judge(
                    was[i],
                    now[i],
                    (old.tree.pin, new.tree.pin),
                    changed_code(ReleaseSide(was[i], old), ReleaseSide(now[i], new)),
                )
                for i in was
            }
    return found


def test_every_step_has_the_right_verdict(steps):
    found = {
        version: {i: one.verdict for i, one in step.items()} for version, step in steps.items()
    }
    for version, row in STEPS.items():
        wanted = {PATCHES[column]: BY_LETTER[letter] for column, letter in row.items()}
        assert found[version] == wanted, version
    assert found.keys() == STEPS.keys()


def test_a_step_that_is_kept_has_the_same_code_by_another_parser(context, steps):
    """And one to look at again differs: `ast.unparse` says so, and not vpatch's digests."""
    for old, new in pairwise(TABLE):
        with context.tree(parse_vllm(old)) as before, context.tree(parse_vllm(new)) as after:
            for one in steps[new].values():
                if {one.old.state, one.new.state} != {State.NEEDED}:
                    continue
                ours = [k for k in one.new.shape.definitions if STATEMENT not in k]
                same = not any(differs(key, after, before) for key in ours)
                # Upstream may have cured a place, so that the patch reads less than before.
                theirs = [k for k in one.old.shape.definitions if STATEMENT not in k]
                same = same and not any(differs(key, before, after) for key in theirs)
                differing = [code for code in one.changed if code.kind != "moved"]
                is_around = bool(differing) and all(code.around for code in differing)
                assert same == (one.verdict is Verdict.KEEP or is_around), (new, one.id)


@pytest.mark.parametrize("version", TABLE)
def test_apply_to_every_release(version, tmp_path):
    row = TABLE[version]
    wanted = {PATCHES[c] for c, letter in row.items() if letter == "n"} - {
        PATCHES[c] for c in ON_REQUEST
    }
    # The recipe of a series has fewer.
    named = sorted(wanted) if version == RECIPE_OF else ()
    vpatch(tmp_path, "apply", "--vllm", version, *(f"--patch={one}" for one in named))
    folder = tmp_path / ".vpatch" / f"vllm-{version}"
    lock = json.loads((folder / "vpatch.lock").read_text())
    assert {patch["id"] for patch in lock["patches"]} == wanted
    assert int(git(folder, "rev-list", "--count", "HEAD")) == 1 + len(wanted)
    assert git(folder, "status", "--porcelain") == ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for file in lock["files"]:
            compile((folder / file["path"]).read_bytes(), file["path"], "exec", dont_inherit=True)


@pytest.mark.parametrize("version", [v for v, row in TABLE.items() if row["P4c"] == "n"])
def test_the_kernel_patch_on_request(context, version):
    with context.tree(parse_vllm(version)) as tree:
        patches = with_required([PATCHES["P4c"]], context.library)
        made = planned(context, patches, tree, to_write=True)
    (decision,) = [one for one in made.decisions if one.patch.id == PATCHES["P4c"]]
    assert decision in made.taken
    names = sorted(decision.changes)
    assert names == [
        "cmake/external_projects/deepgemm.cmake",
        "tools/install_deepgemm.sh",
        "vllm/v1/attention/backends/mla/indexer.py",
    ]
    _, script, module = (decision.changes[name].after for name in names)
    subprocess.run(["bash", "-n"], input=script, check=True)
    ast.parse(module)


@pytest.mark.parametrize(("version", "path"), PLUGINS.items())
def test_status_of_a_plugin(shown, version, path):
    decision = shown["vllm-ascend", version]["mtp-proj-prefix"]
    assert decision["state"] == "needed"
    assert decision["files"] == [path]


@pytest.mark.parametrize("version", PLUGINS)
def test_apply_to_a_plugin(version, tmp_path):
    vpatch(tmp_path, "apply", "--tree", f"vllm-ascend=={version}")
    folder = tmp_path / ".vpatch" / f"vllm-ascend-{version}"
    lock = json.loads((folder / "vpatch.lock").read_text())
    assert [patch["id"] for patch in lock["patches"]] == [
        "gdn-accepted-count-bounds",
        "mtp-proj-prefix",
    ]
    paths = [file["path"] for file in lock["files"]]
    assert PLUGINS[version] in paths
    source = (folder / PLUGINS[version]).read_text()
    assert 'prefix=f"{prefix}.e_proj"' in source
    assert 'prefix=f"{prefix}.h_proj"' in source
    for path in paths:
        ast.parse((folder / path).read_text())
