"""What a proposal must pass before it is sent, each gate with its reason and what to do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vpatch.commands.upstream.rules import known_tags, tags_of
from vpatch.declare.patch import describe_upstream
from vpatch.planning.shape import describe_shape
from vpatch.planning.state import State
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.checkout.hooks import Hook
    from vpatch.commands.upstream.duplicates import Searched
    from vpatch.commands.upstream.proof import Proven
    from vpatch.commands.upstream.rules import Size
    from vpatch.commands.upstream.status import Known
    from vpatch.declare.patch import Proposal, Upstream
    from vpatch.declare.target import Target
    from vpatch.errors import VpatchError
    from vpatch.github.client import Pull
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Tree

# Letters of a body that GitHub takes.
_BODY = 65536


@dataclass(frozen=True)
class Gate:
    """One gate. `hint` says what to do where it does not pass."""

    name: str
    verdict: Literal["pass", "fail", "not asked"]
    reason: str
    hint: str | None = None


def needed(
    decision: Decision, known: Sequence[Known], declared: Sequence[Upstream], branch: str
) -> Gate:
    """Whether upstream still needs it, by the code of its branch; an unsure state is told."""
    name = "needed upstream"
    reason = decision.reason
    if decision.shape is not None and decision.may_be_wrong:
        reason += f"; {describe_shape(decision.shape)}"
    if decision.state is State.NEEDED:
        return Gate(name, "pass", f"upstream's {branch} needs it: {reason}")
    if decision.state is State.UPSTREAMED:
        by = [describe_upstream(one) for one in declared if one.same and one.release]
        live = [
            f"{one.declared.ref} (merged, in {one.answer.release or 'no release yet'})"
            for one in known
            if one.cures
        ]
        who = live or by
        names = f": {', '.join(who)}" if who else ""
        hint = "drop the patch where the pin has it: see vpatch upstream-status"
        if not who:
            hint += "; and name the pull request under `upstream`"
        return Gate(name, "fail", f"upstream has it{names}; {reason}", hint)
    hint = {
        State.ABSENT: "nothing is to be proposed: the code is not there",
        State.BLOCKED: "propose what it requires first",
        State.UNTRUSTED: "trust its code first, with the command above",
    }.get(decision.state, f"port the patch to upstream's {branch}: a variant for its shape")
    return Gate(name, "fail", f"{decision.state} on upstream's {branch}: {reason}", hint)


def alone(required: Sequence[Decision]) -> Gate:
    """Whether it is independent: one branch a patch, none on top of another."""
    missing = [d.patch.id for d in required if d.state is not State.UPSTREAMED]
    if not missing:
        return Gate("stands alone", "pass", "it needs no other patch")
    what = f"it requires {', '.join(missing)}, which upstream does not have"
    return Gate("stands alone", "fail", what, "propose that first: branches are not stacked")


def not_merged(
    known: Sequence[Known] | None, declared: Sequence[Upstream], proposal: Proposal | None
) -> Gate:
    """Whether the same was merged, or turned down, under another number.

    `differs` names what is merged and does only a part of it: upstream still needs the rest.
    """
    name = "not merged already"
    parts = proposal.differs if proposal else {}
    cures = [one for one in known or () if one.cures and one.declared.ref not in parts]
    merged = [f"{k.declared.ref} (in {k.answer.release or 'no release yet'})" for k in cures]
    if known is None:
        same = [
            one for one in declared if one.same and one.state == "merged" and one.ref not in parts
        ]
        merged = [describe_upstream(one) for one in same]
    if merged:
        what = f"the same change was merged: {', '.join(merged)}"
        hint = "drop the patch where the pin has it; if it is not enough, say why under `differs`"
        return Gate(name, "fail", what, hint)
    if known is None:
        return _offline(name, "the threads that the patch names")
    wrong = [f"{k.declared.ref} is {d}" for k in known for d in k.disagreements]
    if wrong:
        return Gate(name, "fail", "; ".join(wrong), "correct what patch.yaml says of it")
    count = counted(len(known), "declared thread")
    return Gate(name, "pass", f"nothing that was merged is the same change ({count} asked)")


def not_ended(asked: bool, ours: Pull | None) -> Gate:  # noqa: FBT001
    """Whether our own pull request is open, or there is none yet."""
    name = "not ended before"
    if not asked:
        return _offline(name, "whether it was proposed before")
    if ours is None:
        return Gate(name, "pass", "it was not proposed before")
    if ours.state == "open":
        return Gate(name, "pass", f"it is open, to {ours.base}: {ours.url}")
    what = f"it was proposed before, and was {ours.state}: {ours.url}"
    return Gate(name, "fail", what, "read why; if it is to be taken up again, reopen it there")


def not_proposed(
    searched: Searched | None,
    declared: Sequence[Upstream],
    proposal: Proposal | None,
    ours: str | None = None,
) -> Gate:
    """Whether nobody else proposes the same; `ours` is our own pull request."""
    name = "not proposed by others"
    known = {*(proposal.differs if proposal else ()), ours}
    open_ones = [
        f"{one.ref} ({one.relation})"
        for one in declared
        if one.is_ == "pull request" and one.state == "open"
        if one.same and one.ref not in known
    ]
    open_ones += [
        f"{hit.thread.url} ({hit.thread.title!r} by {hit.thread.author}: {hit.why})"
        for hit in (searched.same if searched else ())
    ]
    if open_ones:
        hint = "link to it and help there; if it is something else, say why under `differs`"
        return Gate(name, "fail", f"open already: {'; '.join(open_ones)}", hint)
    if searched is None:
        return _offline(name, "upstream's open threads")
    near = f"; {len(searched.near)} touch the same files elsewhere" if searched.near else ""
    return Gate(name, "pass", f"searched for {', '.join(searched.asked)}: nothing{near}")


def evidence(proven: Proven, patch: Patch, proposal: Proposal, folder: str) -> Gate:
    """Whether there is evidence for exactly this, on the hardware that it needs, and young."""
    name = "evidence"
    missing = [one.test for one in proposal.tests if one.test not in proven.tests]
    if not missing:
        names = ", ".join(one.name for one in proven.all_evidence)
        return Gate(name, "pass", f"for this content, on {proposal.needs.engine}: {names}")
    what = f"there is none for {', '.join(missing)}"
    if proven.rejected:
        # The newest comes last, and is the one that somebody has just made.
        older = len(proven.rejected) - 1
        what += f"; what does not count: {proven.rejected[-1]}"
        what += f" (and {older} older)" if older else ""
    hint = f"vpatch test {patch.id} --engine {proposal.needs.engine} --evidence-dir {folder}"
    return Gate(name, "fail", what, hint)


def test_placed(placed: Sequence[str], error: VpatchError | None) -> Gate:
    """Whether a test goes to where upstream keeps such tests."""
    if error is not None:
        return Gate("test for upstream", "fail", f"{error.where}: {error.what}", error.hint)
    return Gate("test for upstream", "pass", f"it goes to {', '.join(placed)}")


def title(tree: Tree, target: Target, text: str) -> Gate:
    """Whether a title begins with tags that upstream takes."""
    if text != text.strip() or len(text.splitlines()) > 1:
        what = f"{text!r} is not one line, or has spaces around it"
        return Gate("title", "fail", what, "write the title in one line; the rest goes into `why`")
    if target.titles is None:
        return Gate("title", "pass", "upstream has no rule for it")
    tags = tags_of(text)
    known, others_too = known_tags(tree, target.titles)
    listed = " ".join(f"[{tag}]" for tag in sorted(known))
    hint = f"begin the title with one or more of {listed}, as in '[Bugfix] Do this'"
    if tags is None:
        return Gate("title", "fail", f"{text!r} does not begin with tags", hint)
    unknown = [f"[{tag}]" for tag in tags if tag not in known]
    if unknown and not others_too:
        return Gate("title", "fail", f"{''.join(unknown)} is none of upstream's tags", hint)
    remark = f"; {''.join(unknown)} is not among upstream's own" if unknown else ""
    return Gate("title", "pass", f"{''.join(f'[{tag}]' for tag in tags)}{remark}")


def size(lines: Size, target: Target, text: str, proposal: Proposal | None, body: str) -> Gate:
    """Whether it is as small as upstream asks for, and its body as GitHub takes."""
    sizes = target.sizes
    if len(body) > _BODY:
        what = f"the body has {len(body)} letters, and GitHub takes {_BODY}"
        return Gate("size", "fail", what, "shorten what the patch says, or the tests' messages")
    what = f"{lines.counted} lines added that count, {lines.added} in all"
    is_fix = any(tag.lower().startswith("bug") for tag in tags_of(text) or ())
    if is_fix and sizes.bugfix and lines.counted > sizes.bugfix:
        hint = "split it, or make it smaller"
        return Gate("size", "fail", f"{what}; a bug fix has {sizes.bugfix} at most", hint)
    discussed = proposal is not None and proposal.discussed
    if sizes.discussed_first and lines.counted > sizes.discussed_first and not discussed:
        hint = "open an issue with the design first, and name it under `discussed`"
        return Gate("size", "fail", f"{what}; above {sizes.discussed_first} it is discussed", hint)
    return Gate("size", "pass", what)


def signed_off(person: tuple[str, str] | None, target: Target) -> Gate:
    """Whether git knows who is responsible for the commit."""
    if person is None:
        hint = "git config --global user.name 'YOUR NAME', and user.email, both without < and >"
        return Gate("sign-off", "fail", "git does not know who commits", hint)
    how = "signed off" if target.sign_off else "committed"
    return Gate("sign-off", "pass", f"{how} by {person[0]} <{person[1]}>")


def hooks(ran: Sequence[Hook], target: Target) -> Gate:
    """Whether upstream's own hooks have nothing against it, as far as they can run here."""
    name = "upstream's hooks"
    failed = [f"{hook.id}: {hook.output}" for hook in ran if hook.verdict == "fail"]
    if failed:
        return Gate(name, "fail", "\n".join(failed), "correct the patch or its test")
    not_run = [
        f"{hook.id} could not run: {hook.output}" for hook in ran if hook.verdict == "not run"
    ]
    if not_run:
        hint = "look at the network and at pip's settings: their packages come from the index"
        return Gate(name, "fail", "; ".join(not_run), hint)
    counts = Counter(hook.verdict for hook in ran)
    elsewhere = dict.fromkeys(hook.id for hook in ran if hook.verdict == "elsewhere")
    what = f"{counts['pass']} of {target.hooks} pass, {counts['idle']} have nothing to look at"
    what += f"; not to be had here: {', '.join(elsewhere)}" if elsewhere else ""
    return Gate(name, "pass", what)


def open_pulls(count: int | None, target: Target) -> Gate:
    """Whether the person may open one more."""
    name = "open pull requests"
    if target.open_pull_requests is None:
        return Gate(name, "pass", "upstream has no limit")
    if count is None:
        return _offline(name, "how many you have")
    what = f"{count} others of yours are open, and {target.open_pull_requests} are allowed in all"
    if count < target.open_pull_requests:
        return Gate(name, "pass", what)
    return Gate(name, "fail", what, "finish or close one first")


def undescribed(patch: Patch) -> Gate:
    """That a patch does not say what its pull request does, or that there is to be none."""
    reason = patch.declaration.not_for_upstream
    what = f"{patch.folder / 'patch.yaml'} has no `proposal`"
    hint = "say there what upstream is told: docs/how-to/upstream.md"
    if reason is not None:
        what = f"it is not for upstream: {' '.join(reason.split())}"
        hint = "keep it; if that has changed, put a `proposal` in place of `not-for-upstream`"
    return Gate("described", "fail", what, hint)


def _offline(name: str, what: str) -> Gate:
    return Gate(name, "not asked", what, "ask GitHub: without --offline, and with a token")
