"""Errors of talking to GitHub, in one clear message each."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from vpatch.errors import UnavailableError, VpatchError
from vpatch.util.versions import is_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from github import GithubException

_BETWEEN = "check for a proxy or a login page in between, and check the API's address"
# What Python raises if an answer has other values than expected.
_ODD = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
_LONGEST_NUMBER = 10
_AGAIN = "run the command again: it goes on where it was"
_TOO_MANY = 429
_LIMITED = {403, _TOO_MANY}
_CLIENT_FAULT = 4  # the first digit of its status


# By HTTP status: the code of the error, what it means, and what to do.
_REFUSALS = {
    401: (
        "github.wrong-token",
        "GitHub does not accept the token",
        "renew it: gh auth login, or set GH_TOKEN",
    ),
    403: (
        "github.no-permission",
        "the token does not permit this: {said}",
        "give it write access to pull requests (classic tokens: the scope public_repo)",
    ),
    404: (
        "github.not-found",
        "it does not exist, or the token cannot see it",
        "check the name, and the token",
    ),
}
_REFUSED = ("github.refused", "GitHub refuses it: {said}", "correct what GitHub names")


class GitHubError(VpatchError):
    """GitHub refused, or failed; `status` is that of HTTP, None if there was no answer."""

    def __init__(
        self,
        what: str,
        status: int | None = None,
        *,
        where: str,
        hint: str | None = None,
        code: str = "",
    ) -> None:
        super().__init__(what, where=where, hint=hint, code=code)
        self.status = status


class GitHubUnavailableError(GitHubError, UnavailableError):
    """GitHub failed, or does not answer now; the same request may succeed later."""

    code = "github.failed"


class UnreachableError(GitHubUnavailableError):
    """There was no answer at all."""

    code = "github.unreachable"


class UnreadableAnswer(Exception):
    """An answer is not from GitHub: a proxy's page, say."""


@contextmanager
def asking(where: str, token: str | None = None) -> Iterator[None]:
    """Turn what PyGithub raises into an error of ours that does not contain the token.

    Raises:
        UnreachableError: no answer came.
        GitHubError: the answer was an error.
    """
    import requests  # noqa: PLC0415
    from github import BadAttributeException, GithubException  # noqa: PLC0415
    from urllib3.exceptions import ReadTimeoutError  # noqa: PLC0415

    from vpatch.util.limited import TooLargeError  # noqa: PLC0415

    try:
        yield
    except requests.Timeout as error:
        raise _late(where) from error
    except TooLargeError as error:
        raise _unreadable(where, str(error)) from error
    except requests.RequestException as error:
        # Its text repeats the request; what urllib3 met is the reason.
        met = error.args[0] if error.args else error
        reason = getattr(met, "reason", met)
        if isinstance(reason, ReadTimeoutError):
            raise _late(where) from error
        cause = str(reason).rpartition(": ")[2]
        raise UnreachableError(
            _without(f"GitHub could not be reached: {cause}", token),
            where=where,
            hint=f"look at the network and the proxy (HTTPS_PROXY), then {_AGAIN}",
        ) from error
    except RuntimeError as error:
        # PyGithub follows a repository to its new name, and nobody to another host.
        if isinstance(error, RecursionError):
            raise _unreadable(where) from error
        if "redirected" not in str(error):
            raise
        raise GitHubError(
            "the answer redirects to another host, and vpatch does not follow it",
            where=where,
            hint="correct the API's address (GITHUB_API_URL, or `api` in the target)",
            code="github.other-host",
        ) from error
    except (UnreadableAnswer, BadAttributeException, *_ODD) as error:
        raise _unreadable(where) from error
    except GithubException as error:
        raise _of(error, where, token) from None  # which repeats what was sent


def _unreadable(where: str, what: str = "the answer is not from GitHub") -> GitHubUnavailableError:
    return GitHubUnavailableError(what, where=where, hint=_BETWEEN, code="github.unreadable-answer")


def _late(where: str) -> UnreachableError:
    return UnreachableError("GitHub did not answer in time", where=where, hint=_AGAIN)


def _of(error: GithubException, where: str, token: str | None) -> GitHubError:
    status = error.status
    reason = _without(_reason_of(error.data), token)
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if (status in _LIMITED or _limits(error.data)) and (
        when := _until(status, headers, reason)
    ) is not None:
        more = "" if token else "; with a token (GH_TOKEN, or gh auth login) it is far higher"
        return GitHubUnavailableError(
            "GitHub's rate limit is used up",
            status,
            where=where,
            hint=f"run it again {when}{more}",
            code="github.rate-limit",
        )
    if status in _REFUSALS:
        code, what, hint = _REFUSALS[status]
    elif status // 100 == _CLIENT_FAULT:
        code, what, hint = _REFUSED
    else:
        return GitHubUnavailableError(
            f"GitHub failed with {status}: {reason}", status, where=where, hint=_AGAIN
        )
    return GitHubError(what.format(said=reason), status, where=where, hint=hint, code=code)


def _limits(data: Any) -> bool:
    """Whether GraphQL says, with a status of its own, that its limit is used up."""
    errors = data.get("errors") if isinstance(data, dict) else None
    return any(isinstance(one, dict) and one.get("type") == "RATE_LIMITED" for one in errors or ())


def _reason_of(data: Any) -> str:
    """The text of an error's body: its message, and the details of each error."""
    if not isinstance(data, dict):
        return str(data or "no reason given").strip().partition("\n")[0][:200]
    parts = [str(data.get("message", "no reason given"))]
    for one in data.get("errors") or ():
        if isinstance(one, dict):
            named = [str(one[key]) for key in ("resource", "field", "code") if one.get(key)]
            parts.append(str(one.get("message") or " ".join(named)))
        else:
            parts.append(str(one))
    return "; ".join(parts)


def _until(status: int, headers: Mapping[str, str], reason: str) -> str | None:
    """When a request may succeed again; None if this is not a rate limit."""
    after = headers.get("retry-after")
    if after is not None and is_number(after, digits=_LONGEST_NUMBER):
        return f"in {after} s"
    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") == "0" and is_number(reset, digits=_LONGEST_NUMBER):
        return f"after {datetime.fromtimestamp(int(reset), UTC):%H:%M:%S} UTC"
    return "in a minute" if status == _TOO_MANY or "rate limit" in reason.lower() else None


def _without(text: str, token: str | None) -> str:
    return text.replace(token, "***") if token else text
