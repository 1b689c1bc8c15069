"""Requests and replies as the fake has them, and errors in GitHub's shape."""

from __future__ import annotations

from dataclasses import dataclass, field

DOCS = "https://docs.github.com/rest"
MESSAGES = {401: "Bad credentials", 403: "Forbidden", 404: "Not Found", 422: "Validation Failed"}


@dataclass
class Request:
    """`headers` by their names in small letters, `body` as JSON."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: object

    @property
    def token(self):
        return self.headers.get("authorization", "").partition(" ")[2]


@dataclass
class Reply:
    status: int
    body: object
    headers: dict[str, str] = field(default_factory=dict)


class Refused(Exception):
    def __init__(self, status, **facts):
        super().__init__(status)
        self.reply = Reply(status, problem(status, **facts))


def problem(status, message=None, errors=None):
    """The body of an error, in GitHub's shape."""
    default = "Server Error" if status >= 500 else f"Error {status}"
    body = {"message": message or MESSAGES.get(status, default)}
    if errors is not None:
        body["errors"] = errors
    return body | {"documentation_url": DOCS, "status": str(status)}


def invalid(resource, **facts):
    return Refused(422, errors=[{"resource": resource, "code": "invalid"} | facts])
