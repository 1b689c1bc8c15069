"""Lines that an edit makes too long, or puts at another place, are laid out as ruff does it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import edited, run
from vpatch.codemods import line_length
from vpatch.codemods.line_length import laid_out
from vpatch.planning.state import State
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context
from vpatch.workspace.plans import decide_each

RUFF = Path(sys.executable).with_name("ruff")
LONG = Path(__file__).with_name("long_lines.txt")


def formatted(folder, sources):
    """The sources as ruff formats them, in one process."""
    for number, source in enumerate(sources):
        (folder / f"m{number}.py").write_text(source, encoding="utf-8")
    subprocess.run(
        [RUFF, "format", "--isolated", "--no-cache", "--quiet", "."], cwd=folder, check=True
    )
    return [(folder / f"m{number}.py").read_text() for number in range(len(sources))]


def test_new_lines_that_are_too_long_are_broken_as_ruff_does(tmp_path):
    sources = LONG.read_text().split("# ---\n")
    assert len(sources) > 70
    for source, wanted in zip(sources, formatted(tmp_path, sources), strict=True):
        assert laid_out(b"", source.encode()).decode() == wanted
        # What is laid out stays so.
        assert laid_out(b"", wanted.encode()).decode() == wanted


@pytest.mark.parametrize(
    "source",
    [
        # Nothing breaks these.
        f"x = '{'a' * 90}'\n",
        f"x = 1  # {'a' * 90}\n",
        # Another line has the other half of a bracket, or of a text.
        f"x = f({'a' * 50}, {'b' * 40}, '''\n   c\n''')\n",
        f"x = f({'a' * 50}, {'b' * 40}, [\n    1\n])\n",
        # What is on a line with another statement.
        f"x = f({'a' * 50}, {'b' * 40}); y = 1\n",
        f"if x: f({'a' * 50}, {'b' * 40})\n",
        # What tells lines otherwise.
        f"x = f({'a' * 50}, {'b' * 40})\r\n",
        f"# coding: latin-1\nx = f({'a' * 50}, {'b' * 40})\n",
        f"x = f({'a' * 50}, {'b' * 40}\n",
        # The header of the block ends in the first line of the statement.
        "def f(\n    a): x = g(\n    b\n)\n",
        "x = f(" + "(" * 300 + "\n" + ")" * 300 + f", {'b' * 90})\n",
    ],
)
def test_what_cannot_be_told_stays(source):
    assert laid_out(b"", source.encode()).decode() == source


ADD = {"add-keyword": {"more": "self.config.value"}, "find": "target(...)"}
NAMES = "self.first_argument, second_argument=self.config"
RAISE = {"find": "assert a, $m", "rewrite": "if not a:\n    raise E($m)"}
WIDE = f"{'f' * 60}({'a' * 20}, {'b' * 20})\n"
WRAP = {"find": "await $o.target(...)", "rewrite": "await self.wrap($o.target(...))"}


@pytest.mark.parametrize(
    ("edit", "before", "after"),
    [
        (
            ADD,
            f"class C:\n    def f(self):\n        return target({NAMES})\n",
            (
                "class C:\n    def f(self):\n        return target(\n"
                f"            {NAMES}, more=self.config.value\n        )\n"
            ),
        ),
        # A call that is broken already has a line for each when one line is too long.
        (
            ADD,
            f"result = target(\n    {NAMES}, third=self.config.other_values\n)\n",
            (
                "result = target(\n    self.first_argument,\n    second_argument=self.config,\n"
                "    third=self.config.other_values,\n    more=self.config.value,\n)\n"
            ),
        ),
        # The innermost bracket of the line is broken, and comments stay where they are.
        (
            ADD,
            f"x = f(\n    a,  # why\n    b=target({NAMES}),  # this\n)\n",
            (
                f"x = f(\n    a,  # why\n    b=target(\n        {NAMES}, more=self.config.value\n"
                "    ),  # this\n)\n"
            ),
        ),
        (
            {"add-keyword": {"more": "int | None = None"}, "find": "def target(...): ..."},
            "async def target(self, first_argument: int, second: str) -> list[int]:\n    pass\n",
            (
                "async def target(\n"
                "    self, first_argument: int, second: str, more: int | None = None\n"
                ") -> list[int]:\n    pass\n"
            ),
        ),
        # What is moved goes to its place; what else has another style keeps it.
        (
            WRAP,
            (
                "async def f():\n    x = await a.target(\n        b,\n        # c\n        g(\n"
                "            d,\n        ),\n        '''e\n  f''',\n    )\n    y = g(\n      1)\n"
            ),
            (
                "async def f():\n    x = await self.wrap(\n        a.target(\n            b,\n"
                "            # c\n            g(\n                d,\n            ),\n"
                "            '''e\n  f''',\n        )\n    )\n    y = g(\n      1)\n"
            ),
        ),
        (
            {"find": "outer($x)", "rewrite": "$x.get()"},
            (
                "if a:\n    outer(\n        inner(\n            b,\n            c=1,\n"
                "        )\n    )\n"
            ),
            "if a:\n    inner(\n        b,\n        c=1,\n    ).get()\n",
        ),
        # A message in brackets becomes the only argument.
        (
            RAISE,
            "def f():\n    assert a, (\n        'b'\n        'c'\n    )\n",
            (
                "def f():\n    if not a:\n        raise E(\n"
                "            'b'\n            'c'\n        )\n"
            ),
        ),
        (
            RAISE,
            "assert a, (1, 2)\n",
            "if not a:\n    raise E((1, 2))\n",
        ),
        # A file with longer lines of code has another limit.
        (
            ADD,
            f"target({NAMES}, third=1)\n{WIDE}",
            f"target({NAMES}, third=1, more=self.config.value)\n{WIDE}",
        ),
        # A line that was too long before stays.
        (
            ADD,
            f"target(a)\nx = '{'a' * 90}', g(b)\n",
            f"target(a, more=self.config.value)\nx = '{'a' * 90}', g(b)\n",
        ),
    ],
)
def test_what_an_edit_writes(edit, before, after):
    assert edited(edit, before) == after
    # A file that is read in parts, and one that is read whole, become the same.
    located = run(edit, before, located=True)
    assert located.view.read("vllm/m.py").decode() == after


def test_a_definition_is_apart_from_a_comment_below_it():
    insert = {"insert": "\ndef g(self):\n    pass\n\n", "after": "x = $_"}
    source = "class C:\n    x = 1\n    # end\n\n\ny = 1\n"
    wanted = "class C:\n    x = 1\n\n    def g(self):\n        pass\n\n    # end\n\n\ny = 1\n"
    assert edited({**insert, "within": "C"}, source) == wanted


# --- the library -------------------------------------------------------------------------------


def ruff_of(version, folder):
    """Upstream's own ruff, from the tests' cache folder."""
    program = folder / f"ruff-{version}" / "bin" / "ruff"
    if not program.exists():
        target = program.parents[1]
        command = ["-m", "pip", "install", "--quiet", "--target", str(target), f"ruff=={version}"]
        subprocess.run([sys.executable, *command], check=True)
    return program


def complaints(ruff, root, paths):
    """What upstream's hooks say of some files, without the lines that they say it of."""
    check = [ruff, "check", "--no-cache", "--force-exclude", "--output-format=concise", *paths]
    formats = [ruff, "format", "--no-cache", "--force-exclude", "--check", *paths]
    for command in (check, formats):
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode in {0, 1}, done.stderr
        for line in done.stdout.splitlines():
            if ".py" in line:
                yield re.sub(r":\d+:\d+:", ":", line)


