# SPDX-License-Identifier: Apache-2.0
"""The command `pillion kernels`: the kernels of a firmware that runs program images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

from pillion.cli import console
from pillion.cli.application import app
from pillion.cli.help import MAKE, option
from pillion.cli.options import ForceOption, JsonOption
from pillion.devices.cortex_m import CORES
from pillion.errors import PillionError, require_one_of


@app.command(
    rich_help_panel=MAKE,
    epilog="""
pillion kernels --for kws.plm --for wake.plm --core cortex-m55 -o kernels/   those in use
pillion kernels --all --core cortex-m33 -o kernels/                          all of a core
pillion kernels --for kws.pte --core cortex-m55 --delegate -o kernels/       with PillionBackend for ExecuTorch
""",
)
def kernels(
    *,
    output: Annotated[Path, option(None, "Folder for the sources.", "-o --output", metavar="DIR")],
    core: Annotated[str, option(None, "Core of the firmware: cortex-m55.", metavar="CORE")],
    images: Annotated[
        Optional[list[Path]],
        option(None, "Include the kernels of this .plm or .pte.", "--for", metavar="FILE"),
    ] = None,
    every: Annotated[bool, option(None, "Include all kernels of the core.", "--all")] = False,
    delegate: Annotated[
        bool, option(None, "Add the ExecuTorch delegate that runs .pte files of --kernels.", "--delegate")
    ] = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the kernels of a firmware that runs .plm or .pte files.

    The folder has the run-time, too: build its C files into the firmware once. Models compiled later with
    --kernels DIR/manifest.json run in it, or are refused with the kernel that is missing."""
    from pillion.emitters.image.kernel_set import kernel_set_files, kernels_of_core, write_kernel_set
    from pillion.run.image_board import images_of

    require_one_of("--core", core, tuple(CORES))
    if every == bool(images):
        raise PillionError(
            "it is open which kernels the firmware gets",
            rule="--for once for each image, or --all",
            here="both" if every else "neither",
            help="--for net.plm for the smallest firmware, --all for models that do not exist yet",
        )
    numbers = [number for file in images or () for one in images_of(file) for number in one.kernels]
    files = kernel_set_files(kernels_of_core(CORES[core]) if every else numbers, CORES[core], delegate)
    write_kernel_set(files, output, force)
    facts = {
        "output": str(output),
        "core": core,
        "kernels": len(set(numbers)) or len(kernels_of_core(CORES[core])),
    }
    console.print_facts({**facts, "files": len(files)}, as_json)
