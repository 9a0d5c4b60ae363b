# SPDX-License-Identifier: Apache-2.0
"""The PlatformIO library."""

from __future__ import annotations

import json

from pillion.host_io.atomic_files import Content
from pillion.packages.contents import FLAGS, SOURCES, Contents
from pillion.packages.example import main_program


def files(contents: Contents) -> dict[str, Content]:
    """Returns the files of the form."""
    names = [model.name for model in contents.models]
    manifest = {
        "name": contents.identity.name,
        "version": contents.identity.version,
        "description": f"{', '.join(names)}, compiled by Pillion",
        "keywords": ["neural network", "microcontroller", "cortex-m"],
        "authors": [{"name": contents.identity.vendor}],
        "headers": [f"{name}.h" for name in names],
        "frameworks": "*",
        "platforms": "*",
        "build": {
            "srcDir": SOURCES,
            "includeDir": SOURCES,
            "libArchive": True,
            "flags": list(FLAGS),
            "unflags": ["-Os"],
        },
        "examples": [{"name": name, "base": f"examples/{name}_main", "files": ["main.c"]} for name in names],
    }
    return {
        "library.json": json.dumps(manifest, indent=2) + "\n",
        **{f"examples/{model.name}_main/main.c": main_program(model) for model in contents.models},
    }
