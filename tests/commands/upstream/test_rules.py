"""Rules that stand in upstream's own tree, read from two real ones."""

from __future__ import annotations

import pytest

from tests.commands.upstream.releases import release
from tests.helpers import fails
from vpatch.commands.upstream.rules import known_tags, labels_for, size_of, tags_of
from vpatch.declare.target import Sizes, Titles
from vpatch.source.rule_files import read_yaml
from vpatch.util import matching

TITLES = Titles.model_validate(
    {"tags-in": "docs/contributing/README.md", "below": "PR Title and Classification"}
)
MERGIFY = ".github/mergify.yml"


class Files:
    def __init__(self, files):
        self.files = files

    def paths(self):
        return sorted(self.files)

    def read(self, path):
        return self.files[path]


@pytest.mark.parametrize(
    ("title", "tags"),
    [
        ("[Bugfix] Fix it", ["Bugfix"]),
        ("[Bugfix][Spec Decode]  Fix it", ["Bugfix", "Spec Decode"]),
        ("Fix it", None),
        ("[Bugfix]Fix it", None),
        ("[Bugfix] ", None),
        ("[] Fix", None),
        ("x [Bugfix] Fix it", None),
    ],
)
def test_tags_of_a_title(title, tags):
    assert tags_of(title) == tags


def test_the_tags_that_upstream_lists():
    with release("0.23.0") as tree:
        tags, others = known_tags(tree, TITLES)
    assert tags == {
        "AMD", "Bugfix", "CI/Build", "Core", "Doc", "Frontend", "Hardware", "Kernel", "Misc",
        "Model", "Vendor",
    }  # fmt: skip
    assert not others
    with release("0.33.0") as tree:
        tags, others = known_tags(tree, TITLES)
    assert {"Bugfix", "Spec Decode", "CPU", "MRV2", "Perf"} <= tags
    assert others


def test_rules_that_are_not_where_the_target_says():
    tree = Files({"docs/contributing/README.md": b"# Other\n", MERGIFY: b"a: ["})
    with fails("upstream.unreadable-rules", "no heading 'PR Title"):
        known_tags(tree, TITLES)
    with fails("upstream.unreadable-rules", "not in upstream's tree"):
        known_tags(Files({}), TITLES)
    with fails("upstream.unreadable-rules", "no rules"):
        labels_for(tree, MERGIFY, "[Bugfix] x", [])


def test_labels_by_upstreams_own_rules():
    with release("0.33.0") as tree:
        found = labels_for(tree, MERGIFY, "[Bugfix][CPU] x", ["vllm/utils/cpu_triton_utils.py"])
        assert {"bug", "cpu"} <= set(found)
        found = labels_for(tree, MERGIFY, "[Doc] x", ["vllm/v1/spec_decode/a.py", "docs/a.md"])
        assert {"speculative-decoding", "documentation"} <= set(found)
        assert "bug" not in found


def test_conditions_of_labels():
    rules = b"""pull_request_rules:
- name: one
  conditions: [label != stale, -closed, "files~=^a/", {or: ["title~=(?i)x", files=b.py]}]
  actions: {label: {add: [one]}}
- name: negative
  conditions: ["-files~=^a/"]
  actions: {label: {add: [none-of-a]}}
- name: ready
  conditions: [label=ready]
  actions: {label: {add: [never]}}
- name: other
  conditions: ["files~=^a/"]
  actions: {comment: {message: hello}}
"""
    tree = Files({MERGIFY: rules})
    assert labels_for(tree, MERGIFY, "an X", ["a/1"]) == ["one"]
    assert labels_for(tree, MERGIFY, "y", ["a/1"]) == []
    assert labels_for(tree, MERGIFY, "y", ["a/1", "b.py"]) == ["one"]
    assert labels_for(tree, MERGIFY, "y", ["b.py"]) == ["none-of-a"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ('"files~=^(a+)+$"', "a condition cannot be evaluated: it is not matched after 10 s"),
        ('"files~=("', "a condition cannot be evaluated: it is not a regular expression"),
        ("1", "these are not Mergify's rules: "),
        ("{or: [], and: []}", "these are not Mergify's rules: "),
        ("{or: 1}", "these are not Mergify's rules: "),
    ],
)
def test_conditions_that_cannot_be_told(monkeypatch, conditions, said):
    monkeypatch.setattr(matching, "_CHILD", matching._CHILD.replace("(10, 11)", "(1, 2)"))
    text = f"pull_request_rules: [{{conditions: [{conditions}], actions: {{label: {{add: [x]}}}}}}]"
    with fails("upstream.unreadable-rules", said) as caught:
        labels_for(Files({MERGIFY: text.encode()}), MERGIFY, "t", ["a" * 60 + "!"])
    assert caught.value.where == MERGIFY


@pytest.mark.parametrize("rules", ["1", "[1]", "[{actions: 1}]", "[{actions: {label: {add: 1}}}]"])
def test_rules_that_are_not_mergifys(rules):
    with fails("upstream.unreadable-rules", "these are not Mergify's rules"):
        labels_for(Files({MERGIFY: f"pull_request_rules: {rules}".encode()}), MERGIFY, "t", [])


def test_what_counts_as_size():
    diff = b"""diff --git a/tests/t.py b/tests/t.py
--- a/tests/t.py
+++ b/tests/t.py
@@ -1 +1,3 @@
 a
+b
+c
diff --git a/vllm/v.py b/vllm/v.py
--- a/vllm/v.py
+++ b/vllm/v.py
@@ -1,2 +1,2 @@
-a
+b
 c
"""
    sizes = Sizes.model_validate({"not-counted": ("tests/**",)})
    found = size_of(diff, sizes)
    assert (found.counted, found.added) == (1, 3)
    assert size_of(diff, Sizes()).counted == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"pull_request_rules: " + b"9" * 5000, "ValueError"),
        (b"pull_request_rules: 2001-99-99", "ValueError"),
        (b"- " * 5000, "RecursionError"),
        (b"pull_request_rules: !!bool x", "KeyError"),
        (b"- 1\n", "TypeError"),
        (b"# much\n" * 100_000, "larger than 250000"),
    ],
)
def test_rules_that_cannot_be_read(text, said):
    with fails("upstream.unreadable-rules", said) as caught:
        read_yaml(Files({MERGIFY: text}), MERGIFY, "pull_request_rules", "rules")
    assert caught.value.where == MERGIFY


def test_rules_in_another_encoding():
    tree = Files({"docs/contributing/README.md": b"caf\xe9", MERGIFY: b"caf\xe9"})
    for read in (lambda: known_tags(tree, TITLES), lambda: labels_for(tree, MERGIFY, "t", [])):
        with fails("upstream.unreadable-rules", "is not UTF-8: "):
            read()
