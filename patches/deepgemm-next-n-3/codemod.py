"""Moves what the decode half of the indexer does with its rows into a function.

In every release the block of `if has_decode:` first pads or reshapes the queries, then
computes logits and selects from them row by row, and at last takes padding out. The
middle moves to a function, which is called once, or twice where the rows are split. It
is moved as it is: what is of the rows of a call has the name there that it had before.
Everything else must be known to be the same for all rows, as what upstream may add
there could depend on their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import libcst.matchers as m
from vpatch.codemods import SiteTransformer

if TYPE_CHECKING:
    from collections.abc import Sequence

FUNCTION = "sparse_attn_indexer"
HELPER = "_select_decode_rows"
COLUMNS = 88
QUERIES = "padded_q_quant_decode_tokens"
FIRST = m.SimpleStatementLine(
    [
        m.Assign(
            [m.AssignTarget(m.Name("batch_size"))],
            m.Subscript(m.Attribute(m.Name(QUERIES))),
        )
    ]
)
UNPACK = m.Call(m.Name("unpack_seq_triton"))
LOOP = m.For(iter=m.Call(m.Name("decode_calls")))

# What is of a call's rows. Of the last two, only slices are: behind the rows is more.
ROWS = {QUERIES, "padded_q_scale", "decode_metadata"}
SLICED = {"weights", "topk_indices_buffer"}
SLICED_NAME = m.Name(m.MatchIfTrue(lambda name: name in SLICED))
METADATA = m.Name("decode_metadata")
# The last two are None where rows are split, as decode_calls checks.
ATTRIBUTES = {
    "seq_lens",
    "block_table",
    "schedule_metadata",
    "indices",
    "global_seq_lens",
}

# What is the same for all rows. Rows that have candidates are not split.
SHARED = {
    "attn_metadata_narrowed": "DeepseekV32IndexerMetadata",
    "kv_cache": "torch.Tensor",
    "topk_tokens": "int",
    "max_model_len": "int",
    "use_fp4_cache": "bool",
    "dcp_rank": "int",
    "dcp_world_size": "int",
    "cp_kv_cache_interleave_size": "int",
    "candidate_blocks": "torch.Tensor | None",
    "candidate_block_size": "int",
    "candidate_write": "bool",
    "topk_backend": "str",
}
GLOBALS = {
    "False",
    "None",
    "RADIX_TOPK_WORKSPACE_SIZE",
    "RuntimeError",
    "_apply_candidate_mask",
    "_merge_dcp_topk_global",
    "_select_candidate_blocks",
    "as_fp32_logits",
    "bool",
    "current_platform",
    "current_workspace_manager",
    "dict",
    "fp8_fp4_paged_mqa_logits",
    "get_indexer_topk",
    "int",
    "mqa_logits_mx_inputs",
    "ops",
    "torch",
    "xpu_ops",
}

# A number or a text, as in SIZE = 1024 * 1024.
CONSTANT = m.SimpleStatementLine(
    [
        m.Assign(
            [m.AssignTarget(m.Name())],
            m.Integer()
            | m.SimpleString()
            | m.BinaryOperation(m.Integer(), right=m.Integer()),
        )
    ]
)

# What the new function itself names.
WRITTEN = {"torch"}

COMMENT = "# Three rows per request may be split; otherwise there is one call."
NEW_CALLS = """\
for call in decode_calls(
    decode_metadata,
    padded_q_quant_decode_tokens,
    padded_q_scale,
    weights,
    topk_indices_buffer,
{split}):
    topk_indices = {helper}(
        call,
{arguments}    )
"""
SPLIT = """\
    # Candidate blocks are in the order of all rows.
    split=candidate_blocks is None,
