# SPDX-License-Identifier: Apache-2.0
"""An interpreter of Ethos-U55, U65 and U85 command streams, bit-exact, in numpy.

command_words, commands       from the driver's payload to commands
registers, decode, operations from commands to typed operations; decode_u85 has the registers of U85
weight_stream, memory         operands; weight_order_u85 has the order of weights of U85
arithmetic, compute           results
hazards, block_dependency     checks of waits between copies and operations
interpreter                   runs a stream
dump                          prints a stream

Anything unknown is refused: a result is exactly what the stream computes. No result was compared with a chip."""

from pillion.devices.ethos_u.stream.interpreter import StreamInterpreter as StreamInterpreter
