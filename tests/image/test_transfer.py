"""What an engine says while it pushes and pulls."""

from __future__ import annotations

from vpatch.docker.transfer import counted


class Task:
    def __init__(self):
        self.total, self.sent = 0, 0

    def resize(self, total):
        self.total = total

    def advance(self, amount):
        self.sent += amount

    def done(self):
        pass


def event(status, layer=None, **detail):
    return {"status": status, "progressDetail": detail, **({"id": layer} if layer else {})}


def test_bytes_of_all_layers():
    # As an engine says it: layers side by side, and the last figure of one beyond its size.
    events = [
        event("The push refers to repository [127.0.0.1:5000/a]"),
        event("Preparing", "one"),
        event("Pushing", "one", current=100, total=1000),
        event("Pushing", "two", current=5, total=50),
        event("Pushing", "one", current=600, total=1000),
        event("Pushing", "one", current=1024),
        event("Layer already exists", "three"),
        event("Pushing", "two", current=50, total=50),
        event("Pushed", "two"),
        {"progressDetail": {}, "aux": {"Digest": "sha256:1"}},
    ]
    task = Task()
    seen = [(one, task.sent, task.total) for one in counted(events, task)]
    assert [one for one, *_ in seen] == events
    assert [(sent, total) for _, sent, total in seen] == [
        (0, 0),
        (0, 0),
        (100, 1000),
        (105, 1050),
        (605, 1050),
        (1029, 1074),
        (1029, 1074),
        (1074, 1074),
        (1074, 1074),
        (1074, 1074),
    ]


def test_what_is_unpacked_is_not_counted_again():
    events = [
        event("Downloading", "one", current=10, total=10),
        event("Extracting", "one", current=10, total=10),
    ]
    task = Task()
    assert list(counted(events, task)) == events
    assert (task.sent, task.total) == (10, 10)
