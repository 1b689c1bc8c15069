"""Loops over `decode_calls` in the decode half of the indexer.

In every release the block of `if has_decode:` first pads or reshapes the queries, then
computes logits and selects from them row by row, and at last takes padding out. The
middle becomes the body of the loop. What is of its rows comes from the loop; everything
else must be known to be the same for all rows, as what upstream may add there could
depend on their order.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import libcst as cst
import libcst.matchers as m
from vpatch.codemods import SiteTransformer

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST = m.SimpleStatementLine(
    [
        m.Assign(
            [m.AssignTarget(m.Name("batch_size"))],
            m.Subscript(m.Attribute(m.Name("padded_q_quant_decode_tokens"))),
        )
    ]
)
UNPACK = m.Call(m.Name("unpack_seq_triton"))
CALLS = m.SimpleStatementLine([m.Assign(value=m.Call(m.Name("decode_calls")))])
LOOP = m.For(iter=m.Name("calls"))

# What is of a call's rows: queries, other names and what they become, and attributes.
QUERIES = {"padded_q_quant_decode_tokens", "padded_q_scale"}
NAMES = {"weights": "row_weights", "topk_indices_buffer": "row_topk_indices"}
NAME = m.Name(m.MatchIfTrue(lambda name: name in NAMES))
METADATA = m.Name("decode_metadata")
ATTRIBUTES = {"seq_lens", "block_table", "schedule_metadata"}
# None where rows are split, as decode_calls checks.
UNSPLIT_ATTRIBUTES = {"indices", "global_seq_lens"}

# What is the same for all rows. Rows that have candidates are not split.
SHARED = {
    "attn_metadata_narrowed",
    "candidate_block_size",
    "candidate_blocks",
    "candidate_write",
    "cp_kv_cache_interleave_size",
    "dcp_rank",
    "dcp_world_size",
    "decode_metadata",
    "kv_cache",
    "max_model_len",
    "topk_backend",
    "topk_tokens",
    "use_fp4_cache",
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
    "current_platform",
    "current_workspace_manager",
    "fp8_fp4_paged_mqa_logits",
    "get_indexer_topk",
    "mqa_logits_mx_inputs",
    "ops",
    "torch",
    "xpu_ops",
}

NEW_LOOP = """
# Three rows per request may be split; otherwise there is one call.
calls = decode_calls(
    decode_metadata,
    padded_q_quant_decode_tokens,
    padded_q_scale,
    weights,
    topk_indices_buffer,
{split})
for (
    call_rows,
    padded_q_quant_decode_tokens,
    padded_q_scale,
    row_weights,
    row_topk_indices,
) in calls:
    pass
"""
SPLIT = """\
    # Candidate blocks are in the order of all rows.
    split=candidate_blocks is None,
