# SPDX-License-Identifier: Apache-2.0
"""The child process that imports NXP's SDK, which may end its process. `python -m
pillion.devices.neutron.converter.sdk_worker FOLDER` reads `job.json` there and writes `result.json`; the
SDK's other files stay in the folder, too."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

JOB, RESULT = "job.json", "result.json"
MODEL, CONVERTED = "segment.tflite", "converted.tflite"
KERNEL_SELECTION = "_kernel_selection.c"
"""The SDK's name for its file."""
MERGED = "kernel_selection.c"

DISTRIBUTION = "eiq-neutron-sdk"
UNWANTED_PASSES = ("HoistSliceAboveTranspose", "MergeTranspose")
"""The converter's passes that break segments."""


def main(folder: Path) -> None:
    """Executes the job in a folder: converts a segment or merges kernel selections."""
    job = json.loads((folder / JOB).read_text("utf-8"))
    result = {"convert": _convert_segment, "merge": _merge_kernel_files}[job["action"]](folder, job)
    (folder / RESULT).write_text(json.dumps({**result, "sdk_version": _sdk_version()}), "utf-8")


def _convert_segment(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Converts the segment. The target is looked up first, because the converter crashes on an unknown
    one."""
    from eiq_neutron_sdk import neutron_converter, neutron_library_utils

    targets = {target.name: target for target in neutron_library_utils.getNeutronTargets()}
    if job["target"] not in targets:
        return {"known_targets": sorted(targets)}
    if _subsystem(targets[job["target"]]):
        return {"is_subsystem": True}
    context = neutron_converter.CompilationContext()
    context.targetOpts = neutron_converter.getNeutronTarget(job["target"])
    if job["profile"] and not hasattr(context.compilationOpts, "useProfiling"):
        return {"cannot_profile": True}
    _set_options(context.compilationOpts, job)
    converted = neutron_converter.convertModel(list((folder / MODEL).read_bytes()), context)
    (folder / CONVERTED).write_bytes(bytes(converted))
    return {}


def _subsystem(target: Any) -> Any:
    """Returns a target's subsystem; newer SDKs keep it one level deeper."""
    return getattr(getattr(target, "npu", target), "subsystem", None)


def _set_options(options: Any, job: dict[str, Any]) -> None:
    options.minNumOpsPerGraph = 1
    options.excludeGraphPasses = ",".join(UNWANTED_PASSES)
    options.fetchConstantsToSRAM = job["prefetch"]
    options.dumpKernelSelectionCode = job["kernel_selection"]
    if job["profile"]:
        options.useProfiling = options.verbose = True
        options.dumpAfterImport = options.dumpAfterGenerate = "console"


def _merge_kernel_files(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
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
