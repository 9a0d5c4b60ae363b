# SPDX-License-Identifier: Apache-2.0
"""The command `pillion show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pillion.cli import console
from pillion.cli.application import app
from pillion.cli.help import LOOK, argument, option
from pillion.cli.options import JsonOption
from pillion.cli.program_facts import image_facts
from pillion.errors import PillionError
from pillion.host_io.atomic_files import regular_file, suffix_of

if TYPE_CHECKING:
    from pillion.emitters.image.reader import ProgramImage


@app.command(
    rich_help_panel=LOOK,
    epilog="""
pillion show kws.plm                              a program image: memory, tensors, kernels
pillion show build/npu_segment_0.bin              the NPU's steps
pillion show build/npu_segment_0.bin --commands   every command with its fields
""",
)
def show(
    file: Annotated[
        Path,
        argument(
            "A .plm, a .pte with images, an NPU's segment, or a .tflite of NXP's converter.",
            metavar="FILE",
        ),
    ],
    commands: Annotated[
        bool, option(None, "Show every command instead of every step.", "--commands")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a program image, or the commands in an NPU's code.

    Every bit of the code is decoded or refused."""
    if suffix_of(file) in (".plm", ".pte"):
        _show_image(file, as_json)
        return
    if file.is_dir():
        raise PillionError(
            f"{file} is a folder",
            rule="pillion show takes a .plm, a .pte, a .tflite, or an npu_segment_0.bin of a project",
            here="a folder",
            help=f"name such a file; `pillion run {file} --profile` runs a C project",
        )
    from pillion.targets import NPUS

    payload = regular_file(file, ".bin").read_bytes()
    for npu in NPUS.values():
        shown = npu.show(payload, commands) if npu.show is not None else None
        if shown is None:
            continue
        name, *steps = shown
        if as_json:
            console.print_facts({"file": str(file), "npu": name, "steps": steps}, as_json)
        else:
            print(name, *steps, sep="\n")
        return
    raise PillionError(
        f"`{file}` is no code that can be shown",
        rule=f"code of {', '.join(npu.name for npu in NPUS.values() if npu.show)}",
        here=f"{len(payload)} bytes that begin with {payload[:16]!r}",
        help="compile for such an NPU with its compiler installed: `pillion doctor`; then show npu_segment_0.bin of the folder",
    )


def _show_image(file: Path, as_json: bool) -> None:
    """Prints the contents of a program image."""
    from pillion.run.image_board import images_of

    images = [_facts_of_image(image) for image in images_of(file)]
    if not images:
        raise PillionError(
            f"{file} holds no program image",
            rule="a .plm, or a .pte of --kernels pillion",
            here="a .pte of kernel calls",
            help=f"pillion report {file} -o report.html",
        )
    if len(images) == 1:
        console.print_facts(images[0], as_json)
        return
    for number, facts in enumerate(images if not as_json else []):
        console.print_line(f"image {number}")
        console.print_facts(facts, as_json)
    if as_json:
        console.print_facts({"images": images}, as_json)


def _facts_of_image(image: ProgramImage) -> dict[str, Any]:
    tensors = {
        role: [
            f"{one.name}: {one.dtype.value}{list(one.shape)}{_scale(one.scale, one.zero_point)}"
            for one in some
        ]
        for role, some in (("inputs", image.inputs), ("outputs", image.outputs))
    }
    return {"model": image.name, "core": image.core, **tensors, **image_facts(image)}


def _scale(scale: float | None, zero_point: int | None) -> str:
    return f" @({scale:.9g}, {zero_point})" if scale else ""
