# SPDX-License-Identifier: Apache-2.0
"""The example program of a package: it runs a model on zeros, and prints a checksum of the outputs."""

from __future__ import annotations

import math

from pillion.emitters.c.text_templates import fill_template
from pillion.packages.contents import PackagedModel

PRINTED = "[0-9a-f]{8}"
"""The checksum that examples print, as a regular expression."""


def inference(model: PackagedModel, section: str = "") -> str:
    """Returns C, or C++, with a function `infer`; `section` stands before the arena."""
    memory, manifest = model.manifest.memory, model.manifest
    by_rows = [buffer for buffer in manifest.inputs if buffer.offset is None]
    sizes = [one.arena_bytes for one in memory.memories]
    parts = {
        *("several" if sizes else "arena", "rows" if by_rows else "whole"),
        *(["state"] if memory.state_bytes else []),
    }
    values = {
        "model": model.name,
        "MODEL": model.name.upper(),
        "section": section and f"{section} ",
        "state": "state" if memory.state_bytes else "NULL",
        "row_bytes": max((math.ceil(one.bytes / max(one.shape[1], 1)) for one in by_rows), default=0),
        "memories": "\n".join(
            f"static uint8_t memory_{n}[{max(size, 1)}] __attribute__((aligned(32)));"
            for n, size in enumerate(sizes)
        ),
        "addresses": ", ".join(f"memory_{n}" for n in range(len(sizes))),
    }
    return fill_template("example.c", values, parts, "pillion.packages")


def main_program(model: PackagedModel, section: str = "", headers: str = "") -> str:
    """Returns a C program that prints the checksum."""
    return f"""/* Runs {model.name} on zeros, and prints a checksum of its outputs. */
#include <inttypes.h>
#include <stdio.h>
{headers}{inference(model, section)}
int main(void) {{
    printf("{model.name}: outputs %08" PRIx32 "\\n", infer());
    return 0;
}}
"""
