"""Tell GitHub what run.sh did: the summary of the job, annotations, documents and outputs.

    report.py finish FOLDER CODE     write all of it, from what run.sh left in FOLDER
    report.py tests FOLDER           print what `vpatch test --json` says, for the log
    report.py is-own                 end with 0 if the job is not for a pull request of a fork
    report.py commits                print the base and the head of the pull request
    report.py patches LIST [CHANGED] print the project's patches, or those with a changed file

LIST is what `vpatch list --json` prints, and CHANGED what `git diff --name-only -z` prints. The
script needs nothing but Python, and reads only what `vpatch COMMAND --json` documents.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SEVERITIES = ("low", "moderate", "high", "critical")
_ENDINGS = {"openvex": "openvex.json", "cyclonedx": "cdx.json", "markdown": "md"}
# GitHub takes 1 MiB of each step. A bump writes its report before.
_LARGEST_SUMMARY = 900_000
_LARGEST_DIFF = 60_000
_NOT_IN_RECIPE = "library.not-in-recipe"
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")
_FORK = (
    "This pull request is from a fork, so the job has no secrets: nothing is uploaded, and nothing "
    "is pushed."
)


@dataclass(frozen=True)
class Step:
    """A command that run.sh ran: `kind` is the command, and `name` what it was about."""

    folder: Path
    kind: str
    name: str
    code: int
    # A document of vpatch; see docs/reference/json.md. Empty if it printed none.
    document: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Step:
        kind, name, code = (
            os.fsdecode((folder / part).read_bytes()) for part in ("kind", "name", "code")
        )
        try:
            document = json.loads((folder / "answer.json").read_text())
        except (OSError, ValueError):
            document = {}
        return cls(folder, kind, name, int(code), document)

    @property
    def result(self) -> dict[str, Any]:
        return self.document.get("result") or {}

    @property
    def errors(self) -> list[dict[str, Any]]:
        return self.document.get("errors") or []


def finish(folder: Path, code: int) -> None:
    steps = [Step.read(path) for path in sorted((folder / "steps").glob("*"))]
    fork = is_fork()
    failure = _text(folder / "failure")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in workflow_commands(steps, failure):
            print(line)
    outputs = {"fork": str(fork).lower(), "upload": "false"}
    if os.environ.get("REPORTS"):
        outputs |= write_documents(steps, Path(os.environ["REPORTS"]))
        outputs["upload"] = str("sarif" in outputs and not fork).lower()
    if os.environ.get("GITHUB_OUTPUT"):
        with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in outputs.items())
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        notes = [*([_FORK] if fork else []), *_text(folder / "notes").splitlines()]
        text = "\n".join(summary(steps, notes, failure, code))
        data = text.encode(errors="backslashreplace")
        if len(data) > _LARGEST_SUMMARY:
            cut = data[:_LARGEST_SUMMARY].decode(errors="ignore")
            data = f"{cut}\n\nThe summary is too long for GitHub, and ends here.\n".encode()
        with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("ab") as file:
            file.write(data)


# The summary


def summary(steps: Sequence[Step], notes: Sequence[str], failure: str, code: int) -> Iterator[str]:
    """Yield the lines of the summary. A bump that did its work has its own report."""
    checks = [step for step in steps if step.kind != "show"]
    if checks:
        kinds = " and ".join(dict.fromkeys(f"vpatch {step.kind}" for step in checks))
        yield f"## {kinds}: {'passed' if code == 0 else 'failed'}"
        yield ""
    for note in notes:
        yield from (_escape(note), "")
    if failure or (code and not any(step.code for step in checks)):
        yield from (f"The step failed with exit code {code}.", "")
        yield from _fenced(failure or "The log has the message.")
    for step in checks:
        yield from _SECTIONS[step.kind](step)
        for error in step.errors:
            where = f"{error['where']}: " if error["where"] else ""
            hint = f"\n  next: {error['hint']}" if error["hint"] else ""
            yield from _fenced(f"error: {where}{error['what']}{hint}")
        if step.code and not step.document:
            yield from _fenced(_text(step.folder / "errors") or "The log has the message.")
    yield from _effects([step for step in steps if step.kind == "show"])


def _check(step: Step) -> Iterator[str]:
    differences = step.result.get("differences", [])
    yield f"### {_escape(step.name)}"
    yield ""
    if not step.code:
        yield "Patches and recipe are as locked."
    yield from (f"- {_escape(line)}" for line in differences)
    if step.result.get("hint"):
        yield f"- next: {_code(step.result['hint'])}"
    yield ""


def _audit(step: Step) -> Iterator[str]:
    if step.code and step.result:
        count = len(list(open_advisories(step)))
        least = os.environ.get("FAIL_ON") or _SEVERITIES[0]
        yield f"**{count} of severity {least} or more, or of unknown severity, count.**"
        yield ""
    yield _text(step.folder / "document.markdown")


def _test(step: Step) -> Iterator[str]:
    examples = step.result.get("examples", [])
    hold = sum(not one["failures"] for one in examples)
    yield f"{hold} of {len(examples)} examples hold."
    yield ""
    for title, details in _failed_tests(step):
        yield from (f"- {_escape(title)}", "")
        yield from _fenced(details)


_SECTIONS = {"check": _check, "audit": _audit, "test": _test}


def _effects(steps: Sequence[Step]) -> Iterator[str]:
    """Show what the changed patches of a pull request make of the releases of its recipes."""
    if not steps:
        return
    yield from ("## What the changed patches do", "")
    by_patch: dict[str, list[Step]] = {}
    for step in steps:
        by_patch.setdefault(step.name, []).append(step)
    for name, of_patch in by_patch.items():
        yield from (f"### {_escape(name)}", "")
        shown = [step for step in of_patch if not _is_elsewhere(step)]
        if not shown:
            yield from ("No recipe of the project takes it, so there is no release to show.", "")
        for step in shown:
            for effect in step.result.get("effects", []):
                yield from _effect(effect)
            for error in step.errors:
                yield from (f"- It cannot be shown: {_escape(error['what'])}", "")


def _is_elsewhere(step: Step) -> bool:
    return any(error["code"] == _NOT_IN_RECIPE for error in step.errors)


def _effect(effect: dict[str, Any]) -> Iterator[str]:
    version = effect["version"] or "without a version"
    place = f"{effect['tree']} {version}, recipe {effect['recipe']}"
    yield from (f"- {_escape(place)}: {effect['state']}; {_escape(effect['reason'])}", "")
    diff = effect["diff"]
    if len(diff) > _LARGEST_DIFF:
        diff = f"{diff[:_LARGEST_DIFF]}\n(The rest of {len(diff)} characters is left out.)\n"
    if diff:
        files = len(effect["files"])
        yield f"<details><summary>The diff of {files} file{'s' * (files != 1)}</summary>"
        yield ""
        yield from _fenced(diff, "diff")
        yield from ("</details>", "")


def _failed_tests(step: Step) -> Iterator[tuple[str, str]]:
    """Yield a title and the details of each example, and of each hook, that fails."""
    for one in step.result.get("examples", []):
        if one["failures"]:
            yield f"{one['patch']}: the example {one['example']} fails", "\n".join(one["failures"])
    for one in step.result.get("style", []):
        for hook in one["failed"]:
            what = f"{hook['hook']} of vLLM {one['release']} refuses what it writes"
            yield f"{one['patch']}: {what}", hook["details"]


def tests(folder: Path) -> Iterator[str]:
    """Yield the lines of the log."""
    answer = json.loads(_text(folder / "answer.json"))["result"] or {}
    for one in answer.get("examples", []):
        yield f"{'fails' if one['failures'] else 'holds'}  {one['patch']}  {one['example']}"
        yield from one["failures"]
    for one in answer.get("style", []):
        yield f"{'fails' if one['failed'] else 'holds'}  {one['patch']}  upstream's style"
        yield from (f"{hook['hook']}: {hook['details']}" for hook in one["failed"])
        yield from (f"not judged  {one['patch']}: {reason}" for reason in one["not_judged"])


def _fenced(text: str, language: str = "") -> Iterator[str]:
    fence = _ticks(text, 3)
    yield from (f"{fence}{language}", text.rstrip("\n"), fence, "")


def _code(text: str) -> str:
    """Return a text on one line as code, which no backtick in it ends."""
    ticks = _ticks(text, 1)
    padding = " " if "`" in text else ""
    return f"{ticks}{padding}{' '.join(text.splitlines())}{padding}{ticks}"


def _ticks(text: str, least: int) -> str:
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)


def _escape(text: str) -> str:
    """Return a text on one line, in which nothing is markup, and nobody is called."""
    return _SPECIAL.sub(r"\\\1", re.sub(r"@(?=\w)", "\uff20", " ".join(text.splitlines())))


# The annotations


def workflow_commands(steps: Sequence[Step], failure: str) -> Iterator[str]:
    """Yield annotations, with file and line where there is one."""
    if failure:
        yield annotation("error", failure, title="vpatch")
    for step in steps:
        title = f"vpatch {step.kind}"
        if step.kind == "show":
            continue
        if step.kind == "check" and step.result.get("differences"):
            text = "\n".join([*step.result["differences"], f"next: {step.result['hint']}"])
            yield annotation("error", text, step.name, title=title)
        if step.kind == "test":
            for what, details in _failed_tests(step):
                patch = what.partition(":")[0]
                yield annotation("error", f"{what}\n{details}", _patch_file(patch), title=title)
        for error in step.errors:
            text = f"{error['what']}\nnext: {error['hint']}" if error["hint"] else error["what"]
            yield annotation("error", text, error["where"], title=title)
    yield from _audit_annotations([step for step in steps if step.kind == "audit" and step.result])


def _audit_annotations(steps: Sequence[Step]) -> Iterator[str]:
    title = "vpatch audit"
    expired: dict[str, tuple[str, str]] = {}
    unused: Counter[str] = Counter()
    why: dict[str, str] = {}
    for step in steps:
        counting = list(open_advisories(step))
        names = ", ".join(f"{one['id']} ({one['severity'] or 'unknown'})" for one in counting)
        if counting:
            verb = "advisory affects" if len(counting) == 1 else "advisories affect"
            text = f"{len(counting)} {verb} the recipe {step.name}: {names}"
            yield annotation("error", text, _declared(step), title=title)
        for one in _advisories(step):
            accepted = one["accepted"]
            if accepted and accepted["expired"]:
                level = "error" if one in counting else expired.get(accepted["where"], [""])[0]
                text = f"{one['id']} was accepted until {accepted['until']}, and counts again"
                expired[accepted["where"]] = (level or "warning", text)
        for one in step.result.get("unused_accepted", []):
            unused[one["where"]] += 1
            why[one["where"]] = f"{one['id']} is accepted, and {one['why']}"
    for where, (level, text) in expired.items():
        yield annotation(level, text, where, title=title)
    for where, count in unused.items():
        if count == len(steps):
            yield annotation("warning", why[where], where, title=title)


def _advisories(step: Step) -> Iterator[dict[str, Any]]:
    for tree in step.result.get("trees", []):
        yield from tree["advisories"]


def open_advisories(step: Step) -> Iterator[dict[str, Any]]:
    """Yield what makes `vpatch audit` end with 1."""
    least = _SEVERITIES.index(os.environ.get("FAIL_ON") or _SEVERITIES[0])
    for one in _advisories(step):
        accepted = one["accepted"]
        if one["status"] != "affected" or (accepted and not accepted["expired"]):
            continue
        if one["severity"] is None or _SEVERITIES.index(one["severity"]) >= least:
            yield one


def _declared(step: Step) -> str | None:
    for tree in step.result["trees"]:
        if tree["declared"]:
            return f"{tree['declared']['path']}:{tree['declared']['line']}"
    return None


def _patch_file(patch: str) -> str | None:
    return next((str(path) for path in sorted(Path().glob(f"**/{patch}/patch.yaml"))), None)


def annotation(level: str, text: str, where: str | None = None, *, title: str) -> str:
    """Return a workflow command. `where` is PATH or PATH:LINE; elsewhere than here it is text."""
    properties = {}
    if where:
        path, _, line = where.rpartition(":") if re.search(r".:\d+$", where) else (where, "", "")
        file = _file_here(path)
        if file is not None:
            properties["file"] = file
            if line:
                properties["line"] = line
        else:
            text = f"{where}: {text}"
    properties["title"] = title
    words = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {words}::{_data(text)}"


def _file_here(path: str) -> str | None:
    """The path of a file of the repository. Others may name what no file system takes."""
    try:
        place = Path(path).resolve()
        return place.relative_to(Path.cwd().resolve()).as_posix() if place.exists() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _data(text: str) -> str:
    """Escape a text as GitHub's toolkit does: it would end at a line end."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# The documents


