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
    found = optional_tools()
    facts: dict[str, Any] = {**system_facts(), "found": [_row(one) for one in found]}
    if as_json:
        console.show(facts, as_json)
        return
    console.show({key: value for key, value in facts.items() if key != "found"}, False)
    print()
    print(console.table([_tool_row_on_screen(one) for one in found], ("here", "name", "version", "enables")))
    for line in _advice(found):
        print(line)


def _row(one: FoundTool) -> dict[str, Any]:
    return {**asdict(one), "ways": dict(one.ways), "ready": one.is_ready}


def _tool_row_on_screen(one: FoundTool) -> dict[str, Any]:
    where = f"{one.version} ({one.where})" if one.where else one.version
    return {"here": one.is_ready, "name": one.name, "version": where, "enables": one.enables}


def _advice(found: list[FoundTool]) -> Iterator[str]:
    """Yields how to install missing items and how to mend unsuitable ones."""
    rest = [one for one in found if not one.is_ready]
    if not rest:
        yield "\nEverything that Pillion can use is here."
        return
    yield "\nTo get the rest (compiling to C, .pte and .tflite needs only the packages):"
    for one in rest:
        yield f"\n{one.name}: {one.enables}" + (f"\n  now: {one.lacks}" if one.lacks else "")
        width = max(map(len, one.ways))
        yield from (f"  {system:{width}}  {way}" for system, way in one.ways.items())
