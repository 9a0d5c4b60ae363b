# SPDX-License-Identifier: Apache-2.0
"""The command `pillion compile`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

from pillion.cli import completion, console, program_facts
from pillion.cli.application import app
from pillion.cli.data_options import MetricOptions, with_data
from pillion.cli.help import MAKE, RESULT, option
from pillion.cli.option_groups import NamedModel, TimingOptions
from pillion.cli.options import (
    BenchmarkOption,
    ForceOption,
    JsonOption,
    OutputOption,
    QuantizeOption,
    SelfTestOption,
    SerialOption,
    TargetOption,
)
from pillion.cli.request import Request, check_request, compile_request, write_program
from pillion.compile_options import CompileOptions
from pillion.data.reading_options import Reading
from pillion.errors import PillionError, require_one_of
from pillion.host_io.atomic_files import output_suffix
from pillion.option_values import NEWEST_RUNTIME, known_runtime
from pillion.packages import FORM_NAMES


@app.command(
    rich_help_panel=MAKE,
    epilog="""
pillion compile ds_cnn -t cortex-m55 -q -o kws_fw/               a C project
pillion compile net.py:Net -t cortex-m33 -q --calibrate samples/ -o net_fw/
pillion compile net.py:Net -t cortex-m33 -q --calibrate photos/ --fit crop --mean 0.5 --std 0.5 -o net_fw/
pillion compile net.py:Net -t cortex-m55 -q --calibrate train.npz --max-drop 0.5% --data test.npz -o net_fw/   16 bits where accuracy needs them
pillion compile mobilenet_v2 --input-size 96 -t cortex-m33 -q -o mv2.pte
pillion compile ds_cnn -t cortex-m55 -q --kernels pillion -o kws.pte     a third of the instructions, with a delegate
pillion compile ds_cnn -t cortex-m55 -q --kernels kernels/manifest.json -o kws.plm    data for a firmware (`pillion kernels`)
pillion compile resnet8 -t cortex-m33 -q --io-layout nhwc --rows-in -o cam/       rows of a camera, no frame buffer
pillion compile net.py:Net -t cortex-m33 -q --rows-of image -o cam/          one of several inputs by rows
pillion compile net.py:Net -t cortex-m55 -q --stream x:2 --hop 2 -o kws_fw/      two new frames in each run
pillion compile gru.py:Net -t cortex-m55 -q --stateful -o gru_fw/         recurrent state continues
pillion compile cell.py:Net -t cortex-m55 -q --state-pair h:1 -o cell_fw/   output 1 becomes input h of the next run
pillion compile ds_cnn -t cortex-m33 -q --serial rp2350 -o kws_fw/   for runs on a chip (`pillion run --on serial:PORT`)
pillion compile kws.tflite -t CHIP -o kws.pte                 int8 already, no -q; CHIP from `pillion targets`
pillion compile kws.tflite -t cortex-m55 --arithmetic cmsis-nn -o kws.pte     rounds as CMSIS-NN does
""",
)
def compile(
    *,
    model: NamedModel,
    output: OutputOption,
    target: TargetOption,
    quantize: QuantizeOption = False,
    options: CompileOptions,
    judged: MetricOptions,
    reading: Reading,
    runtime: Annotated[
        str,
        option(
            RESULT,
            "ExecuTorch version that runs the .pte.",
            metavar="1.4|1.5",
            complete=completion.complete_words("1.4", "1.5"),
        ),
    ] = NEWEST_RUNTIME,
    intermediates: Annotated[
        Optional[Path],
        option(
            RESULT,
            "Write the graph after each pass, the placement and the memory plan here.",
            "-i --intermediates",
            metavar="DIR",
        ),
    ] = None,
    selftest: SelfTestOption = None,
    serial: SerialOption = None,
    benchmark: BenchmarkOption = None,
    kernels: Annotated[
        Optional[str],
        option(
            RESULT,
            "Kernels of a .pte (default cortex_m), or the manifest.json of a firmware.",
            metavar="cortex_m|pillion|FILE",
        ),
    ] = None,
    forms: Annotated[
        Optional[list[str]],
        option(
            RESULT,
            "Also make a package of a C project in DIR/package/ (see `pillion package`).",
            "--package",
            metavar="FORM",
            complete=completion.complete_words(*FORM_NAMES),
        ),
    ] = None,
    timing: TimingOptions,
    page: Annotated[
        Optional[Path],
        option(
            RESULT, "Write a report to this .html file (see `pillion report`).", "--report", metavar="FILE"
        ),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compile a model for a chip, to C, .pte, .tflite or .plm.

    A float model needs -q to be quantized, best with representative data (--calibrate). A model that cannot be
    compiled is refused with the rule, the line in your model, and a way out."""
    version = known_runtime(runtime, "--runtime")
    request = Request(model.name, target, quantize, options, intermediates)
    output_suffix(output)
    check_request(request)
    _check_serial(serial, benchmark, output)
    _check_package_forms(forms or [], output)
    request = with_data(request, reading, judged)
    from pillion.cli import report_files, selftest_output, time_output
    from pillion.packages.contents import Identity
    from pillion.packages.package_writer import write_package
    from pillion.report.report_options import ReportOptions

    report_files.check_report_path(page)
    conditions = timing.conditions
    time_output.require_c_output(conditions, output)
    selftest_output.require_selftest_format(selftest, output)
    with console.progress_bar(quiet=as_json):
        program = compile_request(request)
    write_program(program, output, version, force=force, selftest=selftest, kernels=kernels)
    if serial:
        from pillion.emitters.c.serial_harness import add_serial_harness

        add_serial_harness(output, serial, benchmark, force=force)
    if forms:
        write_package([output], forms, output / "package", Identity(), force)
    program_facts.warn_of_memory(program)
    time = time_output.estimate_program_time(program, conditions, quiet=as_json)
    facts = {
        **program_facts.compiled_program_facts(program, output, version),
        **program_facts.arithmetic_change_facts(program, quiet=as_json),
        **selftest_output.selftest_facts(program, output, selftest),
        **time_output.time_facts(time, as_json, in_short=True),
    }
    if page is not None:
        told = report_files.collect_facts(
            program,
            request,
            options.quantize.calibrate,
            ReportOptions(max_flash=options.memory.flash_limit),
            quiet=as_json,
        )
        facts |= report_files.write_report(told, page)
    console.print_facts(facts, as_json)


