"""Pages of GraphQL, as GitHub makes them."""

from __future__ import annotations

import base64

from graphql import GraphQLError

LIMIT = 100


def refused(kind, message):
    return GraphQLError(message, extensions={"type": kind})


def cursor(position):
    return base64.b64encode(f"cursor:v2:{position}".encode()).decode()


def position(text):
    return int(base64.b64decode(text).decode().rpartition(":")[2])


def connection(items, info, first=None, after=None):
    """A page of `items`; GitHub wants a `first` where nodes are asked for, of 100 at most."""
    name = info.field_name
    if first is None:
        message = (
            "You must provide a `first` or `last` value to properly paginate the"
            f" `{name}` connection."
        )
        raise refused("MISSING_PAGINATION_BOUNDARIES", message)
    if not 1 <= first <= LIMIT:
        message = (
            f"Requesting {first} records on the `{name}` connection exceeds the `first` limit of"
            f" {LIMIT} records."
        )
        raise refused("EXCESSIVE_PAGINATION", message)
    start = 0 if after is None else position(after)
    chosen = items[start : start + first]
    end = start + len(chosen)
    return {
        "totalCount": len(items),
        "nodes": chosen,
        "edges": [
            {"cursor": cursor(start + count), "node": item} for count, item in enumerate(chosen, 1)
        ],
        "pageInfo": {
            "hasNextPage": end < len(items),
            "hasPreviousPage": start > 0,
            "startCursor": cursor(start + 1) if chosen else None,
            "endCursor": cursor(end) if chosen else None,
        },
    }
