from vllm.v1.core.sched.interface import SchedulerInterface
from vllm.v1.request import Request


class Scheduler(SchedulerInterface):
    def schedule(self, request: Request, num_new_tokens: int) -> int:
        return min(num_new_tokens, request.num_tokens)
