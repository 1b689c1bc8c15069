"""vLLM's own tests of the fix, from 0.28.0, which has it."""

from upstream_tests import taken_from

globals().update(taken_from("v1/sample/test_thinking_budget_state.py"))
