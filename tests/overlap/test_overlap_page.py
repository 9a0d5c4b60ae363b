# SPDX-License-Identifier: Apache-2.0
"""The C of the guide's page on overlap: compilers for chips take it, and its loops end with the right bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pillion
from pillion.boards.toolchain import host_compiler
from pillion.overlap import overlap_of
from pillion.program import Program

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "overlap.md"
OPTIONS = {"io_dtype": "int8", "io_layout": "nhwc", "overlap": True, "keep_on_cpu": ("scan",)}
STUBS = {
    "ethosu_driver.h": """
#ifndef STUBS_H
#define STUBS_H
#include <stddef.h>
struct ethosu_driver { int unused; };
void ethosu_irq_handler(struct ethosu_driver *npu);
void __WFE(void);
void __WFI(void);
void __disable_irq(void);
void __enable_irq(void);
#endif
""",
    "FreeRTOS.h": "typedef int BaseType_t;\n#define pdFALSE 0\n#define pdTRUE 1\n#define portMAX_DELAY 0xffffffffu\n",
    "task.h": """
typedef void *TaskHandle_t;
void vTaskNotifyGiveFromISR(TaskHandle_t thread, BaseType_t *woken);
BaseType_t xTaskNotifyGive(TaskHandle_t thread);
unsigned ulTaskNotifyTake(BaseType_t clear, unsigned ticks);
#define portYIELD_FROM_ISR(woken) ((void)(woken))
""",
}
SYSTEM = """
#include "model.h"
#include <ethosu_driver.h>
#include <FreeRTOS.h>
#include <task.h>
#include <stdio.h>
#include <string.h>
struct ethosu_driver npu;
TaskHandle_t threads[2];
static int left, slept;
void classify(void);
void NPU_IRQHandler(void);
void measure_next_samples(void) {}
void ethosu_irq_handler(struct ethosu_driver *driver) { (void)driver; left--; }
static void sleep(void) { slept++; NPU_IRQHandler(); }
void __WFE(void) { sleep(); }
void __WFI(void) { sleep(); }
void __disable_irq(void) {}
void __enable_irq(void) {}
void vTaskNotifyGiveFromISR(TaskHandle_t thread, BaseType_t *woken) { (void)thread; *woken = 1; }
BaseType_t xTaskNotifyGive(TaskHandle_t thread) { (void)thread; return 1; }
unsigned ulTaskNotifyTake(BaseType_t clear, unsigned ticks) { (void)clear; (void)ticks; sleep(); return 1; }
void net_npu_segment_0(const void *const *inputs, void *const *outputs);
int net_npu_segment_0_start(pillion_task *task, const void *const *inputs, void *const *outputs) {
    (void)inputs; (void)outputs;
    left = 3; /* interrupts until it ends */
    return pillion_npu_take(task);
}
int net_npu_segment_0_end(pillion_task *task, const void *const *inputs, void *const *outputs) {
    if (left > 0) return 0;
    net_npu_segment_0(inputs, outputs);
    pillion_npu_pass(task);
    return 1;
}
"""
MAIN = """
int main(void) {
    for (uint32_t i = 0; i < 2; i++) {
        const pillion_buffer *const in = &pillion_model_net.inputs[i];
        if (fread(arena + in->offset, 1, in->bytes, stdin) != in->bytes) return 1;
    }
    classify();
    fwrite(NET_OUTPUT_0(arena), 1, pillion_model_net.outputs[0].bytes, stdout);
    return slept == 3 ? 0 : 2;
}
"""


def texts(language: str) -> dict[str, str]:
    """The page's blocks with a title."""
    found = re.findall(rf'^```{language} title="(.*?)"\n(.*?)^```', PAGE.read_text("utf-8"), re.M | re.S)
    return dict(found)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("page") / "net.py"
    file.write_text(texts("python")["net.py"])
    return f"{file}:Net"


@pytest.fixture(scope="module")
def program(net: str) -> Program:
    return compiled(net, "imxrt700")


def compiled(net: str, target: str) -> Program:
    import runpy

    names = runpy.run_path(net.removesuffix(":Net"))
    return pillion.compile(
        names["Net"]().eval(), names["example_inputs"](), target=target, name="net", **OPTIONS
    )


@pytest.mark.parametrize("name", texts("c"))
def test_compilers_for_chips_take_the_examples(name: str, program: Program, tmp_path: Path) -> None:
    compiler = shutil.which("arm-none-eabi-gcc")
    if compiler is None:
        pytest.skip("not installed: arm-none-eabi-gcc")
    project = program.firmware(tmp_path / "build")
    for file, text in {**STUBS, name: texts("c")[name]}.items():
        (tmp_path / file).write_text(text)
    folders = [f"-I{project / 'model'}", f"-I{project / 'model/kernels/include'}", f"-I{tmp_path}"]
    flags = ["-mcpu=cortex-m33", "-mthumb", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-c"]
    subprocess.run([compiler, *flags, *folders, name], cwd=tmp_path, check=True, timeout=60)


@pytest.mark.parametrize("name", ["wfe.c", "wfi.c", "rtos.c"])
def test_the_loops_of_the_examples_end_with_the_right_bytes(
    name: str, program: Program, tmp_path: Path
) -> None:
    """On this computer, with an NPU that ends after three interrupts: the loops sleep three times."""
    project = program.firmware(tmp_path / "build") / "host"
    example = texts("c")[name] + MAIN
    for file, text in {**STUBS, "main.c": SYSTEM + example}.items():
        (tmp_path / file).write_text(text)
    sources = [*sorted(project.glob("*.c")), *sorted((project / "kernels").glob("*.c"))]
    folders = [f"-I{project}", f"-I{project / 'kernels/include'}", f"-I{tmp_path}"]
    command = [*host_compiler(), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", *folders, "main.c"]
    command += [*map(str, sources), "-lm", "-o", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-128, 128, v.shape).astype(np.int8) for v in program.graph.inputs]
    raw = b"".join(x.tobytes() for x in inputs)
    made = subprocess.run([tmp_path / "run"], input=raw, capture_output=True, timeout=60, check=False)
    assert made.returncode == 0
    assert made.stdout == program.run(*inputs)[0].tobytes()


def test_the_figures_of_the_page(net: str) -> None:
    pytest.importorskip("ethosu.vela", reason="Vela is not installed")
    found = overlap_of(compiled(net, "cortex-m55+ethos-u55-128"))
    assert found is not None
    page = PAGE.read_text("utf-8")
    for figure in (found.timeline.total, found.timeline.serial, found.arena_bytes, found.bytes_without):
        assert f"{round(figure):,}" in page
