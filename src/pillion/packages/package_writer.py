# SPDX-License-Identifier: Apache-2.0
"""Writes packages: one folder that is a package in each chosen form, for all forms together."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from pillion.errors import PillionError, require_one_of
from pillion.host_io.atomic_files import Content, read_text, resolve_links
from pillion.host_io.json_dataclasses import as_plain_data, object_from_json, parse_strict_json
from pillion.host_io.project_folders import Listing, ProjectWrite, check_paths, sha256
from pillion.packages import FORM_NAMES, cmsis
from pillion.packages.contents import Contents, Identity, read_projects
from pillion.packages.package_readme import readme

FORMS: Mapping[str, Callable[[Contents], dict[str, Content]]] = {
    form: import_module(f"pillion.packages.{form}").files for form in FORM_NAMES
}
"""The files that each form adds, from the module of its name."""
INDEX = "pillion-package.json"


@dataclass(frozen=True)
class PackageIndex:
    """The list of a package's files with their SHA-256, by which it can be written anew."""

    files: Mapping[str, str]

    def __post_init__(self) -> None:
        check_paths(self.files)


def write_package(
    folders: Sequence[Path], forms: Sequence[str], output: Path, identity: Identity, force: bool = False
) -> Contents:
    """Writes a package of C projects. It replaces an earlier one, but no file of the user."""
    for form in forms:
        require_one_of("--package", form, FORM_NAMES)
    contents = read_projects(folders, identity)
    _check_identity(contents.identity)
    files: dict[str, Content] = dict(contents.files)
    for form in dict.fromkeys(forms):
        files |= FORMS[form](contents)
    files["README.md"] = readme(contents, [form for form in FORMS if form in forms])
    files |= cmsis.archive(contents, files) if "cmsis" in forms else {}
    index = PackageIndex({path: sha256(content) for path, content in sorted(files.items())})
    files[INDEX] = json.dumps(as_plain_data(index), indent=2) + "\n"
    ProjectWrite(resolve_links(output), files, INDEX, _earlier_package, force).write()
    return contents


def _check_identity(identity: Identity) -> None:
    patterns = {
        "--name kws": (identity.name, r"[A-Za-z][A-Za-z0-9_]{0,62}", "letters, digits and _, a letter first"),
        "--version 1.0.0": (identity.version, r"(0|[1-9]\d{0,8})(\.(0|[1-9]\d{0,8})){2}", "three numbers"),
        "--vendor Acme": (
            identity.vendor,
            r"[A-Za-z][A-Za-z0-9_-]{0,62}",
            "letters, digits, _ and -, a letter first",
        ),
    }
    for example, (value, pattern, rule) in patterns.items():
        if not re.fullmatch(pattern, value):
            raise PillionError(
                f"package tools do not take {example.split()[0]} {value}", rule=rule, here=value, help=example
            )


def _earlier_package(folder: Path) -> Listing | None:
    try:
        index = object_from_json(
            PackageIndex, parse_strict_json(read_text(folder / INDEX, "package's index"))
        )
    except (PillionError, ValueError):
        return None
    return Listing(index.files, is_sealed=True)
