"""One cause of several errors is said once, with all places."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.projects import VERSION
from vpatch.errors import UsageError, VpatchError, by_cause
from vpatch.planning.state import State
from vpatch.workspace.checkout import refuse_stopping


def untrusted(name):
    return VpatchError(
        "its code is not run", where=f"patches/{name}", hint=f"vpatch trust patches/{name}"
    )


def test_one_cause_at_several_places_is_one_error():
    other = UsageError("another", where="patches/b", hint="look at patches/b")
    first, second = by_cause([untrusted("a"), other, untrusted("b"), untrusted("c")])
    assert str(first) == (
        "patches/a, patches/b, patches/c: its code is not run\n"
        "  next: vpatch trust patches/a patches/b patches/c"
    )
    assert second is other


def test_errors_without_a_place_or_of_other_codes_stay():
    errors = [VpatchError("a"), VpatchError("a"), VpatchError("a", where="x"), untrusted("a")]
    errors.append(VpatchError("its code is not run", where="patches/b", hint="another"))
    assert by_cause(errors) == errors


def test_a_run_says_a_cause_once(proven):
    proven.trusting = False
    (proven.patches / "slow-mode" / "patch.yaml").write_text(
        (proven.patches / "name-proj" / "patch.yaml").read_text().replace("name-proj", "slow-mode")
    )
    (proven.patches / "slow-mode" / "test_it.py").write_text("")
    run = proven.run("test", "--engine", "cpu", code=1)
    assert run.err.count("nothing of it runs: you did not trust it") == 1
    assert "vpatch trust patches/name-proj patches/slow-mode\n" in run.err
    # Scripts get each of them.
    found = proven.run("test", "--engine", "cpu", "--json", code=1)
    assert found.codes == ("trust.not-trusted",) * 2


def test_patches_that_stop_for_one_reason_are_named_together():
    def stopping(name, reason):
        return SimpleNamespace(
            patch=SimpleNamespace(id=name), state=State.UNTRUSTED, reason=reason, shape=None
        )

    decisions = [
        stopping("a-x", "patches/a-x: its code is not run"),
        stopping("b-x", "patches/b-x: its code is not run"),
        stopping("c-x", "another reason"),
    ]
    plan = SimpleNamespace(pin=SimpleNamespace(label=f"vllm-{VERSION}"))
    plan.stopping = lambda **_: decisions
    with pytest.raises(VpatchError) as caught:
        refuse_stopping([plan], asked_for=False)
    first, second = caught.value.errors
    assert first.what == "a-x, b-x are all untrusted: patches/a-x: its code is not run"
    assert second.what == "c-x is untrusted: another reason"
