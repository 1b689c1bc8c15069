"""Modules by chance, with all that a part of a module may be left out around."""

from __future__ import annotations

import ast

EXPRESSIONS = [
    "target(a)",
    "target(a, k=1)",
    "target(\n{0}    a,  # why\n{0}    k=2,\n{0})",
    "pkg.target(b)",
    "alias(a)",
    "wrapper(target(a), old(b))",
    "old(a)",
    "new(a)",
    "other(b, target=1)",
    "'target(a)'",
    "f'{target(a)}'",
    "lambda: target(a)",
    "[target(i) for i in x]",
    "(yes := target(a))",
]
FILLING = [
    "other(b)",
    "1",
    "x.y[0]",
    "'''text\n  in lines\n'''",
    "[\n{0}    1,  # two\n{0}]",
    "f'{x!r:>{y}}'",
    "exit",
    "(\n{0}    x\n{0})",
]
STATEMENTS = [
    "{e}",
    "y = {e}",
    "self.y = {e}",
    "y: int = {e}",
    "y += {e}",
    "VALUE = 1",
    "VALUE = 2",
    "return {e}",
    "assert {e}",
    "del VALUE",
    "raise E",
    "import target",
    "import pkg.sub as target",
    "from pkg import target as alias",
    "from pkg import (\n{0}    anchor,\n{0})",
    "from pkg import new",
    "alias = target",
    "global target",
]
PLAIN = [
    "pass",
    "{e}",
    "z = {e}",
    "z: int = {e}",
    "z += {e}",
    "return {e}",
    "raise F",
    "assert False",
    "exit()",
    "sys.exit(1)",
    "sys().exit()",
    "exit[0]()",
    "import os",
    "from os import path as way",
    "from __future__ import annotations",
    "del z",
    "'text'",
    "...",
    "yield {e}",
    "await {e}",
]
HEADS = [
    ["if {e}:", "else:"],
    ["if {e}:", "elif x:", "else:"],
    ["if {e}:", "elif x:"],
    ["if True:", "else:"],
    ["if 0:"],
    ["for i in {e}:"],
    ["for i in {e}:", "else:"],
    ["while {e}:"],
    ["while True:"],
    ["with {e} as z:"],
    ["with suppress(E):"],
    ["try:", "except {e} as z:", "else:", "finally:"],
    ["try:", "except E:", "except F:"],
    ["try:", "finally:"],
    ["try:", "except* E:"],
]
NAMES = ["f", "g", "m", "target", "made"]
CLASSES = ["A", "B", "Target", "Made"]
DECORATORS = ["@d", "@target(a)", "@d(\n{0}    1\n{0})", "@(\n{0}    d\n{0})", "@x.y  # why"]
COMMENTS = ["# a comment", "# target(a)", "#"]


