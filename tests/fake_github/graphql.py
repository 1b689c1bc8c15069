"""GitHub's GraphQL API over the fake's state, by its published schema."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache, partial

from graphql import GraphQLError, build_ast_schema, graphql_sync, parse

from tests.fake_github.graphql_history import git_object
from tests.fake_github.graphql_pages import connection, refused


@cache
def schema(path):
    # To check the schema itself takes seconds, and is GitHub's task.
    return build_ast_schema(parse(path.read_text(), no_location=True), assume_valid=True)


def actor(login):
    return {"__typename": "User", "login": login, "url": f"https://github.com/{login}"}


def state_of(thread):
    return "MERGED" if thread.merged else thread.state.upper()


def files(thread, info, **arguments):
    changes = [
        {"path": path, "additions": 1, "deletions": 1, "changeType": "MODIFIED"}
        for path in thread.files
    ]
    return connection(changes, info, **arguments)


def pull(repository, thread):
    return {
        "__typename": "PullRequest",
        "number": thread.number,
        "title": thread.title,
        "body": thread.body,
        "url": f"https://github.com/{repository.full_name}/pull/{thread.number}",
        "state": state_of(thread),
        "closed": thread.state == "closed",
        "merged": thread.merged,
        "isDraft": thread.draft,
        "isCrossRepository": thread.head_repo != repository.full_name,
        "author": actor(thread.author),
        "baseRefName": thread.base_ref,
        "headRefName": thread.head_ref,
        "headRefOid": thread.head_sha,
        "changedFiles": len(thread.files),
        "files": partial(files, thread),
    }


def pulls(repository, info, **arguments):
    """All orders are that of the numbers: nothing here is ever updated later."""
    states = arguments.pop("states", None)
    order = arguments.pop("orderBy", None) or {"direction": "ASC"}
    chosen = [
        thread
        for _, thread in sorted(repository.threads.items())
        if thread.is_pull and (states is None or state_of(thread) in states)
    ]
    if order["direction"] == "DESC":
        chosen.reverse()
    return connection([pull(repository, thread) for thread in chosen], info, **arguments)


def one_pull(repository, _info, number):
    thread = repository.threads.get(number)
    if thread is None or not thread.is_pull:
        message = f"Could not resolve to a PullRequest with the number of {number}."
        raise refused("NOT_FOUND", message)
    return pull(repository, thread)


def one_repository(github, _info, owner, name, **_options):
    repository = github.find(f"{owner}/{name}")
    if repository is None:
        message = f"Could not resolve to a Repository with the name '{owner}/{name}'."
        raise refused("NOT_FOUND", message)
    return {
        "name": repository.full_name.partition("/")[2],
        "nameWithOwner": repository.full_name,
        "pullRequest": partial(one_pull, repository),
        "pullRequests": partial(pulls, repository),
        "object": partial(git_object, repository),
    }


def query(github):
    reset = datetime.fromtimestamp(github.rate_reset, UTC)
    return {
        "viewer": actor(github.login),
        "repository": partial(one_repository, github),
        "rateLimit": {
            "limit": github.rate_limit,
            "remaining": github.rate_remaining,
            "used": github.rate_limit - github.rate_remaining,
            "cost": 1,
            "resetAt": reset.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
    }


def resolved(source, info, **arguments):
    """A field that is not here is an error: null would be taken for GitHub's answer."""
    if info.field_name not in source:
        where = f"{info.parent_type.name}.{info.field_name}"
        raise GraphQLError(f"tests/fake_github/graphql.py does not answer {where}")
    value = source[info.field_name]
    return value(info, **arguments) if callable(value) else value


def formatted(error):
    """An error as GitHub writes it: its type beside the message."""
    shown = dict(error.formatted)
    return {**shown.pop("extensions", {}), **shown}


def execute(path, github, asked):
    """The answer to a request's body `asked`, by the schema that lies at `path`."""
    result = graphql_sync(
        schema(path),
        asked["query"],
        query(github),
        variable_values=asked.get("variables"),
        operation_name=asked.get("operationName"),
        field_resolver=resolved,
    )
    if result.errors is None:
        return {"data": result.data}
    errors = [formatted(error) for error in result.errors]
    return {"errors": errors} if result.data is None else {"data": result.data, "errors": errors}
