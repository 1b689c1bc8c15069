"""README and documentation are in plain English: what a program can check of that."""

from __future__ import annotations

import re

import pytest

from tests.documents import pages

# Each with what to write instead.
REFUSED = {
    r"of which|whom": "name the thing again, in a sentence of its own",
    r"stands?(?! alone)": "is, is there, means",
    r"(?:is|are) said": "name who says it: vpatch says, the report names",
    r"(?:is|are) none of|is none": "is not, has no",
    r"said to be": "is reported as, is listed as",
    r"(?<!there )is no (?!longer)": "is not a",
    r"mended|mends?": "fixes, corrects",
    r"all the same": "anyway",
    r"what became of it": "the result",
    r"for ever|as it were|so as to|in order to": "leave it out, or write to",
    r"herein|thereof|whereby|wherein|therein": "write here, of it, by which, in it",
    r"utili[sz]e|leverage|simply|obviously|seamless(?:ly)?": "use; or leave it out",
}
MOST_WORDS = 30
FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)


def prose(text):
    """The paragraphs and list items of a page, without code, tables, headings and HTML."""
    text = FENCED.sub("\n\n", text)
    text = re.sub(r"^(?:\||#|:::|    :|<|\s*- `[^`]*`$).*", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "CODE", text)
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text)
    return [" ".join(part.split()) for part in parts if part.strip()]


def sentences(text):
    return [one for part in prose(text) for one in re.split(r"(?<=[.?!:;])\s+", part)]


PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_odd_phrases_are_refused(name):
    # Tables count here: they are sentences as well.
    text = re.sub(r"`[^`\n]*`", "CODE", FENCED.sub("", PAGES[name]))
    found = [
        f"{match[0]!r}, write: {better}"
        for phrase, better in REFUSED.items()
        for match in re.finditer(rf"\b(?:{phrase})\b", text, re.IGNORECASE)
    ]
    assert found == []


@pytest.mark.parametrize("name", PAGES)
def test_sentences_are_short(name):
    long = [one for one in sentences(PAGES[name]) if len(one.split()) > MOST_WORDS]
    assert long == []


def test_what_is_refused_and_what_is_not():
    text = "# Head of which\n\nOne two. Three\nfour.\n\n- five `six seven`\n\n```\nwhom\n```\n"
    assert sentences(text) == ["One two.", "Three four.", "- five CODE"]
