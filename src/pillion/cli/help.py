# SPDX-License-Identifier: Apache-2.0
"""Layout of the help: grouped options and commands, and examples to copy, as plain text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

INPUT, QUANTIZATION, PLACEMENT, MEMORY, STREAM, TIME, DATA, RUNNING, GATES, RESULT = (
    "Model",
    "Quantization",
    "Placement",
    "Memory",
    "Stream",
    "Time",
    "Data",
    "Running",
    "Exit code",
    "Result",
)
"""Groups of options."""
ORDER = ("Arguments", INPUT, QUANTIZATION, PLACEMENT, MEMORY, STREAM, DATA, RUNNING, GATES, RESULT, TIME)
"""Order of the option groups; unlisted groups follow, ungrouped options come last."""
MAKE, CHECK, LOOK = "Make", "Run and check", "Look up"
"""Groups of commands."""

Row = tuple[str, str]
LONGEST_EXAMPLE = 72
"""Length of the longest command with an aligned comment."""


def option(
    group: str | None,
    help: str,
    names: str = "",
    *,
    complete: Callable[..., Any] | None = None,
    **settings: Any,
) -> Any:
    """Declares an option of a group. `names` (`"-o --output"`) default to the parameter's; `complete` is its completion."""
    return typer.Option(*names.split(), help=help, rich_help_panel=group, autocompletion=complete, **settings)


def argument(help: str, metavar: str, **settings: Any) -> Any:
    """Declares an argument; `complete` is its shell completion."""
    return typer.Argument(
        help=help, metavar=metavar, autocompletion=settings.pop("complete", None), **settings
    )


class _WithExamples:
    """Writes grouped options, and examples to copy."""

    epilog: str | None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes arguments and options."""
        _write_groups(formatter, _grouped_option_rows(self, ctx))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the examples."""
        _write_examples(formatter, self.epilog)


class HelpfulCommand(_WithExamples, TyperCommand):
    """A command with grouped options in its help."""


class HelpfulGroup(_WithExamples, TyperGroup):
    """The top-level command, with grouped commands in its help."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands before the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes each command with the first sentence of its help."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        shown = [(name, command) for name, command in commands if command is not None and not command.hidden]
        room = formatter.width - 6 - max((len(name) for name, _ in shown), default=0)
        _write_groups(
            formatter,
            (
                (
                    getattr(command, "rich_help_panel", None) or "Commands",
                    (name, command.get_short_help_str(room)),
                )
                for name, command in shown
            ),
        )


def _grouped_option_rows(command: Any, ctx: Any) -> Iterable[tuple[str, Row]]:
    """Yields each argument and option with its group."""
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            default_panel = "Arguments" if param.param_type_name == "argument" else "Options"
            yield getattr(param, "rich_help_panel", None) or default_panel, record


def _write_groups(formatter: Any, rows: Iterable[tuple[str, Row]]) -> None:
    """Writes rows under the headings of their groups."""
    groups: dict[str, list[Row]] = {}
    for group, row in rows:
        groups.setdefault(group, []).append(row)
    order = [
        *(g for g in ORDER if g in groups),
        *(g for g in groups if g not in (*ORDER, "Options")),
        "Options",
    ]
    for group in order:
        if group in groups:
            with formatter.section(group):
                formatter.write_dl(groups[group])


def _write_examples(formatter: Any, examples: str | None) -> None:
    """Writes each example with its description as a trailing comment, aligned; lines can be copied."""
    if examples:
        rows = [re.split(r"\s{2,}", line) for line in examples.strip().splitlines()]
        width = max((len(row[0]) for row in rows if row[1:] and len(row[0]) <= LONGEST_EXAMPLE), default=0)
        with formatter.section("Examples"):
            for command, *comment in rows:
                line = f"{command:{width}}  # {comment[0]}" if comment else command
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")
