from __future__ import annotations

import contextlib
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import fails
from vpatch.declare.errors import DeclarationError
from vpatch.declare.patch import PatchDeclaration
from vpatch.declare.yamlfile import Positions, read_yaml, valid_keys
from vpatch.errors import ExitCode, ManyErrors, VpatchError

GOOD = """\
# a patch
id: fix
title: Fix it
why: |
  it
  fails
symptoms: [it fails]
needed-in: {vllm: ">=0.20"}
concerns: {text: f}
remove-when: never
edits:
  - find: f($x)
    rewrite: g($x)
    expect: 2
"""


def read(tmp_path, text):
    path = tmp_path / "patch.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_yaml(path, PatchDeclaration)


def refused(tmp_path, text):
    """`line: message`, for each error."""
    with pytest.raises((DeclarationError, ManyErrors)) as caught:
        read(tmp_path, text)
    error = caught.value
    assert error.exit_code is ExitCode.USAGE
    errors = error.errors if isinstance(error, ManyErrors) else [error]
    assert all(e.where.startswith(str(tmp_path / "patch.yaml")) for e in errors)
    assert all(e.hint for e in errors if "not YAML" in str(e))
    return [str(e).removeprefix(str(tmp_path / "patch.yaml")).lstrip(":") for e in errors]


def test_read_yaml(tmp_path):
    declaration, positions = read(tmp_path, GOOD)
    assert declaration.why == "it\nfails\n"
    assert declaration.edits[0].expect.count == 2
    assert isinstance(positions, Positions)
    assert positions.where(["edits", 0, "rewrite"]) == f"{tmp_path / 'patch.yaml'}:13"
    assert positions.where([]) == f"{tmp_path / 'patch.yaml'}:2"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("why: |", "wyh: 1\nwhy: |", "4: unknown key 'wyh'\n  next: did you mean 'why'?"),
        ("expect: 2", "expects: 2", "14: unknown key 'expects'\n  next: did you mean 'expect'?"),
        ("expect: 2", "expect: {pre: 2}", "14: unknown key 'pre'\n  next: did you mean 'per'?"),
        ("expect: 2", "zzzzzzzz: 2", "14: unknown key 'zzzzzzzz'\n  next: valid keys: expect, "),
        ("{text: f}", "{text: f, txt: f}", "9: unknown key 'txt'\n  next: did you mean 'text'?"),
        (
            "title: Fix it",
            "title: 0.30",
            "3: title: must be a string\n  next: quote it, as YAML takes 0.3 for",
        ),
        ("[it fails]", "[it fails, 0.30]", "7: symptoms.1: must be a string"),
        (
            "title: Fix it",
            "title: [a]",
            "3: title: must be a string, not a list\n  next: vpatch schema",
        ),
        ("title: Fix it", "title: ''", "3: title: must not be empty"),
        ("title: Fix it", "title:", "3: title: must be a string, not nothing"),
        ("title: Fix it\n", "", "2: the key 'title' is missing"),
        ("expect: 2", "expect: 0", "14: edits.0.expect: must be at least 1, not 0"),
        (
            "    rewrite: g($x)",
            "    rewrit: g($x)",
            "12: edits.0: unknown key 'rewrit': did you mean 'rewrite'?",
        ),
        ("expect: 2", "insert: x", "12: edits.0: an edit has exactly one of the keys"),
        (
            "expect: 2",
            "expect: two",
            "14: edits.0.expect: must be a whole number, or a mapping such as",
        ),
        (
            "[it fails]",
            "it fails",
            "7: symptoms: must be a list, not the string 'it fails'\n  next: write [it fails], or ",
        ),
        ("title: Fix it", "title: true", "3: title: must be a string, not true"),
        ("id: fix", "id: Fix_It", "2: id: the string 'Fix_It' does not match ^[a-z0-9]"),
        (
            "expect: 2",
            "expect: {per: tre}",
            "14: edits.0.expect.per: must be 'tree' or 'file', not",
        ),
        ("expect: 2", "files: 3", "14: edits.0.files: must be a list, not the number 3"),
        ("expect: 2", "files: []", "14: edits.0.files: must not be empty"),
        ("expect: 2", "expect: {count: 1.5}", "14: edits.0.expect.count: must be a whole number, "),
        (
            "expect: 2",
            "where: {x: y}",
            "14: edits.0.where.x: the key the string 'x' does not match",
        ),
        ('{vllm: ">=0.20"}', "vllm", "8: needed-in: must be a mapping of keys, not the string"),
        (
            "find: f($x)\n    rewrite: g($x)",
            "set-value: '1'\n    of: A",
            "12: edits.0: the key 'was' is missing\n  next: add it",
        ),
        (
            "find: f($x)\n    rewrite: g($x)",
            "insert: []\n    after: A",
            "12: edits.0.insert: must be a string or a mapping of keys, not a list",
        ),
        (
            "find: f($x)\n    rewrite: g($x)",
            "text: {find: a}\n    files: b",
            "12: edits.0.text: the key 'replace' is missing",
        ),
    ],
)
def test_one_error(tmp_path, old, new, message):
    assert old in GOOD
    (error,) = refused(tmp_path, GOOD.replace(old, new))
    assert error.startswith(message)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (GOOD + "more: 1\n", "declare.unknown-key"),
        (GOOD + "why: again\n", "declare.duplicate-key"),
        (GOOD.replace("why: |", "titl: |"), "declare.missing-key"),
        ("- a\n", "declare.wrong-value"),
        ("a: [1\n", "declare.wrong-syntax"),
        (b"a: \xff\n", "declare.wrong-syntax"),
    ],
)
def test_each_kind_of_error_has_a_code(tmp_path, text, code):
    with pytest.raises((DeclarationError, ManyErrors)) as caught:
        read(tmp_path, text)
    assert code in {one.code for one in getattr(caught.value, "errors", [caught.value])}


