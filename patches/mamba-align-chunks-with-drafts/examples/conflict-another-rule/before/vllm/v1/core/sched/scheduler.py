from vllm.v1.core.sched.interface import SchedulerInterface
from vllm.v1.request import Request


class Scheduler(SchedulerInterface):
    def _mamba_block_aligned_split(self, request: Request, num_new_tokens: int) -> int:
        block_size = self.cache_config.block_size
        return num_new_tokens - num_new_tokens % block_size
