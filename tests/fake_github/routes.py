"""Which of REST's functions answers a request."""

from __future__ import annotations

import re

from tests.fake_github import rest_repositories, rest_threads, search
from tests.fake_github.messages import Refused, Reply
from tests.fake_github.rest import Rest

REPOSITORY = r"/repos/([^/]+/[^/]+)"
NUMBER = r"/([1-9][0-9]*)"
ROUTES = [
    ("GET", "/user", rest_repositories.get_user, 200),
    ("GET", "/rate_limit", rest_repositories.get_rate_limit, 200),
    ("GET", "/search/issues", search.get_search, 200),
    ("GET", REPOSITORY, rest_repositories.get_repository, 200),
    ("GET", f"{REPOSITORY}/tags", rest_repositories.get_tags, 200),
    ("GET", REPOSITORY + r"/compare/(.+?)\.\.\.(.+)", rest_repositories.get_compare, 200),
    ("GET", f"{REPOSITORY}/issues{NUMBER}", rest_threads.get_issue, 200),
    ("GET", f"{REPOSITORY}/pulls", rest_threads.get_pulls, 200),
    ("POST", f"{REPOSITORY}/pulls", rest_threads.post_pull, 201),
    ("GET", f"{REPOSITORY}/pulls{NUMBER}", rest_threads.get_pull, 200),
    ("PATCH", f"{REPOSITORY}/pulls{NUMBER}", rest_threads.patch_pull, 200),
    ("GET", f"{REPOSITORY}/pulls{NUMBER}/files", rest_threads.get_files, 200),
]


def routed(github, request, base):
    for method, pattern, function, status in ROUTES:
        match = re.fullmatch(pattern, request.path)
        if match and method == request.method:
            rest = Rest(github, request, base)
            body = function(rest, *match.groups())
            return Reply(status, body, rest.headers)
    raise Refused(404)
