from __future__ import annotations

from itertools import pairwise

from tests.declare.test_bench import WHOLE
from vpatch.commands.bench.cells import cells_of, loads_of, schedule, warm_up_of
from vpatch.declare.bench import Bench


def bench(**keys):
    return Bench.model_validate(WHOLE | {"concurrency": (1, 4), "prompts": 3} | keys)


def order(plan, sides=1):
    return list(schedule([cells_of(plan)] * sides, plan))


def test_an_engine_is_told_of_k_and_not_of_0():
    without, with_two = cells_of(bench(cells=({"model": "tiny", "k": (2, 0)},)))
    assert (without.k, without.speculative) == (0, None)
    assert with_two.speculative == {"method": "mtp", "num_speculative_tokens": 2}


def test_each_load_has_prompts_of_its_own_and_each_cell_the_same():
    plan = bench(shapes=({"input": 8, "output": 4}, {"input": 9, "output": 4}), repeats=2)
    loads = [load for repeat in range(2) for load in loads_of(plan, repeat)]
    assert len({load.seed for load in loads}) == len(loads) == 8
    assert loads_of(plan, 1) == loads[4:]
    assert [load.prompts for load in loads[:2]] == [3, 12]
    by_cell = {}
    for visit in order(plan):
        by_cell.setdefault(visit.cell, set()).update(visit.loads)
    assert list(by_cell.values()) == [set(loads)] * 2


def test_seeds_are_those_of_every_machine():
    """Records of two machines are compared: what makes their prompts must not drift."""
    assert [load.seed for load in loads_of(bench(), 0)] == [1349687884, 943134739]


def test_a_server_for_each_load_or_for_all_of_a_cell():
    assert [len(visit.loads) for visit in order(bench(repeats=1))] == [1] * 4
    shared = order(bench(repeats=1, **{"share-server": True}))
    assert [len(visit.loads) for visit in shared] == [2, 2]


def test_every_other_repeat_is_backwards():
    visits = order(bench(repeats=3, **{"share-server": True}))
    assert [visit.cell.k for visit in visits] == [0, 2, 2, 0, 0, 2]
    assert [[load.concurrency for load in visit.loads] for visit in visits] == [
        *([1, 4], [1, 4]),
        *([4, 1], [4, 1]),
        *([1, 4], [1, 4]),
    ]
    assert [visit.repeat for visit in visits] == [0, 0, 1, 1, 2, 2]


def test_sides_take_turns():
    """A side that always came first would have the cooler machine."""
    for shared in (False, True):
        visits = order(bench(repeats=2, **{"share-server": shared}), sides=2)
        first = {}
        for one, other in zip(visits[::2], visits[1::2], strict=True):
            assert (one.cell, one.loads) == (other.cell, other.loads)
            assert {one.side, other.side} == {0, 1}
            place = one.cell.k, tuple(sorted(load.concurrency for load in one.loads))
            first.setdefault(place, []).append(one.side)
        assert all(sorted(sides) == [0, 1] for sides in first.values()), first
        assert all(a.side != b.side for a, b in pairwise(visits[:4:2]))


def test_sides_of_servers_have_cells_of_their_own():
    plan = bench(repeats=1)
    without, with_two = cells_of(plan)
    visits = list(schedule([[without], [with_two]], plan))
    assert [(visit.side, visit.cell.k) for visit in visits] == [(0, 0), (1, 2), (1, 2), (0, 0)]


def test_a_warm_up_is_no_load():
    loads = loads_of(bench(), 0)
    warm = warm_up_of(loads)
    assert (warm.concurrency, warm.prompts) == (4, 4)
    assert warm.seed not in {load.seed for load in loads}
    # Nor is it that of the next repeat: a running server would have it in its cache.
    assert warm_up_of(loads_of(bench(), 1)).seed != warm.seed


def test_a_warm_up_for_a_file_has_prompts_of_its_own():
    """Some of the file's prompts would be in the server's cache after it."""
    shapes = ({"dataset": "custom", "path": "mixed.jsonl", "output": 4},)
    warm = warm_up_of(loads_of(bench(shapes=shapes), 0))
    assert (warm.shape.dataset, warm.shape.input, warm.shape.output) == ("random", 128, 4)
    assert warm_up_of(loads_of(bench(shapes=shapes), 0), 40).shape.input == 36


def test_a_server_that_runs_gets_prompts_that_it_has_not_seen():
    plan = bench()
    seeds = {load.seed for salt in ("", "2026", "2027") for load in loads_of(plan, 0, salt)}
    assert len(seeds) == 6
    visits = list(schedule([cells_of(plan)], plan, "2026"))
    assert visits[0].loads == (loads_of(plan, 0, "2026")[0],)
