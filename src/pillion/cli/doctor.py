# SPDX-License-Identifier: Apache-2.0
"""`pillion doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pillion.cli import screen
from pillion.cli.application import app
from pillion.cli.help import LOOK
from pillion.cli.installed import Found, installed, surroundings
from pillion.cli.options import JsonOption


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion doctor             what is here, and how to get the rest
pillion doctor --json      the same for a program
""",
)
def doctor(as_json: JsonOption = False) -> None:
    """Say what is installed, and how to get the rest.

    Each thing is listed with what it enables. Nothing is changed, and no package is imported; compilers and the emulator are asked for
    their version."""
    found = installed()
    facts: dict[str, Any] = {**surroundings(), "found": [_row(one) for one in found]}
    if as_json:
        screen.show(facts, as_json)
        return
    screen.show({key: value for key, value in facts.items() if key != "found"}, False)
    print()
    print(screen.table([_shown(one) for one in found], ("here", "name", "version", "enables")))
    for line in _advice(found):
        print(line)


def _row(one: Found) -> dict[str, Any]:
    return {**asdict(one), "ways": dict(one.ways), "ready": one.is_ready}


def _shown(one: Found) -> dict[str, Any]:
    where = f"{one.version} ({one.where})" if one.where else one.version
    return {"here": one.is_ready, "name": one.name, "version": where, "enables": one.enables}


def _advice(found: list[Found]) -> Iterator[str]:
    """How to get what is missing, and what is wrong with what is not as it should be."""
    rest = [one for one in found if not one.is_ready]
    if not rest:
        yield "\nEverything that Pillion can use is here."
        return
    yield "\nTo get the rest (compiling to C, .pte and .tflite needs only the packages):"
    for one in rest:
        yield f"\n{one.name}: {one.enables}" + (f"\n  now: {one.lacks}" if one.lacks else "")
        width = max(map(len, one.ways))
        yield from (f"  {system:{width}}  {way}" for system, way in one.ways.items())
