"""What a body takes from evidence, which names machines, models and messages of others."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.evidence.test_store import OLD
from vpatch.commands.upstream.parts import _results
from vpatch.commands.upstream.proof import Proven
from vpatch.evidence.documents import document_of
from vpatch.evidence.records import upgraded
from vpatch.evidence.store import read_evidence

EVIL = (
    "`</details><img src=x onerror=y><!-- vpatch --> @everyone fixes #1 [a](https://b) ![c][d]\n\n"
    "# Heading\n~~~"
)


def spoilt(value):
    """Put it at the end of every text of a record."""
    if isinstance(value, dict):
        return {key: spoilt(one) for key, one in value.items()}
    if isinstance(value, list):
        return [spoilt(one) for one in value]
    fixed = {"pass", "fail", "not run", "passed", "failed", "before", "after", "test", "smoke"}
    return value + EVIL if isinstance(value, str) and value not in fixed else value


@pytest.mark.parametrize("name", ["smoke", "behaviour"])
def test_evidence_does_nothing_in_a_body(name):
    evidence = read_evidence(OLD / name)
    spoilt_record = upgraded(spoilt(document_of(evidence.record)))
    evil = SimpleNamespace(folder=evidence.folder, record=spoilt_record, name=name)
    proposal = SimpleNamespace(tests=())
    texts = []
    for one in (evidence, evil):
        copied = type(evidence)(one.folder, one.record)
        proven = Proven({"t": copied} if name == "behaviour" else {}, (copied,) * (name == "smoke"))
        texts.append("\n".join(_results(proposal, proven, "main")))
    plain, text = texts
    assert "\u2039/details>" in text
    for part in ("<img", "<!--", "@everyone", "#1", "](", "][", "\n# H", "\n~~~"):
        assert part not in text, part
    # Nothing but vpatch's own tags, and code spans that end on their line.
    assert not [line for line in text.splitlines() if line.count("`") % 2]
    assert text.count("</details>") == plain.count("</details>")


def test_evidence_as_it_mostly_is_stays_as_it_is():
    evidence = read_evidence(OLD / "smoke")
    _, text = _results(SimpleNamespace(tests=()), Proven({}, (evidence,)), "main")
    assert (evidence.folder / "report.md").read_text().strip() in text
