"""Decide on several trees at the same time, in processes that are forked from this one."""

from __future__ import annotations

import gc
import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from vpatch.errors import VpatchError
from vpatch.planning.plan_cache import plan_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.planning.state import Plan
    from vpatch.source.tree import Pin
    from vpatch.workspace.plan_jobs import Jobs

# What a worker was forked with.
_forked: list[Jobs] = []


def decided_by_workers(asked: Jobs, missing: Sequence[int], workers: int) -> dict[int, Plan]:
    """Decide what can be decided in other processes; what fails there is left out."""
    context = asked.context
    for job in (asked.jobs[number] for number in missing if asked.pin(number) is None):
        # What has to be fetched is fetched here, where progress is shown.
        with context.tree(job.spec, job.expected_digest):
            pass
    plans: dict[int, Plan] = {}
    pool = ProcessPoolExecutor(
        workers, multiprocessing.get_context("fork"), initializer=_begin, initargs=(asked,)
    )
    # The processes begin with the first job, before the progress starts a thread of its own.
    futures = {pool.submit(_rows, number): number for number in _in_runs(missing, workers)}
    task = asked.begin(missing)
    try:
        for future in as_completed(futures):
            number = futures[future]
            answer = future.result()
            if answer is not None:
                pin, rows = answer
                plans[number] = plan_of(rows, asked.jobs[number].patches, pin)
            task.advance(1)
    except BrokenProcessPool:
        pass  # the system ended one, for its memory: the rest is decided here, one by one
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        task.done()
    return plans


def _in_runs(numbers: Sequence[int], workers: int) -> Iterator[int]:
    """The numbers in an order in which each of some workers has neighbours, one after the other.

    Neighbours are releases that have most of their files in common.
    """
    length = -(-len(numbers) // workers)
    for offset in range(length):
        yield from numbers[offset::length]


def _begin(asked: Jobs) -> None:
    # The parent hears of an interrupt, and ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_DFL)
    asked.context.become_another_process()
    _forked[:] = [asked]


def _rows(number: int) -> tuple[Pin, list[dict[str, Any]]] | None:
    """A plan as its pin and rows; None where it cannot be made: the parent will tell why."""
    (asked,) = _forked
    try:
        plan = asked.decide(number)
    except VpatchError:
        return None
    else:
        return plan.pin, rows_of(plan)
    finally:
        asked.context.close()
        # A tree refers to itself, and has some 50 MB. Python would leave it there for long.
        gc.collect()
