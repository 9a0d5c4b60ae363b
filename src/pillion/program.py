# SPDX-License-Identifier: Apache-2.0
"""`Program`, a compiled model: run it, inspect it, write it out. Each method is a function where its subject lives."""

from __future__ import annotations

from pillion import program_files
from pillion.compiled_program import CompiledProgram
from pillion.report import program_report
from pillion.report.notebook import notebook_html
from pillion.run import program_runs


class Program(CompiledProgram):
    """A compiled model: the record, and the functions that run, write and show it."""

    run = program_runs.run
    measure = program_runs.measure
    stream = program_runs.stream
    time = program_runs.time
    verify = program_runs.verify

    save = program_files.save
    firmware = program_files.firmware
    selftest = program_files.self_test_of
    image = program_files.image
    tflite = program_files.tflite
    pte = program_files.pte
    bundled = program_files.bundled

    report = program_report.report
    explain = program_report.explain
    text = program_report.text
    change_of_arithmetic = program_report.change_of_arithmetic
    _repr_html_ = notebook_html