"""
NEW_HELPER = '''

def {helper}(
    call: DecodeCall,
{parameters}) -> torch.Tensor:
    """Score the rows of one call of a decode step, and select keys for each."""
    (
        decode_metadata,
        padded_q_quant_decode_tokens,
        padded_q_scale,
        weights,
        topk_indices_buffer,
    ) = call
    return topk_indices
'''


class Codemod(SiteTransformer):
    kinds = (cst.Module,)

    def enter(self, node: cst.CSTNode) -> bool:
        del node
        return False

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        del original
        module = cst.ensure_type(updated, cst.Module)
        for place, function in enumerate(module.body):
            if not (
                isinstance(function, cst.FunctionDef)
                and function.name.value == FUNCTION
            ):
                continue
            if m.findall(function, LOOP):
                self.add(function, todo=False)
                return updated
            for block in _decode_blocks(function):
                found = _divided(block, _Globals(module))
                problem = found if isinstance(found, str) else None
                self.add(function, todo=True, problem=problem)
                if not isinstance(found, str):
                    helper, new = found
                    changed = function.deep_replace(block, new)
                    body = [
                        *module.body[:place],
                        helper,
                        changed,
                        *module.body[place + 1 :],
                    ]
                    return module.with_changes(body=body)
        return updated


def _decode_blocks(function: cst.FunctionDef) -> list[cst.IndentedBlock]:
    """The blocks that take the queries of a decode step apart."""
    blocks = [
        cst.ensure_type(block, cst.IndentedBlock)
        for block in m.findall(function, m.IndentedBlock())
    ]
    return [
        block for block in blocks if any(m.matches(line, FIRST) for line in block.body)
    ]


def _divided(
    block: cst.IndentedBlock, known: _Globals
) -> tuple[cst.FunctionDef, cst.IndentedBlock] | str:
    """The function, and the block that calls it; or why there can be none."""
    first = [i for i, line in enumerate(block.body) if m.matches(line, FIRST)]
    last = [
        i
        for i, line in enumerate(block.body)
        if i > first[0] and isinstance(line, cst.If) and m.findall(line, UNPACK)
    ]
    if len(first) != 1 or len(last) != 1:
        return "the rows are not scored between padding and taking it out"
    # What is behind the loop needs the number of requests as well.
    before, behind = block.body[: first[0] + 1], block.body[last[0] :]
    middle = block.body[first[0] : last[0]]
    problem = _problem(middle, [*before, *behind], known)
    if problem is not None:
        return problem
    names = _names(middle)
    shared = [name for name in SHARED if name in names]
    calls = _calls(shared, split="candidate_blocks" in names)
    new = block.with_changes(body=[*before, calls, *behind])
    return _helper(shared, middle), new


def _calls(shared: Sequence[str], *, split: bool) -> cst.BaseStatement:
    arguments = "".join(f"        {name},\n" for name in shared)
    code = NEW_CALLS.format(
        split=SPLIT if split else "", helper=HELPER, arguments=arguments
    )
    (calls,) = cst.parse_module(code).body
    comment = cst.EmptyLine(comment=cst.Comment(COMMENT))
    return cst.ensure_type(calls, cst.For).with_changes(leading_lines=[comment])


def _helper(
    shared: Sequence[str], middle: Sequence[cst.BaseStatement]
) -> cst.FunctionDef:
    parameters = "".join(f"    {name}: {SHARED[name]},\n" for name in shared)
    module = cst.parse_module(NEW_HELPER.format(helper=HELPER, parameters=parameters))
    function = cst.ensure_type(module.body[0], cst.FunctionDef)
    docstring, rows, result = cst.ensure_type(function.body, cst.IndentedBlock).body
    first = cst.ensure_type(middle[0], cst.SimpleStatementLine)
    moved = [first.with_changes(leading_lines=()), *middle[1:]]
    body = cst.IndentedBlock([docstring, rows, *moved, result]).visit(_OnOneLine())
    return function.with_changes(
        body=body, leading_lines=[cst.EmptyLine(indent=False)] * 2
    )


class _OnOneLine(cst.CSTTransformer):
    """Joins a conditional expression that was broken, and now fits, as ruff does."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:
        del node
        self.depth += 1

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        del original_node
        self.depth -= 1
        return updated_node

    def leave_Assign(
        self, original_node: cst.Assign, updated_node: cst.Assign
    ) -> cst.Assign:
        del original_node
        value = updated_node.value
        if not isinstance(value, cst.IfExp) or not value.lpar:
            return updated_node
        plain = updated_node.with_changes(value=value.with_changes(lpar=(), rpar=()))
        code = cst.Module([]).code_for_node(plain)
        fits = "\n" not in code and 4 * self.depth + len(code) <= COLUMNS
        return plain if fits else updated_node


