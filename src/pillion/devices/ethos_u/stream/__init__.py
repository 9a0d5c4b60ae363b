# SPDX-License-Identifier: Apache-2.0
"""An interpreter of Ethos-U55 and U65 command streams, bit-exact, in numpy.

command_words, commands       from the driver's payload to commands
registers, decode, operations from commands to typed operations
weight_stream, memory         operands
arithmetic, compute           results
hazards, block_dependency     checks of waits between copies and operations
interpreter                   runs a stream
dump                          prints a stream

Anything unknown is refused: a result is exactly what the stream computes. No result was compared with a chip."""

from pillion.devices.ethos_u.stream.interpreter import StreamInterpreter as StreamInterpreter
