# SPDX-License-Identifier: Apache-2.0
"""`make demo`: a keyword-spotting network, from PyTorch to a chip with an NPU, without the chip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIRMWARE = Path("build") / "demo" / "ds_cnn"
PILLION = str(Path(sys.executable).with_name("pillion"))
BOARDS = {"cortex-m33+int8": "mps2-an505", "cortex-m55+int8": "mps3-an547"}


def run(*arguments: str) -> str:
    """Shows a command and runs it; ends the demo where it fails."""
    shown = " ".join(("pillion", *arguments))
    print(f"\n$ {shown}", flush=True)
    done = subprocess.run([PILLION, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout, end="")
    if done.returncode:
        sys.exit(done.stderr or f"{shown} failed")
    return done.stdout


def main() -> None:
    boards = shutil.which("qemu-system-arm") and shutil.which("arm-none-eabi-gcc")
    run("compile", "-m", "ds_cnn", "--target", "imxrt700", "--quantize", "-o", f"{FIRMWARE}_imxrt700")
    run("run", f"{FIRMWARE}_imxrt700", "--on", "host")
    digests = []
    for target, board in BOARDS.items():
        folder = f"{FIRMWARE}_{target.removesuffix('+int8')}"
        run("compile", "-m", "ds_cnn", "--target", target, "--quantize", "-o", folder)
        for on in ("host", board) if boards else ("host",):
            output = ROOT / "build" / "demo" / f"{target}_{on}.npy"
            profile = ("--profile",) if on == board else ()
            run("run", folder, "--on", on, "--output", str(output.relative_to(ROOT)), *profile)
            digests.append(output.read_bytes())
    print()
    if not boards:
        print("The boards were left out: arm-none-eabi-gcc or qemu-system-arm is missing (make tools).")
    if len(set(digests)) != 1:
        sys.exit("The executors do not agree: this is a defect, please report it.")
    print(f"{len(digests)} runs gave the same bytes.")


if __name__ == "__main__":
    main()
