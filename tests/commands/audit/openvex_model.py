"""OpenVEX 0.2.0: each rule of the JSON schema that https://github.com/openvex/spec publishes.

No package index has that schema. `Document` also asks for what the specification says and the
schema does not: this context, and at least one product in each statement.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

Iri = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+$")]
Version = Annotated[int, Field(ge=1)]
Justification = Literal[
    "component_not_present",
    "vulnerable_code_not_present",
    "vulnerable_code_not_in_execute_path",
    "vulnerable_code_cannot_be_controlled_by_adversary",
    "inline_mitigations_already_exist",
]
Hash = Literal[
    *("md5", "sha1", "sha-256", "sha-384", "sha-512"),
    *("sha3-224", "sha3-256", "sha3-384", "sha3-512"),
    *("blake2s-256", "blake2b-256", "blake2b-512"),
]


def differ(items):
    """What JSON Schema calls uniqueItems."""
    found = [one if isinstance(one, str) else one.model_dump_json() for one in items]
    if len(found) != len(set(found)):
        raise ValueError("the items are not unique")
    return items


Unique = AfterValidator(differ)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="after")
    def _no_nulls(self):
        nulls = [name for name in self.model_fields_set if getattr(self, name) is None]
        if nulls:
            raise ValueError(f"{', '.join(nulls)} is null")
        return self


class Vulnerability(_Strict):
    id: Iri | None = Field(None, alias="@id")
    name: str
    description: str | None = None
    aliases: Annotated[list[str], Unique] | None = None


class Identifiers(_Strict):
    purl: str | None = None
    cpe22: str | None = None
    cpe23: str | None = None

    @model_validator(mode="after")
    def _one_at_least(self):
        if not self.model_fields_set:
            raise ValueError("identifiers needs purl, cpe22 or cpe23")
        return self


class Subcomponent(_Strict):
    id: Iri | None = Field(None, alias="@id")
    identifiers: Identifiers | None = None
    hashes: dict[Hash, str] | None = None

    @model_validator(mode="after")
    def _is_named(self):
        if not self.model_fields_set & {"id", "identifiers"}:
            raise ValueError("a component needs @id or identifiers")
        return self


class Component(Subcomponent):
    subcomponents: Annotated[list[Subcomponent], Unique] | None = None


class Statement(_Strict):
    id: Iri | None = Field(None, alias="@id")
    version: Version | None = None
    vulnerability: Vulnerability
    timestamp: AwareDatetime | None = None
    last_updated: AwareDatetime | None = None
    products: Annotated[list[Component], Unique, Field(min_length=1)]
    status: Literal["not_affected", "affected", "fixed", "under_investigation"]
    supplier: str | None = None
    status_notes: str | None = None
    justification: Justification | None = None
    impact_statement: str | None = None
    action_statement: str | None = None
    action_statement_timestamp: AwareDatetime | None = None

    @model_validator(mode="after")
    def _complete(self):
        given = self.model_fields_set
        reasons = given & {"justification", "impact_statement"}
        # The first edition of the schema refuses both, and the later ones want one at least.
        if self.status == "not_affected" and len(reasons) != 1:
            raise ValueError("not_affected needs a justification or an impact_statement")
        if self.status == "affected" and "action_statement" not in given:
            raise ValueError("affected needs an action_statement")
        return self


class Document(_Strict):
    context: Literal["https://openvex.dev/ns/v0.2.0"] = Field(alias="@context")
    id: Iri = Field(alias="@id")
    author: str
    role: str | None = None
    timestamp: AwareDatetime
    last_updated: AwareDatetime | None = None
    version: Version
    tooling: str | None = None
    statements: Annotated[list[Statement], Unique, Field(min_length=1)]
