"""REST's search for issues and pull requests."""

from __future__ import annotations

import re

from tests.fake_github.messages import invalid

TERM = re.compile(r'(?:(repo|is|type|state|author|in):)?("[^"]*"|\S+)')
KINDS = {"pr": True, "pull-request": True, "issue": False}
LONGEST_SEARCH = 256


def get_search(rest):
    terms = list(TERM.finditer(rest.request.query["q"]))
    wanted = {}
    for name, value in (term.groups() for term in terms):
        wanted.setdefault(name, []).append(value.strip('"'))
    words = wanted.pop(None, [])
    if len(" ".join(words)) > LONGEST_SEARCH:
        message = f"The search is longer than {LONGEST_SEARCH} characters."
        raise invalid("Search", field="q", message=message)
    repositories = [rest.github.find(name) for name in wanted.pop("repo", [])]
    if None in repositories:
        message = (
            "The listed users and repositories cannot be searched either because the resources"
            " do not exist or you do not have permission to view them."
        )
        raise invalid("Search", field="q", message=message)
    found = [
        (repository, thread)
        for repository in repositories or rest.github.repositories.values()
        for _, thread in sorted(repository.threads.items(), reverse=True)
        if fits(thread, wanted) and mentions(thread, words, wanted.get("in"))
    ]
    items = [rest.shown_issue(*one) | {"score": 1.0} for one in rest.page(found)]
    return {
        "total_count": len(found),
        "incomplete_results": False,
        "search_type": "lexical",
        "items": items,
    }


def fits(thread, wanted):
    """Whether the qualifiers of a search fit, `is:pr` and the like."""
    told = {thread.state, "merged" if thread.merged else "unmerged"}
    told |= {name for name, is_pull in KINDS.items() if is_pull == thread.is_pull}
    told |= {"draft"} if thread.draft else set()
    authors = {one.casefold() for one in wanted.get("author", [])}
    asked = [*wanted.get("is", []), *wanted.get("type", []), *wanted.get("state", [])]
    return told.issuperset(asked) and (not authors or thread.author.casefold() in authors)


def mentions(thread, words, where):
    """Whether all words and phrases occur, as whole words."""
    places = ",".join(where or ["title,body"]).split(",")
    texts = {"title": thread.title, "body": thread.body}
    text = "\n".join([*(texts[place] for place in places), f"#{thread.number}"])
    return all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) for word in words)
