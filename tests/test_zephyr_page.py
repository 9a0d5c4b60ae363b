# SPDX-License-Identifier: Apache-2.0
"""The CMake text for Zephyr in the tutorial, with a stand-in for Zephyr's package. It shows that the text is CMake and that the model
is compiled with the flags that it is given; it shows nothing about Zephyr."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import pillion

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorials" / "tflite-to-cmake.md"
FLAGS = "-mcpu=cortex-m33 -mthumb -mfloat-abi=hard"
PACKAGE = f"""
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
enable_language(C)
add_library(zephyr_interface INTERFACE)
target_compile_options(zephyr_interface INTERFACE {FLAGS})
add_library(app STATIC)
target_link_libraries(app PRIVATE zephyr_interface)
"""
MAIN = """
#include "model.h"
#include <stddef.h>
_Alignas(16) uint8_t arena[SOUND_ARENA_BYTES];
void work(void) { sound_run(arena, NULL); }
"""


@pytest.mark.slow
@pytest.mark.qemu
@pytest.mark.skipif(not all(map(shutil.which, ("arm-none-eabi-gcc", "cmake"))), reason="needs a compiler")
@pytest.mark.nightly
def test_the_cmake_text_for_zephyr(tmp_path: Path) -> None:
    texts = re.findall(r"^```cmake\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (text,) = [text for text in texts if "find_package(Zephyr" in text]
    for name, content in {
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\n" + text,
        "src/main.c": MAIN,
        "package/ZephyrConfig.cmake": PACKAGE,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    pillion.compile("linear_bn", target="cortex-m33+int8", name="sound").save(tmp_path / "sound")
    configure = ["cmake", "-B", "b", f"-DZephyr_DIR={tmp_path}/package", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    for command in (configure, ["cmake", "--build", "b"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    compiled = json.loads((tmp_path / "b" / "compile_commands.json").read_text())
    assert len(compiled) > 5
    assert [one["file"] for one in compiled if FLAGS not in one["command"]] == []
    assert [one["file"] for one in compiled if "/host/" in one["file"]] == []