def write_documents(steps: Sequence[Step], folder: Path) -> dict[str, str]:
    """Write the documents of audits: one SARIF with a run for each recipe, and the others each."""
    folder.mkdir(parents=True, exist_ok=True)
    outputs = {"reports": str(folder)}
    asked = (os.environ.get("FORMAT") or "sarif").split()
    runs: list[dict[str, Any]] = []
    for step in steps:
        # Files were given by name, or by path.
        name = re.sub(r"[^\w.-]+", "-", step.name)
        for form in asked:
            text = _text(step.folder / f"document.{form}")
            if not text:
                continue
            if form == "sarif":
                # GitHub takes several runs of a tool if each has its own category.
                category = {"automationDetails": {"id": f"vpatch/{name}/"}}
                runs += [run | category for run in json.loads(text)["runs"]]
                document = json.loads(text) | {"runs": runs}
            else:
                (folder / f"{name}.{_ENDINGS[form]}").write_text(text, encoding="utf-8")
    if runs:
        path = folder / "vpatch.sarif"
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        outputs["sarif"] = str(path)
    return outputs


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


# What run.sh asks


def _pull_request() -> dict[str, Any] | None:
    """The pull request that the job is for; empty if GitHub does not say which one."""
    if not os.environ.get("GITHUB_EVENT_NAME", "").startswith("pull_request"):
        return None
    try:
        event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text())
        return dict(event["pull_request"])
    except (OSError, KeyError, TypeError, ValueError):
        return {}


