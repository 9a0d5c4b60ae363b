# SPDX-License-Identifier: Apache-2.0
"""The command `pillion new`: a starter project."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Annotated

from pillion.cli import completion, console
from pillion.cli.application import app
from pillion.cli.help import MAKE, argument, option
from pillion.cli.options import JsonOption
from pillion.errors import PillionError
from pillion.host_io.atomic_files import read_text

STARTER = Path(__file__).parent / "starter"
FILES = ("README.md", "data.py", "net.py", "learn.py", "check.py", "Makefile")
"""Files of a new project. Each comes from `STARTER`, with the suffix `.in`."""
ANY_BOARD = "mps2-an505"
"""The Makefile's board if no board has the target's core."""


@app.command(
    rich_help_panel=MAKE,
    epilog="""
pillion new stripes                      for a Cortex-M55
pillion new stripes -t CHIP          for another CHIP of `pillion targets`
cd stripes && make && make check
""",
)
def new(
    folder: Annotated[Path, argument("New or empty folder for the project.", metavar="DIR")],
    target: Annotated[
        str,
        option(
            None,
            "Target of the project's Makefile (see `pillion targets`).",
            "-t --target",
            metavar="TARGET",
            complete=completion.complete_targets,
        ),
    ] = "cortex-m55",
    as_json: JsonOption = False,
) -> None:
    """Create a starter project: a network, data, training, a Makefile.

    The project works unchanged; replace its files by your own. Existing files are never overwritten."""
    _require_empty(folder)
    from pillion.targets import find_target

    chip = find_target(target)
    name = "".join(mark if mark.isprintable() else " " for mark in folder.resolve().name)
    words = {"@NAME@": name or "A project", "@TARGET@": target, "@BOARD@": chip.board or ANY_BOARD}
    _write_project_files(folder, {name: _filled_template(name, words) for name in FILES})
    facts = {"project": str(folder), "target": target, "files": list(FILES)}
    console.print_facts(facts, as_json)
    if not as_json:
        print(f"\nnext:  cd {quote(str(folder))} && make && make check   (README.md says more)")


def _require_empty(folder: Path) -> None:
    """Raises if the folder holds anything that could be overwritten."""
    if not (folder.exists() or folder.is_symlink()):
        return
    is_folder = folder.is_dir()
    there = sorted(entry.name for entry in folder.iterdir()) if is_folder else []
    if there or not is_folder:
        raise PillionError(
            f"{folder} is there already",
            rule="a project begins in a new or an empty folder, so that nothing is overwritten",
            here=f"it holds {', '.join(there[:5])}{', …' if len(there) > 5 else ''}"
            if is_folder
            else "it is no folder",
            help="choose another name",
        )


def _filled_template(name: str, words: dict[str, str]) -> str:
    text = read_text(STARTER / f"{name}.in", "template")
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text


def _write_project_files(folder: Path, files: dict[str, str]) -> None:
    """Writes all files; removes the written ones if one fails."""
    was_there, written = folder.exists(), []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                written.append(folder / name)
                file.write(text)
    except OSError:
        for path in written:
            path.unlink()
        if not was_there:
            with suppress(OSError):
                folder.rmdir()
        raise
