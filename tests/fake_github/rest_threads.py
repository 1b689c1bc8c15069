"""REST about issues and pull requests."""

from __future__ import annotations

from tests.fake_github.messages import Refused, invalid
from tests.fake_github.packages import example


def get_issue(rest, full_name, number):
    return rest.shown_issue(*rest.thread(full_name, number, pull=False))


def get_pull(rest, full_name, number):
    return rest.shown_pull(*rest.thread(full_name, number, pull=True))


def get_files(rest, full_name, number):
    _, thread = rest.thread(full_name, number, pull=True)
    (shown,) = example("diff-entry-items", rest.base, full_name)
    found = []
    for path in rest.page(thread.files):
        file = shown | {"filename": path, "status": "modified"}
        if path in thread.patches:
            file["patch"] = thread.patches[path]
            if (thread.patches[path] or "").startswith("@@ -0,0 "):
                file["status"] = "added"
        # GitHub leaves it out where it is large.
        found.append({key: value for key, value in file.items() if value is not None})
    return found


def get_pulls(rest, full_name):
    repository = rest.repository(full_name)
    query = rest.request.query
    state, base, head = query.get("state", "open"), query.get("base"), query.get("head", "")
    owner, _, branch = head.partition(":")
    chosen = [
        thread
        for _, thread in sorted(repository.threads.items(), reverse=True)
        if thread.is_pull
        and state in {thread.state, "all"}
        and base in {thread.base_ref, None}
        # As GitHub does: a head without an owner chooses nothing.
        and (not branch or head_of(thread) == (owner.casefold(), branch))
    ]
    return [
        rest.shown_pull(repository, thread, "pull-request-simple-items")
        for thread in rest.page(chosen)
    ]


def head_of(thread):
    return (thread.head_repo or "").partition("/")[0].casefold(), thread.head_ref


def post_pull(rest, full_name):
    repository = rest.repository(full_name)
    asked = rest.request.body
    if not asked.get("title"):
        errors = [{"resource": "PullRequest", "field": "title", "code": "missing_field"}]
        raise Refused(422, errors=errors)
    if not repository.has_branch(asked["base"]):
        raise invalid("PullRequest", field="base")
    head, branch = head_of_network(rest, repository, asked["head"])
    for thread in repository.threads.values():
        sides = (thread.base_ref, thread.head_repo, thread.head_ref)
        if thread.state == "open" and sides == (asked["base"], head.full_name, branch):
            message = f"A pull request already exists for {head.owner}:{branch}."
            raise invalid("PullRequest", code="custom", message=message)
    thread = repository.add_pull(
        asked["title"],
        body=asked.get("body") or "",
        author=rest.github.login,
        draft=asked.get("draft", False),
        head_ref=branch,
        head_repo=head.full_name,
        head_sha=head.head(branch),
        base_ref=asked["base"],
    )
    return rest.shown_pull(repository, thread)


def head_of_network(rest, repository, head):
    """The repository and branch that `OWNER:BRANCH` names among the forks of a repository."""
    owner, _, branch = head.rpartition(":")
    for one in rest.github.repositories.values():
        if (
            repository.full_name in {one.full_name, one.fork_of}
            and one.owner.casefold() == (owner or repository.owner).casefold()
            and one.has_branch(branch)
        ):
            return one, branch
    raise invalid("PullRequest", field="head")


def patch_pull(rest, full_name, number):
    repository, thread = rest.thread(full_name, number, pull=True)
    asked = rest.request.body
    if thread.merged and asked.get("state") == "open":
        raise invalid("PullRequest", field="state")
    thread.title = asked.get("title", thread.title)
    thread.body = asked.get("body", thread.body) or ""
    thread.state = asked.get("state", thread.state)
    thread.base_ref = asked.get("base", thread.base_ref)
    return rest.shown_pull(repository, thread)
