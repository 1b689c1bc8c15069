"""targets/NAME.yaml: a repository to which patches are proposed, and the rules that it sets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from vpatch.declare.edits import Text
from vpatch.declare.patch import TreeName
from vpatch.declare.yamlfile import Declared
from vpatch.util.urls import has_secret

Part = Literal[
    "summary",
    "claims",
    "reproduction",
    "commands",
    "results",
    "cause",
    "not a duplicate",
    "limits",
    "assistance",
]


def _no_credentials(value: str) -> str:
    if has_secret(value):
        raise ValueError("it holds credentials: leave them to git, and to the environment")
    return value


RepositoryName = Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
Url = Annotated[Text, AfterValidator(_no_credentials)]


class Sizes(Declared):
    """How many added lines a proposal may have, by upstream's own count."""

    bugfix: int | None = Field(None, gt=0, description="above it, a bug fix is too large")
    discussed_first: int | None = Field(
        None, gt=0, description="above it, upstream wants an issue with the design first"
    )
    not_counted: tuple[Text, ...] = Field((), description="globs of paths that do not count")


class Titles(Declared):
    tags_in: Text = Field(description="upstream's file that lists the bracketed tags")
    below: Text = Field(description="the heading in it, below which they stand")


class Template(Declared):
    """Upstream's template of a body, and what is written below which of its headings."""

    file: Text
    sections: dict[Text, tuple[Part, ...]] = Field(
        min_length=1, description="by heading; headings that a version of it lacks are passed over"
    )
    assisted: Text | None = Field(
        None, description="the box to tick where a machine helped, as it begins in the template"
    )


class Target(Declared):
    why: Text | None = None
    repository: RepositoryName
    upstream: RepositoryName | None = Field(
        None,
        description="the repository that this one follows: its threads count as well",
    )
    tree: TreeName
    branch: Text = "main"
    url: Url | None = Field(None, description="for git; default: as the API tells")
    api: Url | None = Field(
        None, description="of GitHub Enterprise, as https://HOST/api/v3; default: api.github.com"
    )
    tag: Annotated[str, Field(pattern=r"\{version\}")] = Field(
        "v{version}", description="how a release is tagged"
    )
    template: Template | None = None
    titles: Titles | None = None
    sizes: Sizes = Sizes()
    open_pull_requests: int | None = Field(None, gt=0, description="allowed for one person")
    evidence_days: int = Field(30, gt=0, le=36500, description="how old evidence may be")
    sign_off: bool = Field(default=False, description="commits are signed off (DCO)")
    assistance: Text = Field(
        "Co-authored-by", description="the trailer that names a machine that helped"
    )
    hooks: Text | None = Field(None, description="upstream's file of pre-commit hooks")
    labels: Text | None = Field(None, description="upstream's file of Mergify's rules")
    person: tuple[Text, ...] = Field((), description="what nobody but a person can do")

    @property
    def repositories(self) -> tuple[str, ...]:
        """The repositories whose threads can stop a proposal."""
        return (self.repository, self.upstream) if self.upstream else (self.repository,)

    def counts(self, ref: str) -> bool:
        """Whether a thread, as OWNER/NAME#1, can stop a proposal."""
        return ref.partition("#")[0].lower() in {name.lower() for name in self.repositories}
