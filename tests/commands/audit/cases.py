"""A vLLM with a hole, its patch, and what is recorded of both."""

from __future__ import annotations

from dataclasses import replace

from tests.helpers import tree_of
from tests.projects import SLOW_MODE, write_patch
from tests.records import archive_of, with_surroundings
from vpatch.library.advisories import Advisory
from vpatch.library.loading import load_patch
from vpatch.library.shapes import BehaviourOnRelease, KnownShape, Shapes
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.trust.decision import EVERYTHING

ID = "CVE-2026-1234"
PATH = "vllm/server.py"
HOLE = "def check(key):\n    return allow(key, strict=False)\n"
CURED = HOLE.replace("False", "True")
ELSEWHERE = "def serve():\n    return 1\n"
# The name is there, and not what the patch is about.
GONE = "check = allow\n"
OTHER_CURE = "def check(key):\n    audit(key)\n    return allow(key, strict=True)\n"
EDITS = """
- find: allow($key, strict=False)
  rewrite: allow($key, strict=True)
"""


def advisory(name=ID, *, fixed="0.24.0", **keys):
    ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": fixed}]}]
    return Advisory.model_validate(
        {
            "id": name,
            "modified": "2026-10-01T00:00:00Z",
            "summary": "A request without a key gets an answer.",
            "affected": [{"package": {"ecosystem": "PyPI", "name": "vllm"}, "ranges": ranges}],
            "database_specific": {"severity": "HIGH"},
            **keys,
        }
    )


def write_backport(patches, advisory_id=ID):
    """Write a backport for the hole of the small vLLM in tests/projects.py."""
    effect = 'effect:\n  find: launch($_, mode="slow")\n'
    more = f"resolves: [{{id: {advisory_id}}}]\n{effect}"
    return write_patch(
        patches / "security", "fix", SLOW_MODE, concerns="text: def start", more=more
    )


def fix(folder, resolves=f"[{{id: {ID}}}]", patch_id="fix", needed="<0.24"):
    more = f'resolves: {resolves}\neffect: {{find: "allow($key, strict=True)"}}\n'
    concerns = "text: def check"
    own = write_patch(folder, patch_id, EDITS, concerns=concerns, more=more)
    declared = own / "patch.yaml"
    declared.write_text(declared.read_text().replace(">=0.50", needed))
    return load_patch(own, EVERYTHING)


def recorded(patch, *, outcome="holds", upstream=True, absent_in="0.25.0"):
    """The patch, recorded on 0.23.0 with its hole, on 0.24.0 with upstream's cure, and absent.

    `outcome` is what its behaviour test showed; None for no test. Without `upstream`, no release
    has the cure.
    """
    needed = decided(patch, HOLE)
    applied = decided(patch, CURED, carried={patch.id})
    upstreamed = decided(patch, CURED, version="0.24.0")
    absent = decided(patch, ELSEWHERE, version=absent_in)
    assert [one.state for one in (needed, applied, upstreamed, absent)] == [
        State.NEEDED,
        State.APPLIED,
        State.UPSTREAMED,
        State.ABSENT,
    ]
    shapes = (
        KnownShape(
            releases=("0.23.0",),
            state="needed",
            variant=None,
            definitions=dict(needed.shape.definitions),
            patched=dict(applied.shape.definitions),
        ),
        KnownShape(
            releases=("0.24.0",),
            state="upstreamed",
            variant=None,
            definitions=dict(upstreamed.shape.definitions),
        ),
        KnownShape(
            releases=(absent_in,),
            state="absent",
            variant=None,
            definitions=dict(absent.shape.definitions),
        ),
    )
    ran = BehaviourOnRelease(
        test="test_attack.py",
        engine="cpu",
        outcome=outcome or "not asked",
        state="needed",
        patch_digest=patch.digest,
        test_digest="sha256:0",
    )
    behaviour = {"vllm": {"0.23.0": (ran,)}} if outcome else {}
    shapes = shapes if upstream else (shapes[0], shapes[2])
    kept = Shapes(patch_digest=patch.digest, shapes={"vllm": shapes}, behaviour=behaviour)
    trees = {
        "0.23.0": (tree_of({PATH: HOLE}), tree_of({PATH: CURED}, carried={patch.id})),
        "0.24.0": (tree_of({PATH: CURED}, version="0.24.0"), None),
        absent_in: (tree_of({PATH: ELSEWHERE}, version=absent_in), None),
    }
    if not upstream:
        del trees["0.24.0"]
    return with_surroundings(replace(patch, shapes=kept), trees)


def plan_of(patches, code, *, released=False, version="0.23.0", **keys):
    """The plan for a tree; `released` says that it is the very archive that is on record."""
    if released:
        keys["digest"] = archive_of(version)
    tree = tree_of({PATH: code}, version=version, **keys)
    return plan(patches, tree, findings_for="all", alone=[patch.id for patch in patches])


def decided(patch, code, **tree):
    (decision,) = plan_of([patch], code, **tree).decisions
    return decision
