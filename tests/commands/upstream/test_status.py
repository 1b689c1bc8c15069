"""Three answers, and what to do with them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tests.helpers import fails
from vpatch.commands.upstream.status import Known, advise
from vpatch.declare.patch import Upstream
from vpatch.errors import ExitCode
from vpatch.github.client import Thread
from vpatch.github.threads import Answer, Threads, age
from vpatch.planning.state import Decision, State
from vpatch.source.tree import Pin

NOW = datetime(2026, 1, 2, tzinfo=UTC)


PIN = Pin("vllm", "pypi", "0.23.0", "sha256:1", "vllm.tar.gz")


def decision(state, disagreement=None, needed_in=None):
    declared = SimpleNamespace(needed_in=needed_in or {"vllm": ">=0.20,<0.22"})
    return Decision(SimpleNamespace(declaration=declared), state, "why", disagreement=disagreement)


@pytest.mark.parametrize(
    ("needed_in", "action", "said"),
    [
        ({"vllm": ">=0.20,<0.22"}, "drop", "nothing to carry any more"),
        ({"vllm": ">=0.24"}, "keep", "older than what it is for"),
        (
            {"vllm": ">=0.20", "vllm-metax": "<0.25"},
            "keep",
            "not for this tree, but for vllm-metax",
        ),
        # No version of the other tree needs it.
        ({"vllm": "<0", "vllm-ascend": "<0"}, "drop", "nothing to carry any more"),
        ({"vllm": "<0", "a": "<0", "b": ">=1"}, "keep", "not for this tree, but for b"),
    ],
)
def test_what_is_not_there(needed_in, action, said):
    found = advise(decision(State.ABSENT, needed_in=needed_in), PIN, [])
    assert found.action == action
    assert said in found.reason


def test_nothing_is_concluded_from_what_was_not_asked():
    found = advise(decision(State.NEEDED), PIN, [], ["o/r#1"])
    assert found.reason == "the tree needs it, and what became of o/r#1 is not known"
    found = advise(decision(State.NEEDED), PIN, [known(release="0.24.0")], ["o/r#1"])
    assert "drop it when" in found.reason


def known(state="merged", *, relation="same change", release=None, declared=None, **keys):
    thread = Thread("o/r", 1, keys.pop("kind", "pull request"), state, "t", "ann", "u",
                    "a" * 40 if state == "merged" else None)  # fmt: skip
    upstream = Upstream.model_validate(
        {
            "ref": "o/r#1",
            "is": keys.pop("is_", "pull request"),
            "relation": relation,
            "state": declared or state,
            "release": keys.pop("claims", release),
        }
    )
    return Known(upstream, Answer(thread, NOW, live=True, release=release))


@pytest.mark.parametrize(
    ("state", "disagreement", "threads", "action", "says", "finding"),
    [
        (State.UPSTREAMED, None, [], "drop", "has the effect", False),
        (State.ABSENT, None, [], "drop", "nothing to carry", False),
        (State.ABSENT, "declared needed", [], "port", "declared needed", False),
        (State.CONFLICT, None, [], "port", "why", False),
        (State.BLOCKED, None, [], "port", "why", False),
        (State.APPLIED, None, [], "keep", "carries it", False),
        (State.NEEDED, None, [], "keep", "nothing that was merged", False),
        (State.NEEDED, None, [known("open")], "keep", "nothing that was merged", False),
        # Merged is not released, and released is not pinned.
        (State.NEEDED, None, [known()], "keep", "in no release yet", False),
        (State.NEEDED, None, [known(release="0.24.0")], "keep", "drop it when", False),
        (State.NEEDED, None, [known(release="0.23.0")], "keep", "reverted, or not the same", True),
        (State.NEEDED, None, [known(release="0.9.0"), known(release="0.24.0")], "keep",
         "reverted", True),
        # A cause, or another approach, says nothing of when it can go.
        (State.NEEDED, None, [known(release="0.24.0", relation="cause")], "keep",
         "nothing that was merged", False),
        (State.NEEDED, None, [known(release="0.24.0", relation="different approach")], "keep",
         "nothing that was merged", False),
    ],
)  # fmt: skip
def test_advice(state, disagreement, threads, action, says, finding):
    found = advise(decision(state, disagreement), PIN, threads)
    assert (found.action, found.finding) == (action, finding)
    assert says in found.reason


def test_a_tree_without_a_version_has_no_release_behind_it():
    found = advise(decision(State.NEEDED), replace(PIN, version=None), [known(release="0.1.0")])
    assert "drop it when that is pinned" in found.reason


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (known(), []),
        (known("open", declared="open"), []),
        (known("merged", declared="open", claims=None), ["declared as open, and is merged"]),
        (known("open", kind="issue"), ["declared as a pull request, and is an issue"]),
        (known(release="0.24.0", claims=None), ["declared to be in no release, and is in 0.24.0"]),
        (known(claims="0.24.0"), ["declared to be in 0.24.0, and is in none yet"]),
    ],
)
def test_what_is_declared_otherwise(one, said):
    assert list(one.disagreements) == said


@pytest.mark.parametrize(
    ("old", "said"),
    [
        (timedelta(seconds=5), "less than a minute old"),
        (timedelta(seconds=-5), "less than a minute old"),
        (timedelta(minutes=1), "1 minute old"),
        (timedelta(hours=5, minutes=3), "5 hours old"),
        (timedelta(days=40), "40 days old"),
    ],
)
def test_age(old, said):
    assert age(NOW - old, NOW) == said


def test_a_thread_that_github_was_never_asked_about(tmp_path):
    with fails("upstream.unknown-thread") as caught:
        Threads(tmp_path, None, lambda _: "v{version}").answer("vllm-project/vllm#1")
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
