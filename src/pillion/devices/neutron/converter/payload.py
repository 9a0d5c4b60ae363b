# SPDX-License-Identifier: Apache-2.0
"""The payload of one segment, as the runtime's `NeutronBackend` reads it: four blocks (header, microcode, weights,
kernels), each padded with zeros to a multiple of 16 bytes. All fields of the header are single bytes:

    0           I, the number of the NPU's inputs
    1           O, the number of the NPU's outputs
    2           A, the number of arguments before the outputs
    3           for each input, then each output: 1 if the runtime must make it channels-last, else 0
    3+I+O       for each input its argument, then for each output its index among the segment's outputs
    3+2I+2O     payload version"""

from __future__ import annotations

from dataclasses import dataclass

from pillion.devices.neutron.converter.microcode import read_microcode
from pillion.errors import PillionError
from pillion.schemas.ir_payload import IrPayload, damaged_payload_error, is_ir, parse_ir, to_block

MAX_PORTS = 255
"""The header's counts are single bytes."""
BLOCK_BYTES = 16


@dataclass(frozen=True)
class Port:
    """An input or output of the NPU: its index in the segment, and whether the runtime transposes it."""

    index: int
    transposed: bool = False


@dataclass(frozen=True)
class DevicePayload:
    """The converter's result for a segment, and the mapping from the program's arguments."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arguments: int
    version: int
    microcode: bytes
    weights: bytes
    kernels: bytes

    @property
    def head(self) -> bytes:
        """The first block: the number of tensors, their transpositions and their argument indices."""
        ports = (*self.inputs, *self.outputs)
        counts = (len(self.inputs), len(self.outputs), self.arguments)
        return bytes((*counts, *(p.transposed for p in ports), *(p.index for p in ports), self.version))

    @property
    def scratch_bytes(self) -> int:
        """The RAM for tensors inside the segment, in bytes, from the microcode."""
        return read_microcode(self.microcode, self.version).scratch_bytes

    @property
    def ram_bytes(self) -> int:
        """The RAM of a run besides inputs and outputs, in bytes, from the microcode."""
        head = read_microcode(self.microcode, self.version)
        return head.scratch_bytes + head.prefetch_bytes + head.record_bytes

    def compose(self) -> bytes:
        """Returns the payload's bytes; raises if the runtime would refuse them."""
        check_payload(self)
        return b"".join(map(to_block, (self.head, self.microcode, self.weights, self.kernels)))


Payload = DevicePayload | IrPayload


def compose_payload(payload: Payload) -> bytes:
    """Returns the bytes of a payload of either kind."""
    return payload.compose()


def parse_payload(raw: bytes) -> Payload:
    """Returns the payload in unchecked bytes: the converter's, or marked TFLite."""
    payload = parse_ir(raw) if is_ir(raw) else _parse_device(raw)
    if payload.compose() != raw:
        raise damaged_payload_error("zeros between the blocks", "other bytes")
    return payload


def check_payload(payload: DevicePayload) -> None:
    """Raises if header and microcode disagree."""
    largest = max(len(payload.inputs), len(payload.outputs), payload.arguments)
    if largest > MAX_PORTS:
        raise PillionError(
            "a segment has too many inputs or outputs for the NPU's runtime",
            rule=f"at most {MAX_PORTS}, as the payload counts them in single bytes",
            here=f"{payload.arguments} inputs, {len(payload.outputs)} outputs",
            help="--keep-on-cpu cuts the segment",
        )
    _check_indices("input", payload.inputs, payload.arguments)
    _check_indices("output", payload.outputs, len(payload.outputs))
    _check_microcode(payload)


def _check_indices(what: str, ports: tuple[Port, ...], count: int) -> None:
    indices = [port.index for port in ports]
    if len(set(indices)) != len(indices) or any(not 0 <= index < count for index in indices):
        raise damaged_payload_error(
            f"each {what} has a place of its own, from 0 to {count - 1}", ", ".join(map(str, indices))
        )


def _check_microcode(payload: DevicePayload) -> None:
    head = read_microcode(payload.microcode, payload.version)
    counts = (len(payload.inputs), len(payload.outputs))
    if (head.inputs, head.outputs) != counts:
        rule = f"{head.inputs} inputs and {head.outputs} outputs by the microcode"
        raise damaged_payload_error(rule, f"{counts[0]} and {counts[1]} in the head")
    sizes = (
        ("microcode", head.microcode_bytes, payload.microcode),
        ("weights", head.weights_bytes, payload.weights),
    )
    for name, declared, block in sizes:
        if _align_to_block(declared) != _align_to_block(len(block)):
            raise damaged_payload_error(f"{declared} bytes of {name}, as the microcode says", f"{len(block)}")


def _align_to_block(count: int) -> int:
    return count + -count % BLOCK_BYTES


def _parse_device(raw: bytes) -> DevicePayload:
    """Reads the four blocks. The kernels extend to the end, because no field holds their length."""
    if len(raw) % BLOCK_BYTES or len(raw) < BLOCK_BYTES:
        raise damaged_payload_error(f"blocks of {BLOCK_BYTES} bytes", f"{len(raw)} bytes")
    inputs, outputs, arguments = raw[:3]
    ports = inputs + outputs
    length = 4 + 2 * ports
    start = _align_to_block(length)
    flags, indices = raw[3 : 3 + ports], raw[3 + ports : 3 + 2 * ports]
    if len(raw) < start:
        raise damaged_payload_error(f"a head of {length} bytes", f"{len(raw)} bytes in all")
    if any(flags.strip(b"\0\x01")) or any(raw[length:start]):
        raise damaged_payload_error("flags of 0 and 1, and zeros behind the head", raw[3:start].hex())
    version = raw[length - 1]
    head = read_microcode(raw[start:], version)
    weights = start + _align_to_block(head.microcode_bytes)
    kernels = weights + _align_to_block(head.weights_bytes)
    if kernels > len(raw):
        raise damaged_payload_error(f"at least {kernels} bytes by the microcode", f"{len(raw)}")
    all_ports = tuple(Port(index, bool(flag)) for index, flag in zip(indices, flags, strict=True))
    return DevicePayload(
        inputs=all_ports[:inputs],
        outputs=all_ports[inputs:],
        arguments=arguments,
        version=version,
        microcode=raw[start : start + head.microcode_bytes],
        weights=raw[weights : weights + head.weights_bytes],
        kernels=raw[kernels:],
    )
