"""What REST's answers are made of."""

from __future__ import annotations

import json
import zlib
from urllib.parse import urlencode

from tests.fake_github.messages import Refused
from tests.fake_github.packages import example
from tests.fake_github.repository import Repository, made_up_sha


def laid_over(answer, facts):
    """An answer with our facts: only those that GitHub tells in this kind of answer."""
    return answer | {name: fact for name, fact in facts.items() if name in answer}


def identity(*parts):
    return zlib.crc32("/".join(map(str, parts)).encode())


class Rest:
    """One request, answered as the description's examples with our facts over them."""

    def __init__(self, github, request, base):
        self.github, self.request, self.base = github, request, base
        self.headers = {}

    def repository(self, full_name):
        found = self.github.find(full_name)
        if found is None:
            raise Refused(404)
        return found

    def thread(self, full_name, number, *, pull):
        repository = self.repository(full_name)
        thread = repository.threads.get(int(number))
        if thread is None or (pull and not thread.is_pull):
            raise Refused(404)
        return repository, thread

    def page(self, items):
        """The page of `items` that is asked for; a Link header tells of the others."""
        query = self.request.query
        size = min(int(query.get("per_page", 30)), 100)
        number = int(query.get("page", 1))
        last = max(1, -(-len(items) // size))
        others = {}
        if number > 1:
            others |= {"prev": min(number - 1, last), "first": 1}
        if number < last:
            others |= {"next": number + 1, "last": last}
        if others:
            where = f"{self.base}{self.request.path}"
            self.headers["Link"] = ", ".join(
                f'<{where}?{urlencode(query | {"page": page})}>; rel="{name}"'
                for name, page in others.items()
            )
        return items[(number - 1) * size : number * size]

    def user(self, login, example_of="pull-request"):
        shown = example(example_of, self.base, "octocat/Hello-World")
        text = json.dumps(shown if "login" in shown else shown["user"])
        return json.loads(text.replace("octocat", login)) | {"id": identity(login)}

    def shown_repository(self, repository, name="full-repository-default-response"):
        shown = example(name, self.base, repository.full_name)
        for other in ("organization", "template_repository", "parent", "source"):
            shown.pop(other, None)
        if name == "pull-request":
            shown = shown["head"]["repo"]
        mine = repository.owner == self.github.login
        facts = {
            "id": identity(repository.full_name),
            "name": repository.full_name.partition("/")[2],
            "owner": self.user(repository.owner),
            "fork": repository.fork_of is not None,
            "clone_url": repository.clone_url,
            "default_branch": repository.default_branch,
            "language": "Python",
            "permissions": {"admin": mine, "push": mine, "pull": True},
        }
        # The description's own example lacks "language", which the description requires.
        return laid_over({"language": None} | shown, facts)

    def side(self, full_name, ref, sha):
        """The head or base of a pull request."""
        if full_name is None:
            return {"label": f"unknown:{ref}", "ref": ref, "sha": sha, "user": None, "repo": None}
        # Forks of strangers need not be told to the fake.
        repository = self.github.find(full_name) or Repository(full_name, fork_of="unknown")
        return {
            "label": f"{repository.owner}:{ref}",
            "ref": ref,
            "sha": sha,
            "user": self.user(repository.owner),
            "repo": self.shown_repository(repository, "pull-request"),
        }

    def facts(self, full_name, thread):
        ended = "2026-02-02T02:02:02Z"
        return {
            "id": identity(full_name, thread.number),
            "number": thread.number,
            "state": thread.state,
            "title": thread.title,
            "body": thread.body or None,
            "user": self.user(thread.author),
            "created_at": "2026-01-01T01:01:01Z",
            "updated_at": ended,
            "closed_at": ended if thread.state == "closed" else None,
            "merged_at": ended if thread.merged else None,
            "merged": thread.merged,
            "merged_by": None,
            "merge_commit_sha": thread.merge_commit_sha,
            "closed_by": None,
            "draft": thread.draft,
            "changed_files": len(thread.files),
            "labels": [],
            "milestone": None,
            "type": None,
            "assignee": None,
            "assignees": [],
            "requested_reviewers": [],
            "requested_teams": [],
            "locked": False,
            "active_lock_reason": None,
            "state_reason": None,
            "auto_merge": None,
        }

    def shown_pull(self, repository, thread, name="pull-request"):
        shown = example(name, self.base, repository.full_name, thread.number)
        facts = self.facts(repository.full_name, thread) | {
            "head": self.side(thread.head_repo, thread.head_ref, thread.head_sha),
            "base": self.side(
                repository.full_name, thread.base_ref, made_up_sha(repository.full_name)
            ),
        }
        return laid_over(shown[0] if isinstance(shown, list) else shown, facts)

    def shown_issue(self, repository, thread):
        shown = example("issue", self.base, repository.full_name, thread.number)
        if thread.is_pull:
            kind = {"merged_at": self.facts(repository.full_name, thread)["merged_at"]}
            shown["pull_request"] |= kind
            shown["html_url"] = shown["pull_request"]["html_url"]
            shown["draft"] = thread.draft
        else:
            del shown["pull_request"]
        return laid_over(shown, self.facts(repository.full_name, thread))