"""


class Codemod(SiteTransformer):
    kinds = (cst.IndentedBlock,)

    def enter(self, node: cst.CSTNode) -> bool:
        return not m.matches(node, LOOP)

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        block = cst.ensure_type(updated, cst.IndentedBlock)
        if self.scope != ["sparse_attn_indexer"]:
            return updated
        if any(
            m.matches(calls, CALLS) and m.matches(loop, LOOP)
            for calls, loop in pairwise(block.body)
        ):
            self.add(original, todo=False)
            return updated
        first = [i for i, s in enumerate(block.body) if m.matches(s, FIRST)]
        if not first:
            return updated
        last = [
            i
            for i, s in enumerate(block.body)
            if i > first[0] and isinstance(s, cst.If) and m.findall(s, UNPACK)
        ]
        if len(first) != 1 or len(last) != 1:
            problem = "the rows are not scored between padding and taking it out"
            self.add(original, todo=True, problem=problem)
            return updated
        before, middle, behind = (
            block.body[: first[0]],
            block.body[first[0] : last[0]],
            block.body[last[0] :],
        )
        found = _problem(middle, [*before, *behind])
        self.add(original, todo=True, problem=found)
        if found is not None:
            return updated
        return block.with_changes(body=[*before, *_loop(middle), *behind])


def _loop(middle: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """The loop around `middle`, behind the comments that stood before it."""
    split = SPLIT if "candidate_blocks" in _names(middle) else ""
    calls, loop = cst.parse_module(NEW_LOOP.format(split=split)).body
    first = cst.ensure_type(middle[0], cst.SimpleStatementLine)
    calls = cst.ensure_type(calls, cst.SimpleStatementLine)
    comments = [
        line
        for line in (*first.leading_lines, *calls.leading_lines)
        if line.comment is not None
    ]
    body = cst.IndentedBlock([first.with_changes(leading_lines=()), *middle[1:]])
    return [
        calls.with_changes(leading_lines=comments),
        cst.ensure_type(loop, cst.For).with_changes(body=body.visit(_OfCall())),
    ]


class _OfCall(cst.CSTTransformer):
    """Takes from the loop what is of one call's rows."""

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        if m.matches(original_node.value, METADATA) and (
            original_node.attr.value in ATTRIBUTES
        ):
            return updated_node.with_changes(value=cst.Name("call_rows"))
        return updated_node

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.Subscript:
        del original_node
        value = updated_node.value
        if isinstance(value, cst.Name) and value.value in NAMES:
            return updated_node.with_changes(value=cst.Name(NAMES[value.value]))
        return updated_node

    def leave_Raise(
        self, original_node: cst.Raise, updated_node: cst.Raise
    ) -> cst.Raise:
        """Break the line, which would be too long one level deeper."""
        del original_node
        call = updated_node.exc
        if not isinstance(call, cst.Call) or len(call.args) != 1:
            return updated_node
        argument = call.args[0].with_changes(
            whitespace_after_arg=cst.ParenthesizedWhitespace(indent=True)
        )
        deeper = cst.ParenthesizedWhitespace(
            indent=True, last_line=cst.SimpleWhitespace("    ")
        )
        return updated_node.with_changes(
            exc=call.with_changes(whitespace_before_args=deeper, args=[argument])
        )


def _problem(
    middle: Sequence[cst.BaseStatement], outside: Sequence[cst.BaseStatement]
) -> str | None:
    """Why `middle` may not work for the rows of one call, or None."""
    assigned = _assigned(middle)
    strange = _names(middle) - assigned - SHARED - GLOBALS - QUERIES - NAMES.keys()
    for node in (n for s in middle for n in m.findall(s, m.Attribute(METADATA))):
        attribute = cst.ensure_type(node, cst.Attribute).attr.value
        if attribute not in ATTRIBUTES | UNSPLIT_ATTRIBUTES:
            strange.add(f"decode_metadata.{attribute}")
    if strange:
        return f"{min(strange)} is not known to be the same for all rows"
    for statement in middle:
        sliced = m.findall(statement, m.Subscript(NAME))
        if len(sliced) != len(m.findall(statement, NAME)):
            return f"{' or '.join(NAMES)} is used as a whole"
    # Padding is only taken out where there is one call, and so are its last values.
    read = (assigned & _names(outside)) - {"batch_size", "topk_indices"} - QUERIES
    return f"{min(read)} is used outside the loop too" if read else None


def _assigned(statements: Sequence[cst.BaseStatement]) -> set[str]:
    targets = [t for s in statements for t in m.findall(s, m.AssignTarget())]
    names = [name for target in targets for name in m.findall(target, m.Name())]
    return {cst.ensure_type(name, cst.Name).value for name in names}


def _names(statements: Sequence[cst.BaseStatement]) -> set[str]:
    """All names but those of attributes and of keywords."""
    names: set[str] = set()

    class Collect(cst.CSTVisitor):
        def visit_Attribute(self, node: cst.Attribute) -> bool:
            node.value.visit(self)
            return False

        def visit_Arg(self, node: cst.Arg) -> bool:
            node.value.visit(self)
            return False

        def visit_Name(self, node: cst.Name) -> None:
            names.add(node.value)

    for statement in statements:
        statement.visit(Collect())
    return names
