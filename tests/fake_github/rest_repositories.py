"""REST about users, rate limits and repositories."""

from __future__ import annotations

import subprocess

from tests.fake_github.messages import Refused
from tests.fake_github.packages import example


def get_user(rest):
    return rest.user(rest.github.login, "private-user-response-with-public-profile-information")


def get_rate_limit(rest):
    rate = {
        "limit": rest.github.rate_limit,
        "used": rest.github.rate_limit - rest.github.rate_remaining,
        "remaining": rest.github.rate_remaining,
        "reset": rest.github.rate_reset,
    }
    shown = example("rate-limit-overview", rest.base, "")
    shown["resources"] |= {"core": rate, "graphql": rate}
    return shown | {"rate": rate}


def get_repository(rest, full_name):
    repository = rest.repository(full_name)
    shown = rest.shown_repository(repository)
    parent = repository.fork_of and rest.github.find(repository.fork_of)
    if parent:
        above = rest.shown_repository(parent, "pull-request")
        shown |= {"parent": above, "source": above}
    return shown


def get_tags(rest, full_name):
    repository = rest.repository(full_name)
    tags = []
    for name in rest.page(list(reversed(repository.tags))):
        (tag,) = example("tag-items", rest.base, repository.full_name)
        sha = repository.sha(name)
        url = f"{rest.base}/repos/{repository.full_name}/commits/{sha}"
        tags.append(tag | {"name": name, "commit": {"sha": sha, "url": url}})
    return tags


def get_compare(rest, full_name, base, head):
    repository = rest.repository(full_name)
    if repository.git is not None:
        return compared_by_git(rest, repository, base, head)
    left, right = repository.commits(base), repository.commits(head)
    if left is None or right is None:
        raise Refused(404)
    together = any(left <= all_ and right <= all_ for all_ in repository.tags.values())
    if left == right:
        status = "identical"
    elif right <= left:
        status = "behind"
    else:
        status = "ahead" if left <= right or together else "diverged"
    shown = example("commit-comparison", rest.base, repository.full_name)
    ahead = 0 if right <= left else len(right - left)
    return shown | {
        "status": status,
        "ahead_by": ahead,
        "behind_by": 0 if status == "ahead" else len(left - right),
        "total_commits": ahead,
        "commits": shown["commits"][: min(ahead, 1)],
        "files": [],
    }


def compared_by_git(rest, repository, base, head):
    """Only what both sides have in common is told as it is."""
    try:
        sha = repository.ask_git("merge-base", base, head).strip()
    except subprocess.CalledProcessError as error:
        raise Refused(404) from error
    date = repository.ask_git("show", "--no-patch", "--format=%cI", sha).strip()
    shown = example("commit-comparison", rest.base, repository.full_name)
    shared = shown["merge_base_commit"] | {"sha": sha}
    by = {"name": "A", "email": "a@example.com", "date": date}
    shared["commit"] |= {"author": by, "committer": by}
    return shown | {"merge_base_commit": shared, "files": []}