def _problem(
    middle: Sequence[cst.BaseStatement],
    outside: Sequence[cst.BaseStatement],
    known: _Globals,
) -> str | None:
    """Why `middle` may not work for the rows of one call, or None."""
    assigned = _assigned(middle)
    strange = known.strange(middle) - assigned - SHARED.keys() - ROWS - SLICED
    for node in (n for s in middle for n in m.findall(s, m.Attribute(METADATA))):
        attribute = cst.ensure_type(node, cst.Attribute).attr.value
        if attribute not in ATTRIBUTES:
            strange.add(f"decode_metadata.{attribute}")
    if strange:
        return f"{min(strange)} is not known to be the same for all rows"
    for statement in middle:
        sliced = m.findall(statement, m.Subscript(SLICED_NAME))
        if len(sliced) != len(m.findall(statement, SLICED_NAME)):
            return f"{' or '.join(sorted(SLICED))} is used as a whole"
    # Padding is only taken out where there is one call, and so are its last values.
    read = (assigned & _names(outside)) - {"batch_size", "topk_indices"} - ROWS
    return f"{min(read)} is used outside of the rows too" if read else None


class _Globals:
    """What the imports and the constants of a module are, whatever their names."""

    def __init__(self, module: cst.Module) -> None:
        lines = [line for line in module.body if m.matches(line, CONSTANT)]
        self.constants = _assigned(lines)
        self.imported: dict[str, str] = {}
        for node in m.findall(module, m.ImportAlias()):
            alias = cst.ensure_type(node, cst.ImportAlias)
            package, _, last = alias.evaluated_name.rpartition(".")
            name = alias.evaluated_alias or package.partition(".")[0] or last
            if last not in WRITTEN:
                self.imported[name] = last

    def strange(self, statements: Sequence[cst.BaseStatement]) -> set[str]:
        """The names in some code that may not be the same for all rows."""
        names: set[str] = set()
        for dotted in _dotted_names(statements):
            name = dotted[0]
            if name in self.imported and name not in GLOBALS:
                original = self.imported[name]
                # A module that has what is meant, as in vllm.utils.deep_gemm.NAME.
                name = dotted[-1] if original not in GLOBALS else original
            names.add(name)
        return names - GLOBALS - self.constants


def _assigned(statements: Sequence[cst.BaseStatement]) -> set[str]:
    targets = [t for s in statements for t in m.findall(s, m.AssignTarget())]
    names = [name for target in targets for name in m.findall(target, m.Name())]
    return {cst.ensure_type(name, cst.Name).value for name in names}


def _names(statements: Sequence[cst.BaseStatement]) -> set[str]:
    """All names but those of attributes and of keywords."""
    return {dotted[0] for dotted in _dotted_names(statements)}


def _dotted_names(statements: Sequence[cst.BaseStatement]) -> set[tuple[str, ...]]:
    """All names, each with the attributes that follow it; but not those of keywords."""
    names: set[tuple[str, ...]] = set()

    class Collect(cst.CSTVisitor):
        def visit_Attribute(self, node: cst.Attribute) -> bool:
            attributes = [node.attr.value]
            value = node.value
            while isinstance(value, cst.Attribute):
                attributes.append(value.attr.value)
                value = value.value
            if isinstance(value, cst.Name):
                names.add((value.value, *reversed(attributes)))
            else:
                value.visit(self)
            return False

        def visit_Arg(self, node: cst.Arg) -> bool:
            node.value.visit(self)
            return False

        def visit_Name(self, node: cst.Name) -> None:
            names.add((node.value,))

    for statement in statements:
        statement.visit(Collect())
    return names