def is_fork() -> bool:
    """Whether the job is for a pull request of another repository, or of one that is gone."""
    pull = _pull_request()
    if pull is None:
        return False
    try:
        return bool(pull["head"]["repo"]["full_name"] != pull["base"]["repo"]["full_name"])
    except (KeyError, TypeError):
        return True


def commits() -> list[str]:
    """The base and the head of the pull request; `none` where GitHub does not name one."""
    pull = _pull_request() or {}
    ids = [str((pull.get(side) or {}).get("sha")) for side in ("base", "head")]
    return [one if re.fullmatch("[0-9a-f]{40,64}", one) else "none" for one in ids]


def own_patches(listed: Path, changed: Path | None) -> Iterator[str]:
    patches = json.loads(listed.read_text())["result"]["patches"]
    here = Path.cwd().resolve()
    files = None
    if changed is not None:
        files = [here / os.fsdecode(name) for name in changed.read_bytes().split(b"\0") if name]
    for patch in patches:
        folder = Path(patch["folder"]).resolve()
        is_own = folder.is_relative_to(here)
        if is_own and (files is None or any(file.is_relative_to(folder) for file in files)):
            yield patch["id"]


def main(command: str, *args: str) -> int:
    # A name may have bytes that are no UTF-8.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    match command:
        case "finish":
            finish(Path(args[0]), int(args[1]))
        case "tests":
            for line in tests(Path(args[0])):
                print(line)
        case "is-own":
            return 1 if is_fork() else 0
        case "commits":
            print("\n".join(commits()))
        case "patches":
            changed = Path(args[1]) if args[1:] else None
            sys.stdout.write("".join(f"{one}\0" for one in own_patches(Path(args[0]), changed)))
        case _:
            raise ValueError(command)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
