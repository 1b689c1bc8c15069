"""The table of many patches and versions: it is read at a glance, with colours or without."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from types import SimpleNamespace

import click
import pytest

from tests.commands.status.test_status import OWN
from tests.documents import page
from tests.projects import NAME_PROJ, NO_SUCH, VERSION
from vpatch.commands.bump.text import COLOURS as COLOURS_OF_VERDICTS
from vpatch.commands.status.table import MARKS, SYMBOLS, matrix_lines
from vpatch.console.render import COLOURS
from vpatch.planning.state import State
from vpatch.source.tree import Pin
from vpatch.util.wrapping import NO_LIMIT

MINORS = [0, 0, 0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 7, 8, 9, 10, 11, 12, 13]
RELEASES = [f"0.{20 + minor}.{MINORS[:n].count(minor)}" for n, minor in enumerate(MINORS)]


def decision(
    patch, state=State.NEEDED, *, new=False, disagreement=None, reason="why", sureness=None
):
    return SimpleNamespace(
        patch=SimpleNamespace(id=patch),
        state=state,
        reason=reason,
        disagreement=disagreement,
        may_be_wrong=new,
        new_shape=new,
        sureness=sureness,
    )


def row(version, *decisions, tree="vllm"):
    digest = f"sha1:{'3f' * 20}"
    pin = Pin(tree=tree, kind="pypi", version=version, digest=digest, origin="")
    return SimpleNamespace(
        plan=SimpleNamespace(pin=pin, decisions=decisions), changed=None, since=None
    )


def shown(rows, width=NO_LIMIT):
    return [click.unstyle(line) for line in "\n".join(lines(rows, width)).split("\n")]


def lines(rows, width):
    # The code that only this process may print.
    return [re.sub(r"\x1b\[\d{10};", "\x1b[", line) for line in matrix_lines(rows, width)]


def library(count, length=40):
    states = list(State)
    ids = [f"{n:02}-" + "a-long-name-of-a-patch-of-forty-chars"[: length - 3] for n in range(count)]
    assert max(map(len, ids)) == length
    return [
        row(version, *(decision(one, states[n % len(states)]) for n, one in enumerate(ids)))
        for version in RELEASES
    ], ids


def names(found):
    """The first word of each row below a heading, table by table."""
    tables = "\n".join(found).split("\n\n")[:-1]
    return [[line.split()[0] for line in table.split("\n")[4:]] for table in tables]


def test_a_row_is_a_patch_and_a_column_a_version():
    found = shown([
        row("0.23.0", decision("one"), decision("another", State.ABSENT)),
        row("0.24.0", decision("one", State.UPSTREAMED)),
    ])  # fmt: skip
    assert found == [
        "        0  0",
        "        23 24",
        "vllm    0  0",
        "─────────────",
        "another .  -",
        "one     N  U",
        "",
        "N needed 1   U upstreamed 1   . absent 1",
    ]


def test_each_state_has_a_symbol_and_the_legend_names_what_occurs():
    assert SYMBOLS.keys() == set(State)
    assert len(set(SYMBOLS.values()) - set("?!*-")) == len(State)
    for state in State:
        found = shown(
            [row("0.23.0", decision("one", state)), row("0.24.0", decision("one", state))]
        )
        legend = next(line for line in found if f" {state} " in line)
        assert legend == f"{SYMBOLS[state]} {state} 2"
        assert found[4].split() == ["one", SYMBOLS[state], SYMBOLS[state]]


@pytest.mark.parametrize(
    ("new", "disagreement", "mark", "said"),
    [
        (False, None, "N", ""),
        (True, None, "N?", "?"),
        (False, "it is not so", "N!", "!"),
        (True, "it is not so", "N*", "*"),
    ],
)
def test_marks_stay_without_colours(new, disagreement, mark, said):
    found = shown([row("0.23.0", decision("one", new=new, disagreement=disagreement))])
    assert found[4].split() == ["one", mark]
    assert "".join(line[0] for line in found[6:] if line[:1] in {"?", "!", "*"}) == said


def test_the_documentation_has_every_symbol_and_mark():
    text = page("explanation/states.md")
    assert all(f"| `{symbol}` | `{state}` |" in text for state, symbol in SYMBOLS.items())
    assert all(f"| `{mark}` | " in text for mark in MARKS)


@pytest.mark.parametrize("width", [80, 110, 120])
def test_fifty_patches_and_all_releases_fit(width):
    rows, ids = library(50)
    found = shown(rows, width)
    legend = max(n for n, line in enumerate(found) if line.startswith(("N needed", "T untrusted")))
    assert max(map(len, found[: legend + 1])) <= width
    tables = names(found)
    assert tables == [ids] * (2 if width == 80 else 1)
    versions = [
        version
        for table in "\n".join(found).split("\n\n")[:-1]
        for version in zip(*(line[40:].split() for line in table.split("\n")[:3]), strict=True)
    ]
    assert [".".join(one) for one in versions] == RELEASES


def test_a_name_is_shortened_only_at_need_and_at_its_end():
    rows, ids = library(3)
    assert names(shown(rows, 60))[0] == ids
    short = names(shown(rows, 50))[0]
    assert short == [f"{one[:29]}…" for one in ids]
    assert max(len(line) for line in shown(rows, 50) if "…" in line) <= 50


def test_without_a_limit_a_tree_has_one_table():
    rows, ids = library(2)
    assert names(shown(rows * 20)) == [ids]


def test_each_tree_has_its_own_table():
    found = shown([
        row("0.23.0", decision("one")),
        row("1.0.0", decision("two"), tree="vllm-ascend"),
        row("0.24.0", decision("one")),
        row(None, decision("two"), tree="vllm-ascend"),
    ])  # fmt: skip
    assert names(found) == [["one"], ["two"]]
    assert found[2].split() == ["vllm", "0", "0"]
    assert found[8].split() == ["vllm-ascend", "0", "3f3f3f3f3f3f"]


def test_the_same_remark_is_printed_once():
    claim = "declared that it is needed in vllm-{} ('>=0.20'), but is absent"
    found = shown([
        row(
            version,
            decision("one", State.ABSENT, disagreement=claim.format(version)),
            decision("two", State.CONFLICT, reason="expected 1, found 0"),
        )
        for version in RELEASES[:2]
    ])  # fmt: skip
    assert found[8:10] == [
        "one in vllm 0.20.0, 0.20.1: declared that it is needed ('>=0.20'), but is absent",
        "two in vllm 0.20.0, 0.20.1: expected 1, found 0",
    ]


READ = "versions are read downwards: 0, 20, 0 is 0.20.0"


def test_a_terminal_is_told_once_how_versions_are_read():
    rows = [row(version, decision("one")) for version in RELEASES]
    assert sum(len(line) > 60 for line in shown(rows, 60)) == 0
    assert shown(rows, 60).count(READ) == 1
    assert READ not in shown(rows)
    of_a_commit = row(None, decision("one"))
    assert [line for line in shown([of_a_commit], 60) if "downwards" in line] == []


def test_no_state_is_dark_blue():
    """It cannot be read on black."""
    assert "blue" not in {*COLOURS.values(), *COLOURS_OF_VERDICTS.values()}


def on_a_terminal(project, *args):
    """What a terminal of 60 columns gets."""
    ours, theirs = pty.openpty()
    env = os.environ | project.env | {"COLUMNS": "60", "TERM": "xterm"}
    command = [sys.executable, "-m", "vpatch", *args]
    with subprocess.Popen(command, cwd=project.folder, env=env, stdout=theirs) as process:
        os.close(theirs)
        printed = b""
        try:
            while part := os.read(ours, 65536):
                printed += part
        except OSError:  # the process has ended
            pass
        os.close(ours)
    return printed.decode().replace("\r\n", "\n"), process.returncode


def test_a_terminal_has_colours_and_a_pipe_has_none(project):
    project.patch("z-tail", NO_SUCH)
    asked = ("status", "--vllm", f"{VERSION},0.51", *OWN, "--patch", "z-tail")
    piped = project.run(*asked, code=1).out
    assert "\x1b" not in piped
    printed, code = on_a_terminal(project, *asked)
    assert code == 1
    assert "\x1b[32mN\x1b[0m" in printed
    assert "\x1b[31mC\x1b[0m" in printed
    assert click.unstyle(printed).splitlines()[:7] == piped.splitlines()[:7]


def test_a_terminal_tells_its_width(project):
    name = "a-patch-with-a-name-of-forty-characters-and-some-more"
    project.patch(name, NAME_PROJ)
    printed, _ = on_a_terminal(project, "status", "--vllm", f"{VERSION},0.51", "--patch", name)
    assert click.unstyle(printed).splitlines()[4].split() == [f"{name[:39]}…", "N", "N"]
