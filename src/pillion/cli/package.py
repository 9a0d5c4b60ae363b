# SPDX-License-Identifier: Apache-2.0
"""The command `pillion package`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pillion.cli import completion, console
from pillion.cli.application import app
from pillion.cli.help import MAKE, argument, option
from pillion.cli.options import ForceOption, JsonOption
from pillion.packages import FORM_NAMES


@app.command(
    rich_help_panel=MAKE,
    epilog="""
pillion package kws_fw/ --package zephyr -o kws_module/
pillion package kws_fw/ wake_fw/ --package cmsis --package cmake --name voice --vendor Acme -o voice/
""",
)
def package(
    *,
    projects: Annotated[
        list[Path],
        argument("C projects that `pillion compile` wrote, for the same core.", metavar="FOLDER..."),
    ],
    forms: Annotated[
        list[str],
        option(
            None,
            "Form of the package, once or several times.",
            "--package",
            metavar="|".join(FORM_NAMES),
            complete=completion.complete_words(*FORM_NAMES),
        ),
    ],
    output: Annotated[Path, option(None, "Folder for the package.", "-o --output", metavar="DIR")],
    name: Annotated[
        str, option(None, "Name of the package (default: that of the first model).", metavar="NAME")
    ] = "",
    version: Annotated[str, option(None, "Version of the package.", metavar="N.N.N")] = "1.0.0",
    vendor: Annotated[str, option(None, "Vendor or author.", metavar="NAME")] = "Pillion",
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a package of C projects for other build tools.

    These are CMake, CMSIS-Toolbox, Zephyr, Arduino and PlatformIO; the folder is a package in all chosen forms.
    Kernels that several models use are in it once."""
    from pillion.packages.contents import Identity
    from pillion.packages.package_writer import write_package

    identity = Identity(name, version, vendor)
    contents = write_package(projects, forms, output, identity, force)
    console.print_facts(
        {
            "output": str(output),
            "name": contents.identity.name,
            "version": version,
            "forms": list(dict.fromkeys(forms)),
            "models": [model.name for model in contents.models],
            "cores": list(dict.fromkeys(core.plain for core in contents.cores)),
            "files": len(contents.files),
        },
        as_json,
    )