@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.20.0", "0.27.0", "0.33.0"])
def test_upstreams_ruff_takes_what_the_patches_of_the_library_write(
    release, tmp_path, pytestconfig
):
    context = Context()
    patches = context.library.load(sorted(context.library.patches))
    with context.tree(parse_vllm(release)) as tree:
        hooks = (tree.files / ".pre-commit-config.yaml").read_text()
        version = re.search(r"ruff-pre-commit\s+rev: v?(\S+)", hooks)[1]
        ruff = ruff_of(version, pytestconfig.cache.mkdir("tools"))
        shutil.copytree(tree.files, tmp_path / "tree", symlinks=True)
        paths, judged = frozenset(tree.paths()), 0
        for patch in patches:
            (decision,) = decide_each(context, [patch], tree).decisions
            if decision.state is not State.NEEDED:
                continue
            files = {p: c.after for p, c in decision.changes.items() if p.endswith(".py")}
            before = {path: tree.read(path) if path in paths else None for path in files}
            there = [path for path, text in before.items() if text is not None]
            old = [*complaints(ruff, tmp_path / "tree", there)]
            write(tmp_path / "tree", files)
            new = [*complaints(ruff, tmp_path / "tree", [p for p, t in files.items() if t])]
            write(tmp_path / "tree", before)
            more = [line for line in new if line not in old]
            assert more == [], patch.id
            judged += 1
        assert judged > 3


def write(root, files):
    for path, text in files.items():
        (root / path).unlink(missing_ok=True)
        if text is not None:
            (root / path).write_bytes(text)


def test_the_tokens_of_a_long_statement_are_read_once(monkeypatch):
    """A dict may have a thousand lines, and all of them may be new."""
    reads: list[int] = []
    plain = line_length.lines_of
    monkeypatch.setattr(line_length, "lines_of", lambda texts: reads.append(1) or plain(texts))
    code = "x = {\n" + "".join(f"    'a{n}': f(\n        {n},\n    ),\n" for n in range(9)) + "}\n"
    assert laid_out(b"", code.encode()) == code.encode()
    assert len(reads) == 1
