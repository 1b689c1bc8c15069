"""What upstream's texts do in the body of a pull request: nothing."""

from __future__ import annotations

from vpatch.commands.bump.markdown import _escape


def test_a_subject_of_upstream_tells_nobody_and_breaks_no_line():
    text = _escape("[Fix] a @user and <img> `x` #1\n# Heading")
    assert text == r"\[Fix\] a \uff20user and \<img\> \`x\` \#1 \# Heading".replace(
        r"\uff20", "\uff20"
    )
    assert _escape("a @ b") == "a @ b"
