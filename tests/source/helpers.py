"""What tests of the sources share."""

from __future__ import annotations

from vpatch.progress import Silent


class Notes(Silent):
    """Remembers what was said."""

    def __init__(self):
        self.notes = []
        self.started = []

    def start(self, what, *, total=None, unit="bytes"):
        self.started.append(what)
        return super().start(what, total=total, unit=unit)

    def note(self, message):
        self.notes.append(message)

    @property
    def downloads(self):
        return [what for what in self.started if what.startswith("Downloading")]
