# SPDX-License-Identifier: Apache-2.0
"""Lines of disassemblies fall into the right classes."""

from __future__ import annotations

import pytest

from pillion.devices.cortex_m.classes import (
    ExecutedLine,
    InstructionClass,
    MemoryAccesses,
    classify_instruction,
    executed,
)

LINES = {
    InstructionClass.ALU: "add.w r3, r4, r5, lsl #2|movs r0, #0|uxtb.w r1, r2|ssat r0, #8, r1|sxtb16 r1, r2|clz r0, r1|nop|movge r0, r1|bfi r0, r1, #0, #8"
    "|bic.w r0, r1|sadd16 r0, r1, r2|pkhbt r0, r1, r2, lsl #16|lslle.w r0, r1, r2|adds.w r0, r1|csel r0, r1, r2, eq",
    InstructionClass.MULTIPLY: "mul.w r0, r1, r2|mla r0, r1, r2, r3|smlad r0, r1, r2, r3|smlabb r0, r1, r2, r3|smmulr r0, r1, r2|muls r0, r1|smuad r0, r1, r2",
    InstructionClass.MULTIPLY_LONG: "smull r0, r1, r2, r3|umlal r0, r1, r2, r3|smlald r0, r1, r2, r3",
    InstructionClass.DIVIDE: "sdiv r0, r1, r2|udiv r0, r1, r2",
    InstructionClass.LOAD: "ldr r0, [r1, #4]|ldrsb.w r0, [r1], #1|ldrh.w r0, [r1]|ldrbne r0, [r1]|vldr s0, [r1]|ldr.w r0, [r1, r2, lsl #2]",
    InstructionClass.STORE: "str r0, [r1]|strb.w r0, [r1], #1|vstr s0, [r1]|strne r0, [r1]",
    InstructionClass.MULTIPLE: "ldmia.w r3!, {r4, r5}|push {r4, r5, lr}|pop {r4, pc}|ldrd r0, r1, [r2]|strd r0, r1, [sp, #8]|vpush {d8-d15}|stmdb sp!, {r4, r5}",
    InstructionClass.BRANCH: "b.n 1000 <x>|bne.w 10|bl 10|bx lr|blx r3|cbz r0, 10|beq.n 10|bls.n 10|ble.n 10|tbb [pc, r0]|blt.n 4|blhi 10",
    InstructionClass.PREFIX: "it ge|ittt lt|ite eq|vpst|vpstt|vpt.s32 gt, q0, q1",
    InstructionClass.LOOP: "le lr, 10|letp lr, 10|dls lr, r0|wlstp.8 lr, r3, 10|wls lr, r0, 10|lctp",
    InstructionClass.FLOAT: "vadd.f32 s0, s1, s2|vmov r0, s0|vcvt.s32.f32 s0, s0|vmrs APSR_nzcv, fpscr|vcmpe.f32 s0, s1|vmul.f32 s0, s1, s2",
    InstructionClass.FLOAT_DIVIDE: "vdiv.f32 s0, s1, s2|vsqrt.f32 s0, s1",
    InstructionClass.VECTOR: "vmlava.s8 r0, q1, q2|vadd.i32 q0, q1, q2|vdup.8 q0, r1|vqrdmulh.s32 q0, q1, r2|vmov.i32 q0, #0|vctp.16 r0|vmul.f32 q0, q1, q2"
    "|vmov q0[2], q0[0], r1, r2|vpsel q0, q1, q2|vidup.u8 q0, r2, #1",
    InstructionClass.VECTOR_MEMORY: "vldrb.u8 q0, [r1], #16|vldrw.u32 q0, [r1]|vstrbt.8 q0, [r1]|vst20.16 {q0, q1}, [r0]|vldrb.s32 q0, [r1, #4]",
    InstructionClass.VECTOR_GATHER: "vldrb.u8 q0, [r1, q2]|vstrw.32 q0, [r1, q2, uxtw #2]|vldrw.u32 q0, [q1, #8]",
}  # fmt: skip
CASES = [(line, name) for name, lines in LINES.items() for line in lines.split("|")]


@pytest.mark.parametrize(("line", "name"), CASES, ids=[line for line, _ in CASES])
def test_a_line_has_its_class(line: str, name: InstructionClass) -> None:
    assert classify_instruction(line).name is name


@pytest.mark.parametrize(
    ("line", "more"),
    [
        ("push {r4, r5, lr}", 2),
        ("ldmia.w r3!, {r4-r7, lr}", 4),
        ("vpush {d8-d15}", 7),
        ("ldrd r0, r1, [r2]", 1),
        ("pop {pc}", 0),
    ],
)
def test_registers_beyond_the_first_are_counted(line: str, more: int) -> None:
    assert classify_instruction(line).more_registers == more


def test_jumps_of_hardware_loops_are_no_jumps() -> None:
    ran = executed(
        [ExecutedLine("le lr, 10", 9, 8), ExecutedLine("bne.n 10", 7, 5), ExecutedLine("pop {r4, pc}", 2, 2)],
        MemoryAccesses(),
        MemoryAccesses(),
    )
    assert (ran.taken, ran.more_registers, ran.instructions) == (7, 2, 18)


@pytest.mark.parametrize("wrong", [(-1, 0), (1, 2), (0, -1)])
def test_more_lines_than_bytes_cannot_be(wrong: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="lines for"):
        MemoryAccesses(*wrong)
