"""What the texts of others do in the body of a pull request: nothing."""

from __future__ import annotations

from vpatch.util.markdown import escape, fence_of


def test_a_subject_of_upstream_tells_nobody_and_breaks_no_line():
    text = escape("[Fix] a @user and <img> `x` #1\n# Heading")
    assert text == r"\[Fix\] a \uff20user and \<img\> \`x\` \#1 \# Heading".replace(
        r"\uff20", "\uff20"
    )
    assert escape("a @ b") == "a @ b"


def test_an_underscore_is_escaped_where_it_can_be_markup():
    assert escape("gpu_model_runner _x_ __init__") == r"gpu_model_runner \_x\_ \_\_init\_\_"


def test_no_line_of_a_text_ends_its_fence():
    assert fence_of("a") == "```"
    assert fence_of("a `````\n```") == "``````"
