import weakref
from abc import ABC, abstractmethod
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Generic, overload
from vllm.multimodal import MULTIMODAL_REGISTRY as mm_registry
from vllm.multimodal.cache import (
    BaseMultiModalProcessorCache,
    processor_cache_from_config,
    processor_only_cache_from_config,
)
from vllm.multimodal.gpu_ipc_memory import maybe_init_mm_gpu_ipc_pool
from vllm.multimodal.processing import BaseMultiModalProcessor
from vllm.multimodal.registry import MultiModalTimingRegistry
from vllm.utils.async_utils import make_async
from vllm.utils.counter import AtomicCounter
from vllm.utils.torch_utils import set_default_torch_num_threads
from vllm.v1.metrics.stats import MultiModalCacheStats
from .embed_utils import safe_load_prompt_embeds


class _SwappableExecutor(Executor):
    """Executor whose inner pool can be replaced without changing identity.

    ``make_async`` captures the executor object at wrap time. Replacing
    ``self._executor`` with a new ``ThreadPoolExecutor`` would leave those
    wrappers (tokenize, decode, pooling, derender) bound to a shutdown pool.
    """

    def __init__(self, max_workers: int) -> None:
        super().__init__()
        self._max_workers = max_workers
        self._inner = ThreadPoolExecutor(max_workers=max_workers)

    def submit(self, fn, /, *args, **kwargs):
        return self._inner.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._inner.shutdown(wait=wait, cancel_futures=cancel_futures)

    def replace_inner(self) -> None:
        old = self._inner
        old.shutdown(wait=False)
        self._inner = ThreadPoolExecutor(max_workers=self._max_workers)


class BaseRenderer(ABC, Generic[_T]):
    def __init__(self, config: "VllmConfig", tokenizer: _T | None) -> None:
        super().__init__()

        self.config = config
        self.model_config = config.model_config
        self.api_process_rank = config.parallel_config._api_process_rank

        self._resources = ExitStack()
        self._resources.callback(logger.debug, f"[shutdown] {self.__class__.__name__}")
        self._finalizer = weakref.finalize(self, self._resources.close)

        self.tokenizer = tokenizer

        # Background multimodal warmup task (a future returned by
        # _mm_executor) so it overlaps engine-core initialization while
        # staying serialized with the serving path through the same
        # single-worker executor. None when no background warmup has been
        # launched (or it has already been joined). Routing the warmup through
        # _mm_executor (max_workers=1) guarantees it can never run
        # concurrently with a serving request inside the numba workqueue
        # parallel region, which would otherwise hit numba's
        # "Concurrent access has been detected" fatal abort (see
        # vllm/utils/jit_monitor.py, which forces the workqueue layer).
        # Joined by the first of reset_mm_cache / warmup / shutdown so the
        # mm_processor_cache is also never touched concurrently by the warmup
        # and the serving path.
        self._mm_warmup_future: Future[None] | None = None
        # Whether warmup_mm has already run. Survives _join_mm_warmup (which
        # clears the thread pointer), so warmup() can tell that the background
        # warmup already ran even after reset_mm_cache joined it first, and
        # avoid running warmup_mm a second time.
        self._mm_warmup_done: bool = False

        # Thread pool executor for blocking tokenizer operations.  The
        # multimodal processor receives a deep-copied tokenizer (see #36557)
        # so it is safe to run tokenization and MM preprocessing concurrently.
        pool_workers = config.model_config.renderer_num_workers
        self._executor = _SwappableExecutor(max_workers=pool_workers)
        self._resources.callback(self._executor.shutdown, wait=False)

        # Separate single-worker executor so tokenization never queues behind
        # MM preprocessing; must stay single-worker per #38418 (P0/P1 order).
        self._mm_executor = ThreadPoolExecutor(max_workers=1)
        self._resources.callback(self._mm_executor.shutdown, wait=False)

        # Offload tokenization to the thread pool. The sync
        # ``_tokenize_prompt`` already encapsulates the unified ``__call__``
        # path and char-offset extraction, so the async variant is just it
        # offloaded (mirrors ``_process_multimodal_async`` below).
        self._tokenize_prompt_async = make_async(
            self._tokenize_prompt, executor=self._executor
        )
        self._async_tokenizer_decode = make_async(self._decode, executor=self._executor)

        self.mm_processor: BaseMultiModalProcessor | None = None

        self._clear_mm_cache_async = make_async(
            self.clear_mm_cache, executor=self._mm_executor
        )
        self._process_multimodal_async = make_async(
            self._process_multimodal, executor=self._mm_executor
        )
        self._safe_load_prompt_embeds_async = make_async(
            safe_load_prompt_embeds, executor=self._executor
        )

        self._mm_processor_cache: BaseMultiModalProcessorCache | None = None

        # A second processor with its own processor-only cache.
        # Used by the tokenize endpoint so that tokenize-only
        # requests don't pollute the sender cache.
        self._mm_processor_only_cache: BaseMultiModalProcessorCache | None = None

        self._mm_cache_stats: MultiModalCacheStats | None = None

        if config.model_config.supports_multimodal_inputs:
            # Install the process-global GPU memory pool used to gate
            # frontend GPU-side multimodal decoding (no-op when the budget
            # is 0). Lives in the API-server process only.
            mm_config = config.model_config.multimodal_config
            if mm_config is not None:
                maybe_init_mm_gpu_ipc_pool(
                    mm_config.mm_ipc_gpu_memory_gb,
                    config.parallel_config._api_process_count,
                )

            with set_default_torch_num_threads():
                self.mm_processor = mm_registry.create_processor(
                    config.model_config,
                    tokenizer=self.tokenizer,
                )

            self._mm_processor_cache = processor_cache_from_config(config)
            self._mm_processor_only_cache = processor_only_cache_from_config(config)

            # This is used to generate internal request ID for MM processing
            # It has no relation to the request ID for engine core
            self._mm_req_counter = AtomicCounter()
            self._mm_timing_registry = MultiModalTimingRegistry(
                config.observability_config
            )

        if self._mm_processor_cache:
            self._mm_cache_stats = MultiModalCacheStats()
            self._resources.callback(self._mm_processor_cache.close)
        if self._mm_processor_only_cache:
            self._resources.callback(self._mm_processor_only_cache.close)
