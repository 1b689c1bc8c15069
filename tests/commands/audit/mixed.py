"""A vLLM that has some holes, cures of others, and defects that no patch can read."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.commands.audit.cases import CURED, ELSEWHERE, HOLE, OTHER_CURE, fix, plan_of
from tests.commands.audit.cases import recorded as record
from vpatch.commands.audit.judge import Status, judge
from vpatch.commands.audit.result import AuditedTree
from vpatch.library.advisories import shipped_advisories

VERSION = "0.23.0"
AT = datetime(2026, 11, 23, tzinfo=UTC)
ADVISORIES = shipped_advisories()
CLAIMED = {one.id for one in ADVISORIES.all if one.covers(VERSION)}
# An advisory for each status: the code that the tree has, and the patches that it carries.
APPLIED, UPSTREAMED, ABSENT = "CVE-2026-54235", "CVE-2026-54236", "CVE-2026-55646"
CODE = {
    "CVE-2026-12491": (HOLE, Status.AFFECTED),
    "CVE-2026-54233": (OTHER_CURE, Status.UNDER_INVESTIGATION),
    APPLIED: (CURED, Status.FIXED),
    UPSTREAMED: (CURED, Status.FIXED),
    ABSENT: (ELSEWHERE, Status.NOT_AFFECTED),
}
CURED_ONES = {APPLIED, UPSTREAMED, ABSENT}


def mixed_tree(folder):
    """Audit it by vpatch's own advisories; the patches are written into a folder."""
    plain = plan_of([], HOLE, version=VERSION)
    findings = {one.advisory.id: one for one in judge(ADVISORIES.all, plain)}
    for name, (code, status) in CODE.items():
        # A vendor's 0.23.0 may have a cure, and then the patch must not say that it is needed.
        needed = "<0.23" if name in {UPSTREAMED, ABSENT} else "<0.24"
        patch = fix(folder / name, f"[{{id: {name}}}]", needed=needed)
        patch = record(patch, absent_in=VERSION if name == ABSENT else "0.25.0")
        carried = {patch.id} if name == APPLIED else ()
        released = name == ABSENT
        made = plan_of([patch], code, version=VERSION, carried=carried, released=released)
        (findings[name],) = judge([one for one in ADVISORIES.all if one.id == name], made)
        assert findings[name].status is status
    return AuditedTree("a vllm", plain, tuple(findings.values()))
