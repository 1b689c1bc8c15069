"""What a test lets go wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.fake_github.messages import DOCS, Reply, problem


@dataclass
class Fault:
    """What happens to requests with `method` and a path in which the expression `path` is found.

    `answer` is a status, "hang" (no answer until the client or the test ends) or "drop" (the
    connection is closed); with `after`, the request has had its effect by then. `times` may be
    math.inf.
    """

    method: str
    path: str
    answer: int | str
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    after: bool = False
    times: int = 1

    @classmethod
    def rate_limited(cls, method, path, reset, **facts):
        body = {"message": "API rate limit exceeded for user ID 1.", "documentation_url": DOCS}
        headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(reset))}
        return cls(method, path, 403, body, headers, **facts)

    @classmethod
    def secondary_limit(cls, method, path, retry_after, **facts):
        message = (
            "You have exceeded a secondary rate limit. Please wait a few minutes before you try"
            " again."
        )
        body = {"message": message, "documentation_url": DOCS}
        return cls(method, path, 403, body, {"retry-after": str(retry_after)}, **facts)

    @classmethod
    def invalid(cls, method, path, message, resource="PullRequest", **facts):
        errors = [{"resource": resource, "code": "custom", "message": message}]
        return cls(method, path, 422, problem(422, errors=errors), **facts)

    def reply(self):
        default = problem(self.answer)
        return Reply(self.answer, default if self.body is None else self.body, self.headers)
