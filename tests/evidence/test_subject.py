from __future__ import annotations

import copy
import hashlib
import json
import re

import pytest

from tests.commands.smoke.builders import PIN, SUBJECT
from tests.helpers import patch_of, tree_of
from vpatch.evidence.documents import document_of
from vpatch.evidence.records import SubjectTree
from vpatch.evidence.subject import differences, digest_of_subject, subject_trees
from vpatch.planning.plan import plan
from vpatch.util.digest import digest_of

REWRITE = {"find": "f($x)", "rewrite": "g($x)"}


def trees(subject):
    return [SubjectTree.model_validate(tree) for tree in subject]


def digest(subject):
    return digest_of_subject(trees(subject))


def changes(old, new):
    return list(differences(trees(old), trees(new)))


def changed(path, value):
    """The subject of one tree, with what lies at a path replaced."""
    subject = [copy.deepcopy(SUBJECT)]
    *parents, last = path
    node = subject
    for step in parents:
        node = node[step]
    node[last] = value
    return subject


def test_what_was_run(tmp_path):
    one = patch_of(tmp_path, "one", concerns={"text": "("}, edits=[REWRITE])
    two = patch_of(
        tmp_path,
        "two",
        concerns={"text": "("},
        variants=[{"name": "v", "edits": [{"find": "g($x)", "rewrite": "h($x)"}]}],
        requires=["one"],
    )
    there = patch_of(
        tmp_path, "there", concerns={"text": "k"}, edits=[{"find": "m($x)", "rewrite": "k($x)"}]
    )
    tree = tree_of({"vllm/z.py": "f(1)\n", "vllm/k.py": "k(1)\n"})
    (run,) = subject_trees([plan([one, two, there], tree)])
    assert run.pin.tree == "vllm"
    assert [(p.id, p.digest, p.variant) for p in run.patches] == [
        ("one", one.digest, None),
        ("two", two.digest, "v"),
    ]
    assert [(f.path, f.before, f.after) for f in run.files] == [
        ("vllm/z.py", digest_of(b"f(1)\n"), digest_of(b"h(1)\n"))
    ]


def test_a_file_that_a_patch_adds(tmp_path):
    patch = patch_of(
        tmp_path,
        files={"new.py": "1\n"},
        edits=[REWRITE, {"add-file": "vllm/a.py", "from": "new.py"}],
    )
    (run,) = subject_trees([plan([patch], tree_of({"vllm/z.py": "f(1)\n"}))])
    assert [file.path for file in run.files] == ["vllm/a.py", "vllm/z.py"]
    assert run.files[0].before is None


def test_digest_by_hand():
    pin = {key: PIN[key] for key in ("tree", "version", "digest")}
    text = json.dumps([SUBJECT | {"pin": pin}], sort_keys=True, separators=(",", ":"))
    expected = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    assert digest([SUBJECT]) == expected
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", expected)


@pytest.mark.parametrize("key", ["kind", "origin", "ref"])
def test_where_a_source_was_found_does_not_matter(key):
    other = changed((0, "pin", key), "other")
    assert digest(other) == digest([SUBJECT])
    assert changes([SUBJECT], other) == []


def test_a_tree_is_its_document():
    tree = SubjectTree.model_validate(SUBJECT)
    assert document_of(tree) == SUBJECT
    assert digest_of_subject([tree]) == digest([SUBJECT])
    assert changes([document_of(tree)], [SUBJECT]) == []


def test_digest_survives_the_way_through_a_file():
    again = json.loads(json.dumps([SUBJECT]))
    assert digest(again) == digest([SUBJECT])


PATCH = SUBJECT["patches"][0]
FILE = SUBJECT["files"][0]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (
            (0, "pin", "digest"),
            "sha256:" + "f" * 64,
            ["vllm is another source: 0.23.0, sha256:" + "f" * 16],
        ),
        ((0, "patches", 0, "digest"), "sha256:0", ["the patch fix has changed"]),
        ((0, "patches", 0, "variant"), "new", ["the patch fix has changed"]),
        ((0, "patches"), [], ["the patch fix is not among them any more"]),
        (
            (0, "patches"),
            [PATCH, PATCH | {"id": "more"}],
            ["the patch more was not among them"],
        ),
        (
            (0, "patches", 0, "id"),
            "other",
            ["the patch fix is not among them any more", "the patch other was not among them"],
        ),
        ((0, "files", 0, "after"), "sha256:0", ["vllm/a.py has changed"]),
        ((0, "files", 0, "before"), "sha256:0", ["vllm/a.py has changed"]),
        ((0, "files"), [], ["vllm/a.py is not among them any more"]),
        ((0, "pin", "tree"), "fork", ["the tree fork is new", "the tree vllm is gone"]),
    ],
)
def test_differences(path, value, said):
    other = changed(path, value)
    assert changes([SUBJECT], other) == said
    assert digest(other) != digest([SUBJECT])


def test_order_of_patches():
    other = PATCH | {"id": "other"}
    one, two = (changed((0, "patches"), order) for order in ([PATCH, other], [other, PATCH]))
    assert changes(one, two) == ["the patch order has changed"]
    assert digest(one) != digest(two)


def test_whatever_changes_the_digest_is_a_difference():
    other = changed((0, "pin", "version"), "0.24.0")
    same = digest(other) == digest([SUBJECT])
    assert same == (changes([SUBJECT], other) == [])


def test_nothing_differs():
    assert changes([SUBJECT], copy.deepcopy([SUBJECT])) == []
