"""Which evidence proves a patch as it is proposed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.commands.smoke.builders import SUBJECT, record_of_run, rewritten
from vpatch.commands.upstream.proof import IncomparableError, Judge, difference, unfit
from vpatch.commands.upstream.proposal import _refuse_changed, _source_of
from vpatch.declare.patch import Hardware
from vpatch.evidence.records import SubjectPatch, SubjectPin
from vpatch.evidence.store import read_evidence, write_evidence
from vpatch.library.loading import load_patch
from vpatch.planning.state import Change, Decision, State
from vpatch.trust.decision import EVERYTHING
from vpatch.util import matching

BEFORE = b"""LIMIT = 3
LAYERS = make()


class A:
    X = [1]

    def f(self):
        return 1

    def g(self):
        return 2
"""


def change(*pairs, before=BEFORE):
    after = before
    for old, new in pairs:
        assert old in after
        after = after.replace(old, new)
    return Change(before, after)


EDIT = (b"return 1", b"return 10")


@pytest.mark.parametrize(
    ("ours", "theirs", "path", "said"),
    [
        (change(EDIT), change(EDIT), "a.py", None),
        # Upstream moved on elsewhere in the file.
        (change(EDIT), change(EDIT, before=BEFORE + b"\nMORE = 1\n"), "a.py", None),
        (change(EDIT), change(EDIT, before=BEFORE.replace(b"return 2", b"return 3")), "a.py", None),
        # ... or in what is changed.
        (change(EDIT), change(EDIT, before=BEFORE.replace(b"f(self)", b"f(self, x)")), "a.py",
         "A.f (a.py)"),
        # What has no name that could be compared: by the lines.
        (change(EDIT, (b"[1]", b"[2]")), change(EDIT, (b"[1]", b"[3]")), "a.py", "a.py"),
        (change(EDIT, (b"make()", b"make(1)")), change(EDIT), "a.py", "a.py"),
        (change(EDIT), change(EDIT, (b"LIMIT = 3", b"LIMIT = 4")), "a.py", "LIMIT (a.py)"),
        # Nobody can tell where a change to something else ends.
        (change(EDIT), change(EDIT, before=BEFORE + b"//\n"), "a.cu", "a.cu"),
        (change(EDIT), change(EDIT), "a.cu", None),
    ],
)  # fmt: skip
def test_the_same_change(ours, theirs, path, said):
    assert difference(ours, theirs, path) == said


def run_on(tmp_path, kind, gpus):
    """The record of a run on an engine of a kind, with GPUs of some names."""
    log = tmp_path / "log"
    log.touch()

    def change(document):
        document["engine"]["kind"] = kind
        document["machine"]["gpus"] = [{"name": name} for name in gpus]

    return rewritten(record_of_run(log), change)


@pytest.mark.parametrize(
    ("needs", "kind", "gpus", "said"),
    [
        ({"engine": "cpu"}, "cpu", [], None),
        ({"engine": "cuda"}, "cpu", [], "it ran on cpu, and the patch needs cuda"),
        ({"engine": "cuda"}, "cuda", ["NVIDIA L4"], None),
        ({"engine": "cuda", "gpu": "H[12]00"}, "cuda", ["NVIDIA H200", "NVIDIA H100"], None),
        ({"engine": "cuda", "gpu": "H[12]00"}, "cuda", ["NVIDIA H200", "NVIDIA L4"], "NVIDIA L4"),
        ({"engine": "cuda", "gpu": "H[12]00"}, "cuda", [], "it ran on no GPU"),
    ],
)
def test_hardware(tmp_path, needs, kind, gpus, said):
    found = unfit(Hardware.model_validate(needs), run_on(tmp_path, kind, gpus))
    assert found is None if said is None else said in found


def test_hardware_that_cannot_be_told(tmp_path, monkeypatch):
    monkeypatch.setattr(matching, "_CHILD", matching._CHILD.replace("(10, 11)", "(1, 2)"))
    needs = Hardware.model_validate({"engine": "cuda", "gpu": "(a+)+$"})
    record = run_on(tmp_path, "cuda", ["a" * 60 + "!"])
    assert "it cannot be told whether its GPU is (a+)+$: it is not" in unfit(needs, record)


@pytest.fixture
def patch():
    from vpatch.library.catalog import installed

    return load_patch(installed("patches") / "cpu-spec-decode-expand-copy-back", EVERYTHING)


def smoke(tmp_path, patch, *others, name="one", made="2026-01-01T00:00:00+00:00"):
    """Evidence of a smoke run with a patch, and others."""
    log = tmp_path / "log"
    log.write_text("")
    entries = [{"id": one, "digest": "sha256:1", "variant": None} for one in others]
    mine = {"id": patch.id, "digest": patch.digest, "variant": None}
    subject = [SUBJECT | {"patches": [*entries, mine]}]
    record = record_of_run(log, subject=subject, timestamp=made)
    workdir = tmp_path / name
    (workdir / "logs").mkdir(parents=True)
    write_evidence(workdir, record)
    return read_evidence(workdir)


def judge(patch, *, there=None):
    def decide(_record):
        if there is None:
            raise IncomparableError("it is of a folder that is gone")
        return there

    mine = Decision(patch, State.NEEDED, "", changes={"a.py": change(EDIT)})
    proposal = patch.declaration.proposal
    return Judge(patch, proposal, mine, 30, datetime(2026, 1, 2, tzinfo=UTC), decide)


def test_the_newest_smoke_run_counts_beside_tests(tmp_path, patch):
    there = Decision(patch, State.NEEDED, "", changes={"a.py": change(EDIT)})
    found = [smoke(tmp_path, patch, name=name) for name in ("one", "two")]
    proven = judge(patch, there=there).proven(found)
    assert [one.name for one in proven.smoke] == ["two"]
    assert (proven.tests, proven.rejected) == ({}, ())


def test_a_run_with_more_than_the_patch(tmp_path, patch):
    proven = judge(patch).proven([smoke(tmp_path, patch, "mtp-proj-prefix")])
    assert proven.rejected == ("one: it is of a run with mtp-proj-prefix as well",)
    # But for what it cannot be seen without.
    proven = judge(patch).proven(
        [smoke(tmp_path, patch, "cpu-spec-decode-fp64-gumbel", name="two")]
    )
    assert "it is of a folder that is gone" in proven.rejected[0]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("2026-01-02T12:00:00+00:00", None),  # of a clock that is ahead
        ("2026-01-03T00:00:01+00:00", "it was made in the future"),
        ("9999-12-31T00:00:00+00:00", "it was made in the future"),
        ("2025-12-02T00:00:00+00:00", "it is 31 days old"),
        ("soon", "it does not say when it was made"),
    ],
)
def test_when_it_was_made(tmp_path, patch, made, said):
    there = Decision(patch, State.NEEDED, "", changes={"a.py": change(EDIT)})
    proven = judge(patch, there=there).proven([smoke(tmp_path, patch, made=made)])
    assert proven.rejected == () if said is None else said in proven.rejected[0]


@pytest.mark.parametrize(
    "pin",
    [
        {},
        {"kind": "git"},
        {"kind": "pypi", "version": None},
        {"kind": "folder"},
    ],
)
def test_a_source_that_a_record_does_not_name(patch, pin):
    whole = {"tree": "other", "version": "1", "digest": "sha256:1"} | pin
    with pytest.raises(IncomparableError, match="does not say where its source came from"):
        _source_of(patch, SubjectPin.model_validate(whole), Path())


def test_a_series_that_no_run_had(patch):
    entry = SubjectPatch(id=patch.id, digest=patch.digest)
    with pytest.raises(IncomparableError, match="not those of one run"):
        _refuse_changed([patch], [entry, entry])


def test_another_variant_or_other_files(tmp_path, patch):
    evidence = [smoke(tmp_path, patch)]
    other = Decision(patch, State.NEEDED, "", variant="old", changes={"a.py": change(EDIT)})
    assert "the variant old" in judge(patch, there=other).proven(evidence).rejected[0]
    more = {"a.py": change(EDIT), "b.py": change(EDIT)}
    other = Decision(patch, State.NEEDED, "", changes=more)
    assert (
        "b.py is changed by the patch in one"
        in judge(patch, there=other).proven(evidence).rejected[0]
    )
