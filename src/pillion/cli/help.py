# SPDX-License-Identifier: Apache-2.0
"""How help is laid out: options and commands in groups, examples as they are typed. In plain text, which is there at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

INPUT, QUANTIZATION, PLACEMENT, MEMORY, STREAM, TIME, DATA, RUNNING, GATES, RESULT = (
    "Model",
    "Quantization",
    "What runs where",
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
"""The order of groups of options; others come behind these, and those without a group last."""
MAKE, CHECK, LOOK = "Make", "Run and check", "Look up"
"""Groups of commands."""

Row = tuple[str, str]


class Command(TyperCommand):
    """A command whose options are shown in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes arguments and options."""
        _write_groups(formatter, _options(self, ctx))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the examples."""
        _write_examples(formatter, self.epilog)


class Group(TyperGroup):
    """The program itself, whose commands are shown in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands first: they are what a newcomer looks for."""
        self.format_commands(ctx, formatter)
        _write_groups(formatter, _options(self, ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes each command with the first sentence of its help."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        shown = [(name, command) for name, command in found if command is not None and not command.hidden]
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

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the examples."""
        _write_examples(formatter, self.epilog)


def _options(command: Any, ctx: Any) -> Iterable[tuple[str, Row]]:
    """Each argument and option with the name of its group."""
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            usual = "Arguments" if param.param_type_name == "argument" else "Options"
            yield getattr(param, "rich_help_panel", None) or usual, record


def _write_groups(formatter: Any, rows: Iterable[tuple[str, Row]]) -> None:
    """Rows under the names of their groups."""
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
    """Lines as they are: what is typed is not wrapped."""
    if examples:
        with formatter.section("Examples"):
            for line in examples.strip().splitlines():
                formatter.write(f"{'':{formatter.current_indent}}{line}".rstrip() + "\n")
