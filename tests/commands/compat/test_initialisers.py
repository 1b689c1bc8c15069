from __future__ import annotations

import pytest

from tests.commands.compat.plugins import CORE, UTILS, VLLM
from tests.commands.compat.test_compat import item_of, verdict_of
from tests.projects import archive

READER = b"""
    def report(self):
        return self._count()

    def _count(self):
        return self.clock
"""
NEXT = VLLM | {
    CORE: VLLM[CORE]
    .replace(b"        self.seen = 0\n", b"        self.seen = 0\n        self.clock = 0\n")
    .replace(b"    async def stop(self):", READER + b"\n    async def stop(self):", 1)
}


@pytest.fixture
def releases(project):
    project.index.add("0.50.0", archive("0.50.0", VLLM))
    project.index.add("0.51.0", archive("0.51.0", NEXT))
    return project


def verdict_on(project, text, name="module.Mine"):
    verdict = verdict_of(project, text, name, kind="initialiser")
    return verdict["state"], verdict["why"]


OWN = """import torch
from vllm.core import Runner, Worker

class Mine(Runner):
    def __init__(self, config):
        {call}
        self.config = config
        self.seen = 0
        {more}
"""
MISSING = "yours does not set clock, which Worker._count reads"


@pytest.mark.parametrize(
    "call", ["pass", "torch.nn.Module.__init__(self)", "object.__init__(self)"]
)
def test_an_attribute_that_only_the_base_sets_is_missing(releases, call):
    assert verdict_on(releases, OWN.format(call=call, more="pass")) == ("changed", MISSING)


@pytest.mark.parametrize(
    ("call", "more"),
    [
        ("pass", "self.clock = 1"),
        ("Worker.__init__(self, config)", "pass"),
        ("super(Runner, self).__init__(config)", "pass"),
        ("pass", "config.clock = 1"),
        ("pass", "setattr(self, 'clock', 1)"),
        ("pass", "pass\n    clock = 1"),
        ("pass", "pass\n    def later(self):\n        self.clock = 1"),
        ("pass", "pass\n    def report(self):\n        return 1"),
        ("pass", "pass\n    def _count(self):\n        return 1"),
        ("pass", "pass\nWorker.report = print"),
    ],
)
def test_what_somebody_else_sets_or_nobody_reads_is_not_missing(releases, call, more):
    assert verdict_on(releases, OWN.format(call=call, more=more)) == ("holds", "")


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (b"def mark(worker):\n    worker.clock = 1\n", "holds"),
        (b"def mark(worker):\n    setattr(worker, 'clock', 1)\n", "holds"),
        (b"def mark(worker):\n    return worker.clock == 1\n", "changed"),
    ],
)
def test_what_other_code_of_vllm_sets_is_not_missing(project, code, state):
    project.index.add("0.50.0", archive("0.50.0", VLLM))
    project.index.add("0.51.0", archive("0.51.0", NEXT | {UTILS: VLLM[UTILS] + code}))
    assert verdict_on(project, OWN.format(call="pass", more="pass"))[0] == state


def test_a_method_that_the_target_replaces_in_another_class_still_reads(releases):
    more = "pass\nfrom vllm.config import Config\nConfig.report = print"
    assert verdict_on(releases, OWN.format(call="pass", more=more)) == ("changed", MISSING)


def test_a_base_after_the_named_one_runs_and_the_named_one_does_not(releases):
    call = "super(Worker, self).__init__()"
    assert verdict_on(releases, OWN.format(call=call, more="pass"))[0] == "changed"


@pytest.mark.parametrize(
    "call", ["super().__init__(config)", "ORIGINAL(self, config)", "bases[0].__init__(self)"]
)
def test_an_initialiser_that_runs_the_one_of_the_base_is_not_judged(releases, call):
    with pytest.raises(StopIteration):
        verdict_on(releases, OWN.format(call=call, more="pass"))


def test_an_attribute_that_was_missing_before_is_nothing_new(releases):
    text = OWN.format(call="pass", more="pass")
    file = releases.folder / "module.py"
    file.write_text(text)
    args = ("--vllm", "0.51.0", "--base", "0.51.0", "--json")
    item = item_of(releases.run("compat", file, *args).json, "module.Mine", "initialiser")
    verdict = item["verdicts"]["0.51.0"]
    assert (verdict["state"], verdict["why"]) == (
        "holds",
        f"meant so, since it is for this release: {MISSING}",
    )


def test_what_another_method_reads_later_is_nothing_new(project):
    later = NEXT[CORE].replace(b"_count", b"_total")
    project.index.add("0.50.0", archive("0.50.0", NEXT))
    project.index.add("0.51.0", archive("0.51.0", NEXT | {CORE: later}))
    assert verdict_on(project, OWN.format(call="pass", more="pass"))[0] == "holds"


def test_a_function_in_the_place_of_an_initialiser_is_judged_as_well(releases):
    text = """from vllm.core import Worker

def begin(self, config, rank=0):
    self.config, self.seen = config, 0

Worker.__init__ = begin
"""
    assert verdict_on(releases, text, "vllm.core.Worker") == ("changed", MISSING)
    text = text.replace("    self.config", "    self.clock = 1\n    self.config")
    assert verdict_on(releases, text, "vllm.core.Worker") == ("holds", "")


def test_a_class_that_another_one_completes_is_not_judged(releases):
    text = OWN.format(call="pass", more="pass") + "\nclass Whole(Mine):\n    clock = 1\n"
    with pytest.raises(StopIteration):
        verdict_on(releases, text)


def test_what_hasattr_asks_for_may_be_missing(project):
    asking = READER.replace(b"return self.clock", b"return hasattr(self, 'clock') and self.clock")
    source = NEXT[CORE].replace(READER, asking)
    assert source != NEXT[CORE]
    project.index.add("0.50.0", archive("0.50.0", VLLM))
    project.index.add("0.51.0", archive("0.51.0", NEXT | {CORE: source}))
    assert verdict_on(project, OWN.format(call="pass", more="pass")) == ("holds", "")


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("self, config, rank=0", ("look again", "yours has no parameter mode")),
        ("self, config, rank=0, mode=1", ("look again", "its body changed")),
        ("self, config, rank=0, **more", ("look again", "its body changed")),
    ],
)
def test_a_new_parameter_of_the_constructor_is_to_be_looked_at(project, own, expected):
    source = VLLM[CORE].replace(b"rank: int = 0)", b"rank: int = 0, *, mode=None)")
    project.index.add("0.50.0", archive("0.50.0", VLLM))
    project.index.add("0.51.0", archive("0.51.0", VLLM | {CORE: source}))
    text = f"""from vllm.core import Runner
class Mine(Runner):
    def __init__({own}):
        super().__init__(config)
"""
    verdict = verdict_of(project, text, "module.Mine.__init__", kind="override")
    assert (verdict["state"], verdict["why"]) == expected