def test_duplicate_key(tmp_path):
    (error,) = refused(tmp_path, GOOD + "why: again\n")
    assert error.startswith('15: found duplicate key "why"')
    assert "keep one of the two keys" in error
    (error,) = refused(tmp_path, GOOD.replace("expect: 2", "expect: 2\n    find: h()"))
    assert error.startswith('15: found duplicate key "find"')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: must hold a mapping"),
        ("- a\n", "1: must hold a mapping"),
        ("a: 1\n---\nb: 2\n", "2: not YAML: "),
        ("a: [1\n", "not YAML: "),
        ("a:\n\t- b\n", "2: not YAML: "),
        ("a: !!python/object:os.system x\n", None),
        (b"a: \xff\n", "is not UTF-8"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", None),
        ("1: a\n", None),
    ],
)
def test_not_a_declaration(tmp_path, text, message):
    errors = refused(tmp_path, text)
    assert message is None or (len(errors) == 1 and message in errors[0])


def test_file_that_is_not_there(tmp_path):
    with fails("declare.unreadable") as caught:
        read_yaml(tmp_path / "x.yaml", PatchDeclaration)
    assert caught.value.where == str(tmp_path / "x.yaml")


def test_every_error_is_reported(tmp_path):
    text = (
        GOOD.replace("title", "titel")
        .replace("text: f", "text: 1")
        .replace("expect: 2", "expect: x")
    )
    errors = refused(tmp_path, text)
    assert [error.partition(":")[0] for error in errors] == ["2", "9", "14", "3"]
    assert "the key 'title' is missing" in errors[0]
    assert "concerns.text: must be a string" in errors[1]
    assert "edits.0.expect: " in errors[2]
    assert "unknown key 'titel'" in errors[3]


@pytest.mark.parametrize(
    ("location", "keys"),
    [
        (("edits", 0, "kind:diff"), ["diff"]),
        (("edits", 0, "kind:text", "text"), ["find", "replace"]),
        (("edits", 0, "kind:text", "expect", "Expect"), ["at-least", "count", "for-each", "per"]),
        (("edits", 0, "kind:add-file"), ["add-file", "from"]),
        (("edits", 0, "kind:insert", "insert", "Snippet"), ["from", "name"]),
        (("variants", 0), ["edits", "name", "when"]),
        (
            ("variants", 0, "when", "any", 1),
            ["all", "any", "files", "find", "none", "text", "unless", "where", "within"],
        ),
        (
            ("proof", 0),
            ["engine", "environment", "fails-before", "not-asked", "on-top-of", "packages"]  # noqa: RUF005
            + ["references", "test", "timeout", "trees", "vllm"],
        ),
    ],
)
def test_valid_keys_are_those_of_the_place(location, keys):
    assert valid_keys(PatchDeclaration, location) == keys


