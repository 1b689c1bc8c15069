from __future__ import annotations

import pytest
from pydantic import ValidationError

from vpatch.declare.patch import PatchDeclaration

GOOD = {
    "id": "fix",
    "title": "Fix it",
    "why": "it fails",
    "symptoms": ("it fails",),
    "needed-in": {"vllm": ">=0.20,<0.24"},
    "concerns": {"text": "f"},
    "edits": ({"find": "f($x)", "rewrite": "g($x)"},),
    "remove-when": "never",
}
VARIANT = {"name": "new", "edits": GOOD["edits"]}
PULL = {
    "ref": "vllm-project/vllm#1",
    "is": "pull request",
    "relation": "same change",
    "state": "merged",
}
PROOF = {"test": "x.py", "engine": "cpu", "vllm": "0.23.0", "fails-before": {"test_x": "no"}}
MORE = {
    "on-top-of": ("other",),
    "trees": {"vllm-metax": "plugin"},
    "references": {"UPSTREAM": "0.30.0"},
    "environment": {"X": "1"},
    "timeout": 60,
}


def test_patch_is_frozen():
    declaration = PatchDeclaration.model_validate(GOOD)
    with pytest.raises(ValidationError, match="frozen"):
        declaration.title = "x"


@pytest.mark.parametrize(
    "changes",
    [
        {"edits": (), "variants": (VARIANT, {**VARIANT, "name": "old", "when": {"find": "h()"}})},
        {"upstream": (PULL, {**PULL, "release": "0.24.0"}, {"ref": "a/b#2", "is": "issue"})},
        {"needed-in": {"vllm": "", "vllm-ascend": "<0"}},
        {"effect": {"all": ({"find": "g()", "within": "C.*"}, {"none": ({"text": "x"},)})}},
        {"proof": (PROOF,)},
        {"proof": (PROOF, {**PROOF, **MORE})},
        {"on-request": "it is not for everybody"},
        {"requires": ("a-b", "c2"), "conflicts": ("d",)},
    ],
)
def test_patch(changes):
    PatchDeclaration.model_validate({**GOOD, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "Fix_It"}, "match pattern"),
        ({"id": "../fix"}, "match pattern"),
        ({"edits": ()}, "either edits or variants"),
        ({"variants": (VARIANT,)}, "either edits or variants"),
        ({"edits": (), "variants": (VARIANT, VARIANT)}, "same name"),
        ({"edits": (), "variants": ({"name": "x", "edits": ()},)}, "at least 1 item"),
        ({"needed-in": {}}, "at least 1 item"),
        ({"needed-in": {"vllm": "0.20"}}, "not a version range"),
        ({"needed-in": {"vllm": f">={'9' * 5000}"}}, "not a version range"),
        ({"needed-in": {"vllm_ascend": ">=1"}}, "vllm-ascend"),
        ({"symptoms": ()}, "at least 1 item"),
        ({"concerns": {}}, "exactly one of find, text"),
        ({"concerns": {"find": "f()", "text": "f"}}, "exactly one of find, text"),
        ({"effect": {"any": ({},)}}, "exactly one of find, text"),
        ({"upstream": ({**PULL, "ref": "#1"},)}, "match pattern"),
        ({"upstream": ({**PULL, "is": "thread"},)}, "'issue' or 'pull request'"),
        ({"upstream": ({"ref": "a/b#1", "is": "pull request"},)}, "its relation and its state"),
        ({"upstream": ({**PULL, "state": "open", "release": "1"},)}, "only a merged pull request"),
        ({"upstream": ({**PULL, "state": "done"},)}, "'open', 'merged' or 'closed'"),
        ({"proof": ({**PROOF, "engine": "tpu"},)}, "'cpu' or 'cuda'"),
        ({"proof": ({**PROOF, "fails-before": {}},)}, "at least 1 item"),
        ({"proof": ({**PROOF, "fails-before": {"test_x": "("}},)}, "not a regular expression"),
        ({"proof": ({**PROOF, "references": {"path": "0.30.0"}},)}, "match pattern"),
        ({"proof": ({**PROOF, "timeout": 0},)}, "greater than 0"),
        ({"proof": ({**PROOF, "not-asked": ({"vllm": "<0.21"},)},)}, "why"),
        ({"proof": ({**PROOF, "not-asked": ({"vllm": "0.21", "why": "no"},)},)}, "version range"),
        ({"on-request": ""}, "at least 1 char"),
        ({"requires": ("A",)}, "match pattern"),
    ],
)
def test_patch_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        PatchDeclaration.model_validate({**GOOD, **changes})
