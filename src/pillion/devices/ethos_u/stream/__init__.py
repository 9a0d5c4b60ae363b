# SPDX-License-Identifier: Apache-2.0
"""Command streams of the Ethos-U55 and U65: taken apart, shown, and executed bit for bit in numpy.

words, commands     from the driver's payload to commands
registers, decode   from commands to typed operations
weights, memory     what they read
arithmetic, compute what they compute
hazards, blocks     whether copies and operations wait for each other, and operations for one another
run                 all of it
show                as text

What is not known is refused, and nothing is passed over: an answer is what the stream computes. That no chip was tried is another matter."""

from pillion.devices.ethos_u.stream.run import Interpreter as Interpreter
