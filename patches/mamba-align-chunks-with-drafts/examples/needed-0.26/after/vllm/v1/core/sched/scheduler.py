from vllm.v1.core.sched.interface import SchedulerInterface
from vllm.v1.request import Request


class Scheduler(SchedulerInterface):
    def _mamba_block_aligned_split(
        self,
        request: Request,
        num_new_tokens: int,
        num_new_local_computed_tokens: int = 0,
        num_external_computed_tokens: int = 0,
    ) -> int:
        """Clip a prefill chunk so it ends where Mamba state must be cached.

        In "align" cache mode the SSM state is only materialized at chunk
        ends, so chunk ends are steered onto cacheable positions: block
        boundaries by default, plus mandatory early stops (the prompt's
        partial-tail hash boundary, a detected shared-prefix junction).
        """
        start = (
            request.num_computed_tokens
            + num_new_local_computed_tokens
            + num_external_computed_tokens
        )
        # Split only during prefill: `request.num_tokens - 1` extends this to
        # resumed requests replaying their output tokens.
        if start >= max(request.num_prompt_tokens, request.num_tokens - 1):
            return num_new_tokens

        block_size = self.cache_config.block_size
        # The last block-aligned position whose state can be cached. With
        # Eagle, FullAttn prunes the last matching block, so back off one
        # block to avoid a Mamba cache miss.
        last_cache_position = request.num_tokens - request.num_tokens % block_size
        if self.use_eagle:
            last_cache_position = max(last_cache_position - block_size, 0)

        end = start + num_new_tokens
        # Until `last_cache_position`, chunk ends must land on block
        # boundaries. May yield an empty chunk (budget cannot reach the next
        # boundary); the caller then skips the request.
        if end < last_cache_position:
            end = end // block_size * block_size
        # What a chunk ends with is cached as the state at the end of its
        # block: only the last chunk may end elsewhere, and none may cross
        # the end of its block.
        prefill_end = max(request.num_prompt_tokens, request.num_tokens - 1)
        if start % block_size != 0:
            end = min(end, (start // block_size + 1) * block_size)
        if end < prefill_end:
            end = end // block_size * block_size

        next_block_boundary = (start // block_size + 1) * block_size
        tail_boundary = (
            request.num_prompt_tokens // self.hash_block_size * self.hash_block_size
            if self.mamba_partial_cache_hit
            else 0
        )
        stops = (
            # Resumed mid-block (fine-grained partial hash hit): re-align to
            # the block grid before running on, so the crossed boundary's
            # state is materialized (unless it is past the cacheable range).
            next_block_boundary
            if start % block_size != 0 and next_block_boundary <= last_cache_position
            else 0,
            # Never run past the last cacheable block boundary mid-chunk.
            last_cache_position,
            # Fine-grained hits: the prompt's partial-tail entry can only be
            # registered by a chunk ending exactly at its last hash boundary.
            tail_boundary
            if last_cache_position < tail_boundary < request.num_prompt_tokens
            else 0,
            # Marconi shared-prefix junction, block-floored (a sub-block
            # junction's state is not separately cacheable): cache its state
            # so sibling requests sharing the prefix can reuse it.
            start + (request.shared_prefix_boundary - start) // block_size * block_size
            if start < request.shared_prefix_boundary < end
            else 0,
        )
        # Stop at the earliest mandatory position strictly inside the chunk.
        end = min((s for s in stops if start < s < end), default=end)
        return max(end - start, 0)
