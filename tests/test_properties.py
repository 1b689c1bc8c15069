"""Formatting, comments and neighbours change neither the decision nor the edit."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import decide, edits_of, patch_of, tree_of
from vpatch.library.loading import load_patch
from vpatch.planning.editing import run_edit
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.planning.view import View
from vpatch.trust.decision import EVERYTHING

pytestmark = pytest.mark.slow

LIBRARY = Path(__file__).parents[1] / "patches"
BOM = b"\xef\xbb\xbf"

# Between two tokens, outside and inside brackets.
OUTSIDE = st.sampled_from(["", " ", "  ", " \\\n      "])
INSIDE = st.sampled_from(
    ["", " ", "\n        ", "  # a comment\n", "\n\n    # alone\n  ", "\n    "]
)
INSIDE_WITHOUT_COMMENTS = st.sampled_from(["", " ", "\n        ", "\n"])
# Behind a statement, at the top level too.
TRAILING = st.sampled_from(["\n", "  # behind\n", "   \n", "\n\n", "  # behind\n\n# below\n"])
AT_TOP = [
    "def helper(a, b=1):\n    return call(a, prefix=b)\n",
    "@decorator(x=1)\nclass Other(Base):\n    y: int = 1\n\n    def __init__(self): pass\n",
    "# a comment\n",
    "call(1, prefix=2)  # why\n",
    "'''Text,\n  in lines.\n'''\n",
    "if cond:\n    self.f_proj = Linear(3)\nelse: pass\n",
    "\n\n",
    "x = [1,\n  2, # two\n]\n",
    "try:\n    pass\nexcept E: pass\n",
    "async def co(*, k): await z\n",
    "x = 1; y = 2;\n",
    "w = f'{x!r:>{y}} {{}}' \"more\"\n",
]
IN_BODY = [
    "# a comment\n",
    "self.norm = RMSNorm(1, eps=2)\n",
    "self.other = ReplicatedLinear(1, bias=False)\n",
    "assert x, (\n        'no'\n        )\n",
    "\n",
    "if x:\n            y = call(1)\n",
    "for i in range(3): self.e_proj_ = i\n",
    "x = {  # open\n        'a': 1}\n",
    "@d\n        def inner(prefix): return prefix\n",
]


def some(neighbours):
    return st.lists(st.sampled_from(neighbours), max_size=3)


def body(statements):
    """Statements of a method, and the indentation of the one that follows."""
    return "".join("        " + s for s in statements) + "        "


@cache
def tokens_of(code):
    read = tokenize.generate_tokens(io.StringIO(code).readline)
    skipped = {tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER}
    return [(token.type, token.string) for token in read if token.type not in skipped]


def is_word(token):
    return token[0] in {tokenize.NAME, tokenize.NUMBER, tokenize.STRING}


def reformat(draw, code, *, is_def=False, inside=INSIDE):
    """The same code with other white space, comments, quotes, brackets and trailing commas."""
    tokens = tokens_of(code)
    calls = []
    pieces = []
    for index, token in enumerate(tokens):
        kind, text = token
        before = tokens[index - 1] if index else (0, "")
        after = tokens[index + 1] if index + 1 < len(tokens) else (0, "")
        if (
            text in {")", "]"}
            and calls.pop()
            and before[1] not in {"(", ","}
            and draw(st.booleans())
        ):
            pieces.append(",")
        if index:
            space = draw(inside if calls or text in {")", "]"} else OUTSIDE)
            needed = is_word(before) and is_word(token)
            pieces.append(space or " " if needed else space)
        if text in {"(", "["}:
            calls.append(text == "(" and before[0] == tokenize.NAME)
        if kind == tokenize.STRING:
            text = draw(st.sampled_from(["'%s'", '"%s"', '"""%s"""'])) % text.strip("'\"")
        argument = before[1] in {"(", ",", "="} and after[1] in {",", ")"}
        if calls and argument and is_word(token) and not is_def:
            text = draw(st.sampled_from(["%s", "(%s)", "( (%s))"])) % text
        pieces.append(text)
    return "".join(pieces)


class Source:
    """Text in pieces: those with an even index have to stay, the others are what is edited."""

    def __init__(self, draw, pieces):
        newline = draw(st.sampled_from(["\n", "\r\n"]))
        tabs = draw(st.booleans())
        if draw(st.booleans()):
            pieces = [*pieces[:-1], pieces[-1].rstrip("\n")]
        self.bom = draw(st.sampled_from([b"", BOM]))
        self.pieces = [self._styled(piece, newline, tabs=tabs) for piece in pieces]

    @staticmethod
    def _styled(piece, newline, *, tabs):
        if tabs:
            piece = re.sub(r"(?m)^( {4})+", lambda m: "\t" * (len(m[0]) // 4), piece)
        return piece.replace("\n", newline).encode()

    @property
    def bytes(self):
        return self.bom + b"".join(self.pieces)

    def check(self, after):
        """Every piece that has to stay is there, byte for byte, and in order."""
        assert after.startswith(self.bom + self.pieces[0])
        assert after.endswith(self.pieces[-1])
        position = len(self.bom + self.pieces[0])
        end = len(after) - len(self.pieces[-1])
        for piece in self.pieces[2:-1:2]:
            position = after.index(piece, position, end) + len(piece)
        comments = re.compile(rb"#[^\r\n]*")
        assert comments.findall(self.bytes) == comments.findall(after)


def meaning(data):
    return ast.dump(ast.parse(data))


def decided(patch, tree):
    """The decision alone, without what takes longer: its shape and the lines of its findings."""
    return plan([patch], tree, findings_for="none", shapes=False).decisions[0]


def holds(patch, path, source, plain, others=None):
    """The patch decides alike on both, and makes the same of both."""
    files = others or {}
    wanted = decided(patch, tree_of({**files, path: plain}))
    assert wanted.state is State.NEEDED, wanted.reason
    decision = decide(patch, tree_of({**files, path: source.bytes}))
    assert decision.state is State.NEEDED, decision.reason
    assert decision.reason == wanted.reason
    after = decision.changes[path].after
    assert meaning(after) == meaning(wanted.changes[path].after)
    source.check(after)
    again = decided(patch, tree_of({**files, path: after}))
    assert again.state is State.UPSTREAMED, again.reason
    return after


@cache
def patch_of_library(name):
    return load_patch(LIBRARY / name, EVERYTHING)


@pytest.fixture(scope="module")
def patch_with(tmp_path_factory):
    """A patch with some keys, which all examples share."""
    made = {}

    def find(**keys):
        text = json.dumps(keys)
        if text not in made:
            made[text] = patch_of(tmp_path_factory.mktemp("patch"), **keys)
        return made[text]

    return find


PROPERTY = settings(
    max_examples=50,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
LINEAR = [
    "ReplicatedLinear(config.hidden_size, config.hidden_size, bias=False, quant_config='none')",
    "ReplicatedLinear(a, *args, k=1)",
    "ReplicatedLinear(a)",
    "ReplicatedLinear()",
]


@PROPERTY
@given(data=st.data())
def test_mtp_proj_prefix(data):
    draw = data.draw
    patch = patch_of_library("mtp-proj-prefix")
    targets = [f"self.{name} = {draw(st.sampled_from(LINEAR))}" for name in ("e_proj", "h_proj")]
    top, between, end = draw(some(AT_TOP)), draw(some(IN_BODY)), draw(some(AT_TOP))
    frame = [
        "".join(top) + "class DeepSeekV4MultiTokenPredictorLayer(nn.Module):\n"
        "    def __init__(self, config, prefix):\n" + body(draw(some(IN_BODY))),
        draw(TRAILING) + body(between),
        draw(TRAILING) + "\n" + "".join(end),
    ]
    plain = frame[0] + targets[0] + frame[1] + targets[1] + frame[2]
    made = [reformat(draw, target) for target in targets]
    source = Source(draw, [frame[0], made[0], frame[1], made[1], frame[2]])
    after = holds(patch, "vllm/models/mtp.py", source, plain)
    assert after.count(b'f"{prefix}.e_proj"') == after.count(b'f"{prefix}.h_proj"') == 1


HEADS = [
    "def _sample_recovered_tokens_kernel_impl(a, inv_q, b):",
    "def _sample_recovered_tokens_kernel_impl(a, inv_q, *, b=1):",
    "def _sample_recovered_tokens_kernel_impl(a, inv_q, NO=None, **kwargs) -> None:",
]


@PROPERTY
@given(data=st.data())
def test_cpu_spec_decode_fp64_gumbel(data):
    draw = data.draw
    patch = patch_of_library("cpu-spec-decode-fp64-gumbel")
    head = draw(st.sampled_from(HEADS))
    call = "torch.ops._C.sample_recovered_tokens_kernel_impl(a, 'b', inv_q, k)"
    top, end = "".join(draw(some(AT_TOP))), "".join(draw(some(AT_TOP)))
    between = "\n" + body(draw(some(IN_BODY)))
    pieces = [top, reformat(draw, head, is_def=True), between, reformat(draw, call)]
    pieces.append(draw(TRAILING) + "\n" + end)
    plain = top + head + between + call + "\n" + end
    others = {"vllm/v1/sampler.py": "k(USE_FP64_GUMBEL=USE_FP64_GUMBEL)\n"}
    holds(patch, "vllm/v1/ops.py", Source(draw, pieces), plain, others)


USES = [
    "y = not layer.moe.disable_inplace",
    "y = call(moe.disable_inplace, k='v')",
    "y = [i for i in (a, b) if self.moes[0].disable_inplace]",
    "y = a and moe().disable_inplace or b",
    "y = (a, moe.disable_inplace)",
]


@PROPERTY
@given(data=st.data())
def test_rewrite(data, patch_with):
    draw = data.draw
    patch = patch_with(
        concerns={"text": "disable_inplace"},
        edits=[
            {
                "find": "$moe.disable_inplace",
                "rewrite": 'getattr($moe, "disable_inplace", False) or $moe.inplace',
            }
        ],
    )
    use = draw(st.sampled_from(USES))
    top, end = draw(some(AT_TOP)), draw(some(AT_TOP))
    frame = ["".join(top), draw(TRAILING) + "\n" + "".join(end)]
    # A comment inside what is replaced would be a conflict.
    made = reformat(draw, use, inside=INSIDE_WITHOUT_COMMENTS)
    source = Source(draw, [frame[0], made, frame[1]])
    holds(patch, "vllm/a.py", source, frame[0] + use + frame[1])


@PROPERTY
@given(data=st.data())
def test_rewrite_of_one_argument(data, patch_with):
    draw = data.draw
    edit = {"find": "x.f(..., q, ...)", "rewrite": "x.f(..., q.to(d), ...)"}
    patch = patch_with(edits=[edit])
    call = draw(st.sampled_from(["r = x.f(a, q, 'b', k=1)", "x.f(q)", "x.f(*a, q, **k)"]))
    frame = ["".join(draw(some(AT_TOP))), draw(TRAILING) + "\n" + "".join(draw(some(AT_TOP)))]
    source = Source(draw, [frame[0], reformat(draw, call), frame[1]])
    holds(patch, "vllm/a.py", source, frame[0] + call + frame[1])


@PROPERTY
@given(data=st.data())
def test_insert(data, patch_with):
    draw = data.draw
    position = draw(st.sampled_from(["after", "before"]))
    code = "if self.y:\n    self.log('y', $x)  # said"
    patch = patch_with(
        concerns={"text": "make"},
        edits=[{"insert": code, position: "self.y = make($x, ...)"}],
    )
    anchor = "self.y = make(a, 'b', k=1)"
    made = reformat(draw, anchor)
    start = "".join(draw(some(AT_TOP))) + "class C:\n    def m(self):\n" + body(draw(some(IN_BODY)))
    end = "\n" + body(draw(some(IN_BODY))) + "pass\n" + "".join(draw(some(AT_TOP)))
    plain = start + anchor + end
    # Lines are inserted whole: what is edited is nothing, at the end or the beginning of a line.
    if position == "after":
        pieces = [start + made + "\n", "", end[1:]]
    else:
        indent = len(start.rstrip(" "))
        pieces = [start[:indent], "", start[indent:] + made + end]
        # The code comes before the comments above the anchor, and below the blank lines above it.
        lines = pieces[0].splitlines(keepends=True)
        while lines and (not lines[-1].strip() or lines[-1].strip().startswith("#")):
            pieces[2] = lines.pop() + pieces[2]
        above = len(pieces[2]) - len(pieces[2].lstrip())
        if not pieces[2].lstrip().startswith("#"):
            above = pieces[2].rfind("\n", 0, above) + 1
            lines, pieces[2] = [*lines, pieces[2][:above]], pieces[2][above:]
        pieces[0] = "".join(lines)
    source = Source(draw, pieces)
    wanted = decided(patch, tree_of({"vllm/a.py": plain}))
    decision = decide(patch, tree_of({"vllm/a.py": source.bytes}))
    assert (wanted.state, decision.state) == (State.NEEDED, State.NEEDED), decision.reason
    after = decision.changes["vllm/a.py"].after
    assert meaning(after) == meaning(wanted.changes["vllm/a.py"].after)
    assert after.startswith(source.bom + source.pieces[0])
    assert after.endswith(source.pieces[2])
    assert decided(patch, tree_of({"vllm/a.py": after})).state is State.UPSTREAMED


@PROPERTY
@given(data=st.data())
def test_replace_body(data, patch_with):
    draw = data.draw
    edit = {
        "find": "def run(self, $x, ...): ...",
        "replace-body": "if $x:\n    return new($x)\nreturn None",
        "having": "return old($x, ...)",
    }
    patch = patch_with(concerns={"text": "run"}, edits=[edit])
    head = "def run(self, a, *rest, k=1):"
    start = "".join(draw(some(AT_TOP))) + "class C:\n    @d\n    "
    made = reformat(draw, head, is_def=True)
    # Comments in the body go with it.
    old = body(draw(some([s for s in IN_BODY if "#" not in s])))
    old += reformat(draw, "return old(a, 'b')", inside=INSIDE_WITHOUT_COMMENTS)
    end = "\n    y = 1\n" + "".join(draw(some(AT_TOP)))
    plain = start + head + "\n        return old(a, 'b')" + end
    source = Source(draw, [start + made + "\n", old, end])
    holds(patch, "vllm/a.py", source, plain)


@PROPERTY
@given(
    parts=st.lists(
        st.sampled_from([b"a", b"b", b"ab", b" ", b"\n", b"\r\n", b"\xff", b"x"]), max_size=12
    )
)
@pytest.mark.parametrize(
    ("find", "replace"),
    [("ab", "x"), ("a", "ab"), ("ab", "a"), ("ab", "ba"), ("a\nb", "x\n"), ("x", "a\nx")],
)
def test_text(parts, find, replace):
    data = b"".join(parts)
    (edit,) = edits_of(
        {"text": {"find": find, "replace": replace}, "files": "x", "expect": {"at-least": 1}}
    )
    view = View(tree_of({"x": data}))
    result = run_edit(edit, view)
    after, sites = edit.codemod.apply(data)
    todo = [site for site in sites if site.todo]
    assert (after != data) == bool(todo)
    crlf = b"\r\n" in data and data.count(b"\r\n") == data.count(b"\n")
    old, new = (t.encode().replace(b"\n", b"\r\n" if crlf else b"\n") for t in (find, replace))
    assert len(after) - len(data) == len(todo) * (len(new) - len(old))
    # New text counts where it shows what it replaced, or where the lock names the patch.
    counted = [site for site in sites if site.todo or site.recognised]
    assert (result.mismatch is None) == bool(counted)
    assert (run_edit(edit, view, carried=True).mismatch is None) == bool(sites)
