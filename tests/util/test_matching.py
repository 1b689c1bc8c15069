from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checkpoint.test_ignore import judged, listed
from vpatch.checkpoint.files import FolderFiles
from vpatch.checkpoint.findings import _lists
from vpatch.checkpoint.inspection import inspect
from vpatch.util import matching as module
from vpatch.util.matching import PatternFaultError, check, found_in, matching

NAMES = ["model.layers.0.mlp", "model.layers.1.attn", "lm_head", "", "\u00e4\n"]
# Each takes for ever with Python's `re` on a name of sixty letters.
ENDLESS = ["(a+)+$", "(a|aa)+$", "(.*)*b", "(a*)*(a*)*b", "((a?){30}){30}b"]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ENDLESS[:2])
def test_a_pattern_without_an_end_is_ended(monkeypatch, pattern):
    monkeypatch.setattr(module, "_CHILD", module._CHILD.replace("(10, 11)", "(1, 2)"))
    with pytest.raises(PatternFaultError, match="is not matched after 10 s"):
        matching(pattern, ["a" * 60 + "!"])


@pytest.mark.parametrize("pattern", ENDLESS)
def test_none_that_may_be_endless_is_matched_here(pattern):
    assert not module._is_quick(pattern)


@pytest.mark.parametrize("pattern", ["(", "(a*)*(", "a" * 600 + "[", "(" * 400, "(?P<1>a)*", "*"])
def test_what_is_no_pattern(pattern):
    with pytest.raises(PatternFaultError, match="it is not a regular expression: "):
        check(pattern)


@pytest.mark.parametrize(
    "pattern",
    [r"model\.layers\.\d+\.mlp", r"(model\.)?(layers\.)*", ".*", r"(?i)LM_.*(d)+$", "\u00e4"],
)
def test_here_and_elsewhere_are_the_same(monkeypatch, pattern):
    wanted = [name for name in NAMES if re.match(pattern, name)]
    assert matching(pattern, NAMES) == wanted
    monkeypatch.setattr(module, "_is_quick", lambda _: False)
    assert matching(pattern, NAMES) == wanted


@settings(max_examples=200)
@given(st.text(alphabet="ab.*+?{1,2}()|[]^$\\", max_size=12))
def test_what_is_quick_is_quick(pattern):
    """It is done at once on a long name, or is no pattern."""
    if module._is_quick(pattern):
        with contextlib.suppress(PatternFaultError):
            matching(pattern, ["ab" * 200, "a" * 400])


def test_a_pattern_that_is_none_is_a_finding_of_its_own(tmp_path):
    listed(tmp_path, "compressed-tensors", "ignore", ["re:(", "re:lm_head"])
    assert [entry.fault is None for entry in judged(tmp_path).entries] == [False, True]
    found = list(_lists(inspect(FolderFiles(tmp_path))))
    assert "quantization_config.ignore has 're:(', and it is not a regular expression" in next(
        one.what for one in found if one.kind == "ignore-pattern"
    )
    assert "ignore-names" not in {one.kind for one in found}


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ENDLESS[:2])
def test_a_search_without_an_end_is_ended(monkeypatch, pattern):
    monkeypatch.setattr(module, "_CHILD", module._CHILD.replace("(10, 11)", "(1, 2)"))
    with pytest.raises(PatternFaultError, match="is not matched after 10 s"):
        found_in(pattern, ["!" + "a" * 60 + "!"])


@pytest.mark.parametrize("pattern", ["a$", "(x|a)*$", "(a.){2}b+c*d*"])
@pytest.mark.parametrize("length", [1, 1000])
def test_a_search_finds_what_re_finds(pattern, length):
    texts = ["b" * length + "a", "b" * length, "a" * length, "axayb"]
    assert found_in(pattern, texts) == [text for text in texts if re.search(pattern, text)]