def test_aliases_are_refused(tmp_path):
    """Nine lines of ten aliases each are a thousand million values."""
    (error,) = refused(tmp_path, "id: &a x\nname: *a\n")
    assert error.startswith("2: not YAML: an alias (*name) is not allowed here")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: " + "9" * 5000, 2, "too long for its kind"),
        ("a: 1\nb: 0x" + "f" * 5000, 2, "too long for its kind"),
        ("a: 1\nb: " + "9" * 400, 2, "too long for its kind"),
        ("a: 1\nb: !!int x", 2, "'x' is not a value of its kind"),
        ("a: 1\nb: !!bool x", 2, "'x' is not a value of its kind"),
        ("a: 1\n!!int x: 1", 2, "'x' is not a value of its kind"),
        ('a: 1\nb: !!python/object/apply:os.system ["x"]', 2, "a tag (tag:yaml.org,2002:python"),
        ("!!python/object/apply:os.system [x]", 1, "a tag (tag:yaml.org,2002:python"),
        ("a: 1\nb: !mine {x: y}", 2, "a tag (!mine)"),
        ('a: 1\nb: "\\ud800"', 2, "surrogate"),
        ('a: 1\nb: "\\0"', 2, "NUL"),
        ("a: 1\nb:" + " [" * 3000, 2, "nested more than 40 levels"),
        ("a: 1\nb: " + "{a: " * 3000, 2, "nested more than 40 levels"),
        ("- " * 3000, 1, "nested more than 40 levels"),
        ("? " * 3000, 1, "nested more than 40 levels"),
    ],
)
def test_what_no_declaration_has_is_refused_with_its_line(tmp_path, text, line, message):
    (error,) = refused(tmp_path, text)
    assert error.startswith(f"{line}: not YAML: ")
    assert message in error


@pytest.mark.parametrize("text", ["# a comment\n" * 1_000_000, "\n" * 10_000_000, "[" * 1_000_000])
def test_a_large_file_is_not_parsed(tmp_path, text):
    (error,) = refused(tmp_path, text)
    assert "cannot be read: is larger than 100000 bytes\n  next: make it a readable" in error


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("2026-01-01", "2026-01-01"),
        ("2001-99-99", "2001-99-99"),
        ("0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00+23:59"),
        ("=", "="),
        ("!!str 12", "12"),
    ],
)
def test_what_looks_like_a_day_or_has_the_tag_of_a_text_is_text(tmp_path, written, text):
    declaration, _ = read(tmp_path, GOOD.replace("title: Fix it", f"title: {written}"))
    assert declaration.title == text


PROOF = "proof: [{{test: t.py, engine: cpu, vllm: '0.50', fails-before: {{a: b}}, timeout: {}}}]\n"


@pytest.mark.parametrize(
    ("seconds", "message"),
    [(".inf", "finite"), (".nan", "finite"), ("1e300", "at most 31622400"), ("0", "greater than")],
)
def test_a_time_that_no_clock_has_is_refused(tmp_path, seconds, message):
    (error,) = refused(tmp_path, GOOD + PROOF.format(seconds))
    assert "15: proof.0.timeout: must be " in error
    assert message in error


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "patch.yaml")
    with fails("declare.unreadable", "is not a regular file"):
        read_yaml(tmp_path / "patch.yaml", PatchDeclaration)


def test_not_all_of_a_thousand_errors_are_told(tmp_path):
    with pytest.raises(ManyErrors) as caught:
        read(tmp_path, GOOD + "".join(f"k{number}: 1\n" for number in range(30)))
    assert caught.value.errors[-1].code == "declare.more-errors"
    errors = refused(tmp_path, GOOD + "".join(f"k{number}: 1\n" for number in range(1000)))
    assert len(errors) == 21
    assert errors[-1] == " and 980 more\n  next: correct those above first"


def test_keys_that_are_merged_have_no_line(tmp_path):
    errors = refused(tmp_path, "<<: {id: 1}\n")
    assert "1: id: must be a string" in errors[0]


_PIECES = st.sampled_from([
    *("a", "id", "edits", ":", ": ", "- ", "? ", "\n", "\n  ", " ", "[", "]", "{", "}", ","),
    *('"', "'", "|", ">", "!", "!!", "!!int ", "!!set ", "!!omap ", "!!timestamp ", "&x ", "*x"),
    *("<<", "---\n", "...\n", "%YAML 1.1\n", "%TAG ! x\n", "\\", "\\ud800", "\\0", "\t", "#", "~"),
    *("1", "0x", "0o9", "1e9", "1_0", ".inf", ".nan", "=", "2001-13-13", "1:2:99", "\x85"),
])  # fmt: skip


@pytest.mark.slow
@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=st.lists(_PIECES, max_size=20).map("".join), after=st.booleans())
def test_nothing_that_is_written_is_a_fault_of_ours(tmp_path, text, after):
    with contextlib.suppress(VpatchError):
        read(tmp_path, (GOOD + text if after else text).encode("utf-8", "surrogatepass"))
