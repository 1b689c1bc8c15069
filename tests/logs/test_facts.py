from __future__ import annotations

from vpatch.logs.facts import DraftAcceptance


def test_the_course_of_a_long_log_in_points_of_equal_weight():
    acceptance = DraftAcceptance("x.log", 1)
    for line in range(8192):
        acceptance.add(line, 8 if line < 4096 else 1, 10)
    assert len(acceptance.points) <= 513
    assert len({drafted for _, drafted in acceptance.points}) == 1
    assert (acceptance.level, acceptance.course) == (45.0, (80.0, 10.0))
