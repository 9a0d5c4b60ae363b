"""The bytes of the arena for larger images: with int8 at the borders, with an early stride, with both."""

import torch
from net import Net

import pillion


def arena(size, early, borders):
    inputs = torch.rand(1, 1, size, size)
    net = Net(early).eval()
    program = pillion.compile(net, inputs, target="cortex-m33+int8", io_dtype=borders, extra=0)
    return program.memory.arena_bytes


print("pixels    as it is    int8 borders    early stride       both")
for size in (64, 256):
    plain, early = arena(size, False, "float32"), arena(size, True, "float32")
    int8, both = arena(size, False, "int8"), arena(size, True, "int8")
    print(f"{size:6}    {plain:8,}    {int8:12,}    {early:12,}    {both:7,}")
