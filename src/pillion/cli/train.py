# SPDX-License-Identifier: Apache-2.0
"""The command `pillion train`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Optional

from pillion.cli import completion, console, program_facts
from pillion.cli.application import app
from pillion.cli.dataclass_options import Without
from pillion.cli.help import MAKE, argument
from pillion.cli.option_groups import require_single_model
from pillion.cli.options import ForceOption, JsonOption, ModelOption, OutputOption, TargetOption
from pillion.cli.request import Request, check_training
from pillion.compile_options import AFTER_TRAINING, CompileOptions
from pillion.host_io.atomic_files import output_suffix
from pillion.host_io.progress import show_progress


@app.command(
    rich_help_panel=MAKE,
    epilog="""
pillion train learn.py:train -t cortex-m55 -o net_fw/              trains learn.py:model()
pillion train learn.py:train ds_cnn -t cortex-m33 -o kws.pte         trains a zoo model
pillion train learn.py:train -t cortex-m55 --int16 'head*' -o net_fw/    16 bits in these tensors
""",
)
def train(
    *,
    function: Annotated[
        str,
        argument(
            "Your training loop: FUNCTION(model) trains and returns the model.", metavar="FILE.py:FUNCTION"
        ),
    ],
    named: Annotated[
        Optional[str],
        argument(
            "Model to train: zoo name or file.py:factory (default: FILE.py:model).",
            metavar="MODEL",
            complete=completion.complete_models,
            show_default=False,
        ),
    ] = None,
    output: OutputOption,
    target: TargetOption,
    model: ModelOption = None,
    options: Annotated[
        CompileOptions,
        Without((*AFTER_TRAINING, "max_flash", "trust_pickle", "preprocess")),
    ],
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train with your own loop in simulated int8, then compile.

    FUNCTION(model) trains the module that it gets, and returns it. The untrained model is compiled first, so
    that problems show before the training; with --min-quality or --max-time, it decides by --calibrate which
    tensors are trained in 16 bits. Output of your loop is unchanged; with --json it goes to standard
    error."""
    require_single_model(named, model)
    request = Request(named or model or "", target, True, options)
    output_suffix(output)
    check_training(function, request)
    from pillion.cli.train_loop import train_and_compile as run_training

    # No bars around the whole: they would tear the loop's own output.
    with show_progress(False) if as_json else nullcontext():
        trained = run_training(function, request, output, force=force, prints_to_stderr=as_json)
    facts = {**program_facts.compiled_program_facts(trained.program, output), "batches": trained.batches}
    console.print_facts(facts | ({"int16": list(trained.int16)} if trained.int16 else {}), as_json)
