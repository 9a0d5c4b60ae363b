# SPDX-License-Identifier: Apache-2.0
"""The Zephyr module, with a sample for each model."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.text_templates import fill_template
from pillion.host_io.atomic_files import Content
from pillion.packages.contents import FLAGS, Contents, PackagedModel
from pillion.packages.example import PRINTED, main_program

BOARDS = {
    "cortex-m3": "mps2/an385",
    "cortex-m4": "mps2/an386",
    "cortex-m7": "mps2/an500",
    "cortex-m33": "mps2/an521/cpu0",
    "cortex-m55": "mps3/corstone300/an547",
}
"""Zephyr's boards for the emulator, by their core."""
NO_ZEPHYR = ("cortex-m35p",)
"""The cores that Zephyr does not have."""
EXTENSION = {Isa.DSP: "ARMV8_M_DSP", Isa.MVE: "ARMV8_1_M_MVEF"}
"""The extension that kernels need, as Kconfig knows it."""
_SECTION = """#include <zephyr/devicetree.h>
#include <zephyr/linker/devicetree_regions.h>
#include <zephyr/toolchain.h>

/* `chosen { pillion,arena = &dtcm; };` in an overlay moves the arena to a memory region of the devicetree. */
#if DT_HAS_CHOSEN(pillion_arena)
#define ARENA_SECTION Z_GENERIC_SECTION(LINKER_DT_NODE_REGION_NAME(DT_CHOSEN(pillion_arena)))
#else
#define ARENA_SECTION
#endif

"""


def files(contents: Contents) -> dict[str, Content]:
    """Returns the files of the form."""
    name = contents.identity.name
    values = {
        "name": name,
        "NAME": name.upper(),
        "flags": " ".join(FLAGS),
        "models": ", ".join(model.name for model in contents.models),
        "cores": " || ".join(_conditions(contents)),
        "sources": "\n    ".join(f"${{package}}/{path}" for path in contents.sources),
    }
    parts = {"npu"} if contents.has_npu else set()
    own = {
        f"zephyr/{file}": fill_template(f"zephyr_{file}", values, parts, "pillion.packages")
        for file in ("module.yml", "CMakeLists.txt", "Kconfig")
    }
    return {**own, **{k: v for model in contents.models for k, v in _sample(contents, model).items()}}


def _conditions(contents: Contents) -> Iterator[str]:
    """Yields the conditions in Kconfig under which a core runs the kernels."""
    for name, may_lack in contents.may_lack.items():
        symbol = f"CPU_{name.upper().replace('-', '_')}"
        if name not in NO_ZEPHYR:
            yield f"({symbol} && {EXTENSION[contents.isa]})" if may_lack else symbol


def _sample(contents: Contents, model: PackagedModel) -> dict[str, Content]:
    name, folder = contents.identity.name, f"samples/{model.name}"
    boards = [board for core, board in BOARDS.items() if core in {one.name for one in contents.cores}]
    listed = "".join(f"\n      - {board}" for board in boards)
    return {
        f"{folder}/CMakeLists.txt": f"""cmake_minimum_required(VERSION 3.20)
# The package is a module without a manifest of west, too.
list(APPEND ZEPHYR_EXTRA_MODULES ${{CMAKE_CURRENT_SOURCE_DIR}}/../..)
find_package(Zephyr REQUIRED HINTS $ENV{{ZEPHYR_BASE}})
project({model.name}_sample C)
target_sources(app PRIVATE src/main.c)
target_link_libraries(app PRIVATE {name})
""",
        f"{folder}/prj.conf": f"CONFIG_PILLION_{name.upper()}=y\nCONFIG_FPU=y\nCONFIG_MAIN_STACK_SIZE=4096\n",
        f"{folder}/sample.yaml": f"""sample:
  name: {model.name}
  description: Runs {model.name} on zeros, and prints a checksum of its outputs
tests:
  sample.pillion.{model.name}:
    tags: pillion
    platform_allow:{listed or " []"}
    harness: console
    harness_config:
      type: one_line
      regex:
        - "{model.name}: outputs {PRINTED}"
""",
        f"{folder}/src/main.c": main_program(model, "ARENA_SECTION", _SECTION),
    }
