# SPDX-License-Identifier: Apache-2.0
"""The command `pillion doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pillion.cli import console
from pillion.cli.application import app
from pillion.cli.environment import FoundTool, optional_tools, system_facts
from pillion.cli.help import LOOK
from pillion.cli.options import JsonOption


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion doctor             what is installed, and how to get the rest
pillion doctor --json      the same as JSON
""",
)
def doctor(as_json: JsonOption = False) -> None:
    """Show what is installed, and how to get the rest.

    Each item is listed with the features that it enables. Nothing is changed and no package is imported;
    compilers and the emulator are asked for their version."""
    tools = optional_tools()
    facts: dict[str, Any] = {**system_facts(), "found": [_tool_row(tool) for tool in tools]}
    if as_json:
        console.print_facts(facts, as_json)
        return
    console.print_facts({key: value for key, value in facts.items() if key != "found"}, False)
    print()
    print(
        console.format_table(
            [_tool_row_on_screen(tool) for tool in tools], ("here", "name", "version", "enables")
        )
    )
    for line in _install_advice(tools):
        print(line)


def _tool_row(tool: FoundTool) -> dict[str, Any]:
    return {**asdict(tool), "ways": dict(tool.ways), "ready": tool.is_ready}


def _tool_row_on_screen(tool: FoundTool) -> dict[str, Any]:
    where = f"{tool.version} ({tool.where})" if tool.where else tool.version
    return {"here": tool.is_ready, "name": tool.name, "version": where, "enables": tool.enables}


def _install_advice(tools: list[FoundTool]) -> Iterator[str]:
    """Yields how to install missing items and how to mend unsuitable ones."""
    rest = [tool for tool in tools if not tool.is_ready]
    if not rest:
        yield "\nEverything that Pillion can use is here."
        return
    yield "\nTo get the rest (compiling to C, .pte and .tflite needs only the packages):"
    for tool in rest:
        yield f"\n{tool.name}: {tool.enables}" + (f"\n  now: {tool.lacks}" if tool.lacks else "")
        width = max(map(len, tool.ways))
        yield from (f"  {system:{width}}  {command}" for system, command in tool.ways.items())
