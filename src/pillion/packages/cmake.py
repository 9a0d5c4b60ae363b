# SPDX-License-Identifier: Apache-2.0
"""The CMake package: `find_package` after an installation, or `FetchContent` and `add_subdirectory` without one."""

from __future__ import annotations

from pillion.emitters.c.text_templates import fill_template
from pillion.host_io.atomic_files import Content
from pillion.packages.contents import FLAGS, SOURCES, Contents


def files(contents: Contents) -> dict[str, Content]:
    """Returns the files of the form."""
    name, version = contents.identity.name, contents.identity.version
    values = {
        "name": name,
        "version": version,
        "sources": "\n  ".join(contents.sources),
        "include": SOURCES,
        "flags": " ".join(FLAGS),
    }
    return {"CMakeLists.txt": fill_template("CMakeLists.txt", values, package="pillion.packages")}
