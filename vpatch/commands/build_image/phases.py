"""The phases of an image build, as its output shows them: a line for each, and what it is at."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from textwrap import shorten
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.progress import Progress, Task

_STEP_WIDTH = 88
_ITEM_WIDTH = 40
# What BuildKit puts before each line: the number of the step, and its seconds.
_PREFIX = re.compile(r"#\d+ (?:\d+\.\d+ )?")
_STEP = re.compile(r"Step \d+/\d+ : (\w+)")
# The others take no time.
_WORKING = {"FROM", "RUN", "COPY", "ADD"}
_APT = re.compile(r"Get:\d+ \S+ \S+ \S+ (\S+) \S+ \S+ \[")
_DPKG = re.compile(r"(?:Unpacking|Setting up) ([^\s:]+)")
_PIP = re.compile(r"\s*(?:Collecting|Downloading) ([^\s(]+)")
_PIP_INSTALL = re.compile(r"Installing collected packages: (.+)")
_NINJA = re.compile(r"\[(\d+)/(\d+)\] (?:Building|Linking|Generating)")


@dataclass
class BuildPhases:
    """Tasks that follow one another: one begins when the last one ends.

    Of a step's output, each phase is told once. A terminal also shows which package or file it is
    at.
    """

    progress: Progress
    _task: Task | None = None
    _told: set[str] = field(default_factory=set)
    _phase: str = ""

    def step(self, name: str) -> None:
        """Begin a step of a Dockerfile, unless it takes no time or was told."""
        instruction = _STEP.match(name)
        if name in self._told or (instruction and instruction[1] not in _WORKING):
            return
        self._phase = ""
        self._begin(name)

    def line(self, text: str) -> None:
        """Look at a line of the output."""
        for phase, item in _phases(_PREFIX.sub("", text, count=1).rstrip()):
            if phase != self._phase and phase not in self._told:
                self._phase = phase
                self._begin(phase)
            if self._task is not None and item:
                self._task.describe(shorten(item, _ITEM_WIDTH, placeholder="..."))

    def end(self) -> None:
        if self._task is not None:
            self._task.done()
            self._task = None

    def _begin(self, what: str) -> None:
        self.end()
        self._told.add(what)
        # A step may be a whole script; the log has it.
        self._task = self.progress.start(shorten(what, _STEP_WIDTH, placeholder=" ..."))


def _phases(line: str) -> Iterator[tuple[str, str]]:
    if match := _APT.match(line):
        yield "Fetching Debian packages", match[1]
    elif match := _DPKG.match(line):
        yield "Installing Debian packages", match[1]
    elif match := _PIP_INSTALL.match(line):
        yield f"Installing {len(match[1].split(','))} Python packages", ""
    elif match := _PIP.match(line):
        yield "Fetching Python packages", match[1]
    elif match := _NINJA.match(line):
        yield "Compiling", f"{match[1]} of {match[2]}"