class Writer:
    """Writes a module; `random` chooses."""

    def __init__(self, random, steps=("    ",)):
        self.random = random
        self.steps = steps

    def one_of(self, *texts):
        return self.random.choice(texts)

    def chance(self, in_all):
        """True once in so many times."""
        return self.random.randrange(in_all) == in_all - 1

    def module(self, size):
        lines = []
        if self.chance(4):
            lines.append(self.one_of("'''A docstring.'''", '"text"', "# head", "\n# head\n"))
        if self.chance(3):
            lines += [self.one_of("import os", "from pkg import anchor", "import pkg as p")]
        text = "\n".join([*lines, *self.block("", size)]) + "\n"
        if self.chance(6):
            text = text.rstrip("\n")
        return text

    def block(self, indent, size):
        lines = []
        left = self.random.randint(1, max(1, size))
        while left > 0:
            made = self.statement(indent, left)
            left -= 1 + sum(1 for line in made if line.strip()) // 3
            lines += made
        return lines

    def statement(self, indent, size):
        space = self.space(indent)
        kind = self.random.randrange(10)
        if kind < 5 or size < 2:
            made = self.simple(indent)
        elif kind < 7:
            made = self.function(indent, size - 1)
        elif kind < 8:
            made = self.class_(indent, size - 1)
        elif kind < 9 and self.chance(3):
            made = self.match(indent, size - 1)
        else:
            made = self.compound(indent, size - 1)
        return [*space, *made, *self.below(indent)]

    def space(self, indent):
        """What is above a statement."""
        if self.chance(3):
            return [self.one_of("", "", f"{indent}{self.one_of(*COMMENTS)}", f"{indent} # odd")]
        return []

    def below(self, indent):
        """What is below a statement, with an indentation of its own."""
        if self.chance(8):
            deep = self.one_of("    ", "  ", "\t", "        ")
            return [*([""] if self.chance(2) else []), f"{indent}{deep}{self.one_of(*COMMENTS)}"]
        return []

    def expression(self, indent):
        which = EXPRESSIONS if self.chance(3) else FILLING
        return self.one_of(*which).replace("{0}", indent)

    def small(self, indent):
        which = STATEMENTS if self.chance(3) else PLAIN
        text = self.one_of(*which)
        return text.replace("{e}", self.expression(indent)).replace("{0}", indent)

    def simple(self, indent):
        text = self.small(indent)
        while self.chance(6):
            text += self.one_of("; ", ";", f"; \\\n{indent}") + self.small(indent)
        text += self.one_of("", "", "", "", ";", "  # behind", " ")
        return [indent + text]

    def suite(self, indent, size, head):
        if self.chance(8):
            return [f"{indent}{head} {self.small(indent)}"]
        deeper = indent + self.one_of(*self.steps)
        return [indent + head + self.one_of("", "", "  # why"), *self.block(deeper, size)]

    def compound(self, indent, size):
        heads = self.random.choice(HEADS)
        lines = []
        for head in heads:
            filled = head.replace("{e}", self.expression(indent))
            lines += self.suite(indent, max(1, size // len(heads)), filled)
        return lines

    def match(self, indent, size):
        deeper = indent + self.one_of(*self.steps)
        lines = [f"{indent}match {self.expression(indent)}:"]
        for case in ("case 1:", "case _:"):
            lines += self.suite(deeper, max(1, size // 2), case)
        return lines

    def decorators(self, indent):
        lines = []
        while self.chance(5):
            lines.append(indent + self.one_of(*DECORATORS).replace("{0}", indent))
        return lines

    def function(self, indent, size):
        name = self.one_of(*NAMES)
        parameters = self.one_of("", "a", "self, a", "a, *b, k=1", "a,  # why\n  b=2")
        head = f"{self.one_of('', '', '', 'async ')}def {name}({parameters}):"
        return [*self.decorators(indent), *self.suite(indent, size, head)]

    def class_(self, indent, size):
        bases = self.one_of("", "(Base)", "(target)", "(Base, k=1)")
        head = f"class {self.one_of(*CLASSES)}{bases}:"
        return [*self.decorators(indent), *self.suite(indent, size, head)]


def write(random, *, size=14):
    """A module as bytes, which Python's own parser takes; None if this one is none."""
    steps = random.choice([["    "]] * 5 + [["  "], ["\t"], ["    ", "  "]])
    text = Writer(random, steps).module(random.randint(2, size))
    if random.randrange(20) == 19:
        text = text.replace("\n", "\r\n")
    if random.randrange(20) == 19:
        text = text.replace("\n\n", "\n\f\n", 1)
    code = text.encode()
    if random.randrange(12) == 11:
        code = b"\xef\xbb\xbf" + code
    if random.randrange(12) == 11:
        cookie = random.choice(["# coding: latin-1", "  # -*- coding: latin-1 -*-"])
        code = f"{cookie}\nx = '\xe9\xe9\xe9'; {text}".encode("latin-1")
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return None
    return code
