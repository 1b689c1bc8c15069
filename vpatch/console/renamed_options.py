"""Options that had another name in the last release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from vpatch.console.common_options import CommonOption, common_option
from vpatch.errors import ConflictingOptionsError

_F = TypeVar("_F", bound=Callable[..., Any])


class RenamedOption(click.Option):
    """An option that is still found under its old name. `--help` shows only the new one."""

    def __init__(self, *args: Any, old: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.old = old

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        if self.is_flag:
            parser.add_option(self, [self.old], self.old, "store_const", const=True)
        else:
            action = "append" if self.multiple else "store"
            parser.add_option(self, [self.old], self.old, action, self.nargs)

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        if self.old in opts and self.name is not None:
            new, value = self.opts[0], opts[self.old]
            if self.multiple:
                value = [*value, *opts.get(self.name, ())]
            elif self.name in opts and not ctx.resilient_parsing:
                raise ConflictingOptionsError(
                    f"{self.old} is the old name of {new}", hint=f"give {new} alone"
                )
            opts = {**opts, self.name: value}
            if not ctx.resilient_parsing:  # the shell completes a command line
                from vpatch.console.progress import progress_for_terminal  # noqa: PLC0415

                progress_for_terminal().note(
                    f"{self.old} is now {new}; the old name goes with the next release"
                )
        return super().handle_parse_result(ctx, opts, args)


class _RenamedCommonOption(CommonOption, RenamedOption):
    """Both of them."""


def renamed_option(*names: str, old: str, **settings: Any) -> Callable[[_F], _F]:
    """An option of a command, which had another name in the last release."""
    return click.option(*names, cls=RenamedOption, old=old, **settings)


def renamed_common_option(*names: str, old: str, **settings: Any) -> Callable[[_F], _F]:
    """An option of most commands, which had another name in the last release."""
    return common_option(*names, cls=_RenamedCommonOption, old=old, **settings)
