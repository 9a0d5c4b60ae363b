# SPDX-License-Identifier: Apache-2.0
"""Checks the members of a `.pt2` and rewrites them into an unambiguous archive."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from pillion.importers.torch.pt2.code_check import UntrustedError, check_words

PROGRAMS = ("models/", "serialized_exported_program.json")
"""Members with the serialized program: the current name, and the names up to torch 2.7."""
OBJECTS = ("custom_obj", "opaque_obj", "custom-obj", "opaque-obj")
"""Name prefixes of members that torch unpickles into objects."""
NATIVE = ("aotinductor", "executorch", "mtia")
"""Folders of `data/` with native code or code of another runtime."""

ROOT = "package"
KEPT = ("data/", "models/", "archive_", ".data/", "byteorder")
"""Members of a program."""

Json = Any


def checked_archive(raw: bytes) -> bytes:
    """Returns the same program as an archive without executable content. Raises if it has any, or if this is no
    archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in _archive_members(raw).items():
            archive.writestr(name, _checked_member(name.removeprefix(f"{ROOT}/"), content, len(raw)))
    return buffer.getvalue()


def _archive_members(raw: bytes) -> Mapping[str, bytes]:
    """Members by lower-case names below one root, as torch looks them up; archives up to torch 2.7 have no root."""
    members = {
        "/".join(PurePosixPath(name.lower()).parts): content
        for name, content in uncompressed_members(raw).items()
    }
    if "version" in members:
        return {name: content for name, content in members.items() if "/" not in name}
    roots = {name.partition("/")[0] for name in members}
    if len(roots) != 1:
        raise ValueError(f"all members lie in one folder, found {', '.join(sorted(roots))[:80]!r}")
    below = {name.partition("/")[2]: content for name, content in members.items()}
    return {f"{ROOT}/{name}": content for name, content in below.items() if name.startswith(KEPT)}


def uncompressed_members(raw: bytes) -> Mapping[str, bytes]:
    """Returns all members of an uncompressed archive; their total size is at most the file's."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        infos = archive.infolist()
        packed = [info.filename for info in infos if info.compress_type != zipfile.ZIP_STORED]
        total = sum(info.file_size for info in infos)
        if packed or total > len(raw):
            raise ValueError(
                f"members are stored as they are, {(packed or ['they overlap'])[0][:80]!r} is not"
            )
        if len({PurePosixPath(info.filename.lower()) for info in infos}) != len(infos):
            raise ValueError("two members have one name")
        return {info.filename: archive.read(info) for info in infos}


def _checked_member(inside: str, content: bytes, most: int) -> bytes:
    """Returns the content of a member after its check."""
    if inside.startswith("data/") and inside.split("/")[1] in NATIVE:
        raise UntrustedError(f"native code: {inside[:200]!r}")
    if inside.rpartition("/")[2].startswith(OBJECTS):
        raise UntrustedError(f"a pickled object: {inside[:200]!r}")
    if content.startswith(b"PK"):
        uncompressed_members(content)
    if inside.startswith(PROGRAMS):
        return json.dumps(check_words(_parse_json_member(inside, content))).encode()
    if inside.endswith("_config.json"):
        return json.dumps(_checked_config(_parse_json_member(inside, content), most)).encode()
    return content


def _parse_json_member(name: str, content: bytes) -> Json:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name[:80]!r} is no JSON: {error}") from None


def _checked_config(config: Json, most: int) -> Json:
    """Checks the map from tensors to members: no tensor has more elements than the file has bytes."""
    for name, entry in check_words(config)["config"].items():
        if str(entry["path_name"]).startswith(OBJECTS):
            raise UntrustedError(f"a pickled object: {name[:80]!r}")
        elements = 1
        for size in (entry.get("tensor_meta") or {}).get("sizes", []):
            elements *= size["as_int"]
        if not 0 <= elements <= most:
            raise ValueError(f"tensor {name[:80]!r} has {elements} elements, the file {most} bytes")
    return config


__all__ = ["UntrustedError", "checked_archive", "uncompressed_members"]
