"""vLLM's own tests of the fix, from 0.32.0, which has it."""

from upstream_tests import taken_from

globals().update(
    taken_from(
        "renderers/test_executor_replace.py",
        "test_swappable_executor_keeps_make_async_wrappers_alive",
    )
)
