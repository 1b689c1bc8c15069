"""OpenVEX 0.2.0 as its specification has it: https://github.com/openvex/spec."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, model_validator

Text = Annotated[str, StringConstraints(min_length=1)]
Iri = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9+.-]*:\S+$")]
Justification = Literal[
    "component_not_present",
    "vulnerable_code_not_present",
    "vulnerable_code_not_in_execute_path",
    "vulnerable_code_cannot_be_controlled_by_adversary",
    "inline_mitigations_already_exist",
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Vulnerability(_Strict):
    name: Text
    description: Text | None = None
    aliases: list[Text] = Field([], min_length=1)


class Subcomponent(_Strict):
    id: Iri = Field(alias="@id")


class Product(Subcomponent):
    subcomponents: list[Subcomponent] = []


class Statement(_Strict):
    vulnerability: Vulnerability
    products: list[Product] = Field(min_length=1)
    status: Literal["not_affected", "affected", "fixed", "under_investigation"]
    status_notes: Text | None = None
    justification: Justification | None = None
    impact_statement: Text | None = None
    action_statement: Text | None = None

    @model_validator(mode="after")
    def _complete(self):
        if self.status == "not_affected" and not (self.justification or self.impact_statement):
            raise ValueError("not_affected needs a justification or an impact_statement")
        if self.status == "affected" and not self.action_statement:
            raise ValueError("affected needs an action_statement")
        return self


class Document(_Strict):
    context: Literal["https://openvex.dev/ns/v0.2.0"] = Field(alias="@context")
    id: Iri = Field(alias="@id")
    author: Text
    timestamp: AwareDatetime
    version: int = Field(ge=1)
    tooling: Text | None = None
    statements: list[Statement] = Field(min_length=1)