def _check_serial(serial: str | None, benchmark: str | None, output: Path) -> None:
    """Raises if a serial harness is asked for that cannot be added to the output."""
    from pillion.emitters.c.serial_harness import BENCHMARKS, PORTS

    if benchmark is not None:
        require_one_of("--benchmark", benchmark, tuple(BENCHMARKS))
    if serial is None and benchmark is not None:
        raise PillionError(
            f"--benchmark {benchmark} is for a chip",
            rule="its firmware answers over a serial line: --serial names the port",
            here="no --serial",
            help="--serial qemu, or one of " + ", ".join(PORTS),
        )
    if serial is None:
        return
    require_one_of("--serial", serial, tuple(PORTS))
    if form := output_suffix(output):
        raise PillionError(
            f"--serial {serial} adds nothing to a {form}",
            rule="the serial harness is a folder of a C project",
            here=f"-o {output}",
            help=f"-o {output.stem}/",
        )


def _check_package_forms(forms: Sequence[str], output: Path) -> None:
    """Raises if packages are asked for that cannot be made of the output."""
    for form in forms:
        require_one_of("--package", form, FORM_NAMES)
    if forms and (form := output_suffix(output)):
        raise PillionError(
            f"--package {forms[0]} makes nothing of a {form}",
            rule="packages hold C projects",
            here=f"-o {output}",
            help=f"-o {output.stem}/",
        )
