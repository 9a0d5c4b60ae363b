# SPDX-License-Identifier: Apache-2.0
"""Runs in a child process and is the only code that imports NXP's SDK, which may end its process.

`python -m pillion.devices.neutron.converter.worker FOLDER` reads `job.json` there and leaves `result.json`. Only plain values
cross; whatever the SDK writes into the working directory stays in the folder too."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

JOB, RESULT = "job.json", "result.json"
MODEL, CONVERTED = "segment.tflite", "converted.tflite"
KERNEL_SELECTION = "_kernel_selection.c"
"""The name that the SDK gives its file."""
MERGED = "kernel_selection.c"

DISTRIBUTION = "eiq-neutron-sdk"
UNWANTED_PASSES = ("HoistSliceAboveTranspose", "MergeTranspose")
"""The converter's passes that spoil segments."""


def main(folder: Path) -> None:
    """Does the job of a folder: converts the segment in it, in a process that may crash."""
    job = json.loads((folder / JOB).read_text("utf-8"))
    result = {"convert": _convert, "merge": _merge}[job["action"]](folder, job)
    (folder / RESULT).write_text(json.dumps({**result, "sdk_version": _sdk_version()}), "utf-8")


def _convert(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """The target is looked up first: the converter dies of one that it does not know."""
    from eiq_neutron_sdk import neutron_converter, neutron_library_utils

    targets = {target.name: target for target in neutron_library_utils.getNeutronTargets()}
    if job["target"] not in targets:
        return {"known_targets": sorted(targets)}
    if _property(targets[job["target"]], "subsystem"):
        return {"is_subsystem": True}
    context = neutron_converter.CompilationContext()
    context.targetOpts = neutron_converter.getNeutronTarget(job["target"])
    _set_options(context.compilationOpts, job)
    converted = neutron_converter.convertModel(list((folder / MODEL).read_bytes()), context)
    (folder / CONVERTED).write_bytes(bytes(converted))
    return {}


def _property(target: Any, name: str) -> Any:
    """Newer SDKs keep properties one level deeper."""
    return getattr(getattr(target, "npu", target), name, None)


def _set_options(options: Any, job: dict[str, Any]) -> None:
    options.minNumOpsPerGraph = 1
    options.excludeGraphPasses = ",".join(UNWANTED_PASSES)
    options.fetchConstantsToSRAM = job["fetch_constants_to_sram"]
    options.dumpKernelSelectionCode = job["kernel_selection"]


def _merge(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    import eiq_neutron_sdk

    eiq_neutron_sdk.merge_kernel_selection_files(
        [str(folder / name) for name in job["files"]], str(folder / MERGED)
    )
    return {}


def _sdk_version() -> str:
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        import eiq_neutron_sdk

        return str(getattr(eiq_neutron_sdk, "__version__", "unknown"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
