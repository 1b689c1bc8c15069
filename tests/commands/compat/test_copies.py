"""A function that somebody copied from vLLM: what upstream changed in it since."""

from __future__ import annotations

import pytest

from tests.commands.compat.plugins import VLLM
from tests.projects import archive

PLAN = "vllm/plan.py"
ORIGIN = b'''class Planner:
    def plan(self, batches, limit):
        """Plan."""
        total = 0
        chosen = []
        for batch in batches:
            size = len(batch)
            if total + size > limit:
                break
            total += size
            chosen.append(batch)
        self.total = total
        return chosen
'''
# Another layout, a comment, and one statement of its own.
COPY = b"""import vllm


class MyPlanner:
    def plan(self, batches, limit):
        total = 0
        chosen = []
        for batch in batches:
            size = len( batch )
            # Never more than that.
            if total + size > limit:
                break
            total += size
            chosen.append(batch)
        self.total = 2 * total
        return chosen
"""
LONG = b"import vllm\n\n\ndef plan(a):\n" + b"".join(b"    a += %d\n" % n for n in range(2100))
ORIGINAL_NAME = "vllm.plan.Planner.plan"
SHORT = b"def close(handle):\n    handle.close()\n"


@pytest.fixture
def judged(project):
    """Judge a module in a release and in the next one."""

    def judge(text, old, new, *more):
        project.index.add("0.50.0", archive("0.50.0", VLLM | old))
        project.index.add("0.51.0", archive("0.51.0", VLLM | new))
        (project.folder / "module.py").write_bytes(text)
        args = more or ("--vllm", "0.50.0,0.51.0", "--base", "0.50.0")
        run = project.run("compat", project.folder / "module.py", *args, "--json", code=None)
        return run.json

    return judge


def copies(document, release="0.51.0"):
    return {
        one["name"]: one["verdicts"][release] for one in document["items"] if one["kind"] == "copy"
    }


def test_a_copy_holds_as_long_as_the_origin_is_the_same(judged):
    text = ORIGIN.replace(b'        """Plan."""\n', b"        # Plan.\n")
    verdict = copies(judged(COPY, {PLAN: ORIGIN}, {PLAN: text}))["module.MyPlanner.plan"]
    assert (verdict["state"], verdict["where"]) == ("holds", "vllm/plan.py:2")
    assert verdict["why"] == f"9 of its 10 statements are those of {ORIGINAL_NAME}"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (b"if total + size > limit", b"if total + size >= limit", "which changed"),
        (b"def plan(self, batches, limit)", b"def plan(self, batches, limit, most=0)", "changed"),
        (b"def plan(", b"def schedule(", "Planner has no plan"),
    ],
)
def test_a_copy_of_what_changed_is_to_be_looked_at(judged, before, after, why):
    document = judged(COPY, {PLAN: ORIGIN}, {PLAN: ORIGIN.replace(before, after)})
    verdict = copies(document)["module.MyPlanner.plan"]
    assert verdict["state"] == "look again"
    assert why in verdict["why"]
    assert copies(document, "0.50.0")["module.MyPlanner.plan"]["state"] == "holds"


def test_the_diff_of_the_origin_is_shown(judged):
    new = {PLAN: ORIGIN.replace(b"total += size", b"total += size + 1")}
    document = judged(COPY, {PLAN: ORIGIN}, new, "--from", "0.50.0", "--to", "0.51.0")
    (difference,) = document["differences"]
    assert "+            total += size + 1" in difference["diff"]


@pytest.mark.parametrize(
    ("text", "old"),
    [
        # Another name, too few statements in common, too few at all.
        (COPY.replace(b"def plan(", b"def arrange("), {PLAN: ORIGIN}),
        (COPY.replace(b"batch", b"row").replace(b"chosen", b"rows"), {PLAN: ORIGIN}),
        (b"import vllm\n" + SHORT, {}),
        # More statements than anybody compares.
        (LONG, {PLAN: LONG}),
        # Nobody knows which one it is of.
        (COPY, {PLAN: ORIGIN, "vllm/other.py": ORIGIN}),
    ],
)
def test_what_is_not_clearly_a_copy_is_none(judged, text, old):
    assert copies(judged(text, old, old)) == {}


def test_a_copy_that_replaces_its_origin_is_of_that_one(judged):
    text = b"from vllm.plan import Planner\n" + COPY.replace(b"MyPlanner:", b"MyPlanner(Planner):")
    old = {PLAN: ORIGIN, "vllm/other.py": ORIGIN}
    new = old | {PLAN: ORIGIN.replace(b"total = 0", b"total = 1")}
    assert copies(judged(text, old, new))["module.MyPlanner.plan"]["state"] == "look again"


def test_without_a_base_nothing_is_called_a_copy(judged):
    document = judged(COPY, {PLAN: ORIGIN}, {PLAN: ORIGIN}, "--vllm", "0.50.0,0.51.0")
    assert document["base"] is None
    assert copies(document) == {}
