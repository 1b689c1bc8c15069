"""What a checkout has now, against the one that it replaced, in words."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vpatch.checkout.lock_changes import changes_since


def lock(patches, version="0.23.0", skipped=()):
    """A lock, of patches such as "a1": their ids and digests."""
    return SimpleNamespace(
        source=SimpleNamespace(version=version, digest=f"sha256:{version}"),
        patches=[SimpleNamespace(id=p[0], digest=p[1], variant=p[2:] or None) for p in patches],
        skipped=[SimpleNamespace(id=one, state="upstreamed") for one in skipped],
    )


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (lock(["a1"]), lock(["a1"]), ": 1 patch as before"),
        (
            lock(["a1", "b1"]),
            lock(["b1", "c1", "d1"]),
            ": 2 new: c, d; 1 gone: a; 1 patch as before",
        ),
        (lock(["a1", "b1"]), lock(["a2", "b1x"]), ": 2 changed: a, b"),
        (lock(["a1"]), lock([], "0.24.0", ["a"]), ", on 0.23.0: 1 gone: a (upstreamed)"),
        (lock(["a1"], None), lock(["a1"]), ", on sha256:None: 1 patch as before"),
        (lock([]), lock([]), ": no patch, as before"),
    ],
)
def test_changes_in_words(before, now, said):
    assert str(changes_since(before, now)) == f"since the last apply{said}"
