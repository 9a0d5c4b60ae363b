# SPDX-License-Identifier: Apache-2.0
"""Output of `pillion compare` as plain data, for the screen and for `--json`."""

from __future__ import annotations

from dataclasses import asdict

from pillion.cli.console import Facts, known
from pillion.evaluation.compare import ComparedSide, TwoPrograms
from pillion.evaluation.layer_chart import text_bar
from pillion.evaluation.layer_errors import Comparison

MOST_LAYERS = 15
"""Most layers shown on the screen; `--json` has all."""
MOST_HELP = 5
COLUMNS = ("layer", "kind", "share", "damage", "outputs_db", "tensor_db", "running_db", "source")
LEGEND = """damage: noise of the outputs over their signal, with the noise that this layer alone adds; share: of all layers' damage
signal to noise: outputs db, of the outputs, and tensor db, of the layer's result, with this layer's noise alone;
running db, of its result in the whole program"""


def facts_of_layers(comparison: Comparison) -> Facts:
    """Returns all layers, worst first."""
    return {
        "model": comparison.model,
        "target": comparison.target,
        "samples": comparison.samples,
        "output_signal_to_noise_db": comparison.output_db,
        "expected_from_layers_db": comparison.expected_db,
        "layers": [asdict(layer) for layer in comparison.layers],
        "unmatched": list(comparison.unmatched),
    }


def layers_on_screen(comparison: Comparison) -> Facts:
    """Returns the worst layers as a table with bars, and hints."""
    shown = comparison.layers[:MOST_LAYERS]
    largest = max((layer.share for layer in shown), default=0) or 1
    rows = [
        {
            "layer": layer.name,
            "kind": layer.kind,
            "share": f"{layer.share:.1%}",
            "damage": text_bar(layer.share / largest),
            "outputs_db": _round_decibels(layer.output_db),
            "tensor_db": _round_decibels(layer.own_db),
            "running_db": _round_decibels(layer.signal_to_noise_db),
            "source": layer.source,
        }
        for layer in shown
    ]
    facts = {
        name: value
        for name, value in facts_of_layers(comparison).items()
        if name not in ("layers", "unmatched")
    }
    hidden = len(comparison.layers) - len(shown)
    return {
        **facts,
        "layers": rows or "none",
        **(
            {
                "layers not shown": f"{hidden}, with {sum(entry.share for entry in comparison.layers[MOST_LAYERS:]):.1%} of the damage"
            }
            if hidden
            else {}
        ),
    }


def layer_hints(comparison: Comparison) -> list[str]:
    """Returns hints for the worst layers, one per line."""
    lines = [LEGEND]
    for layer in comparison.layers[:MOST_HELP]:
        if layer.damage:
            lines.append(f"{layer.name}: {layer.hint.reason}")
            lines.append(f"  help  {layer.hint.help}")
    return lines


def _round_decibels(decibels: float | None) -> float | None:
    return None if decibels is None else round(decibels, 1)


def program_comparison_facts(two: TwoPrograms) -> Facts:
    """Returns the differences between two programs."""
    sides = (two.first, two.second)
    rows = [
        _comparison_row(what, *(_quantity_value(side, what) for side in sides))
        for what in _compared_quantities(*sides)
    ]
    facts: Facts = {
        "first": _describe_side(two.first),
        "second": _describe_side(two.second),
        **known(samples=two.samples),
        "changes": rows,
    }
    if two.same_answer is not None:
        facts["same_answer"] = two.same_answer
    if two.signal_to_noise_db is not None:
        facts["signal_to_noise_db"] = two.signal_to_noise_db
    notes = [
        f"{side.program}: flash and instructions are not measured: {side.not_measured}"
        for side in sides
        if side.not_measured
    ]
    return {**facts, **known(notes=notes)}


def _describe_side(side: ComparedSide) -> str:
    return f"{side.program} (`{side.model}` for {side.target})"


def _compared_quantities(first: ComparedSide, second: ComparedSide) -> list[str]:
    costs = [name for name in asdict(first.costs) if name != "board"]
    measured = [
        n for n in costs if getattr(first.costs, n) is not None or getattr(second.costs, n) is not None
    ]
    return [*measured, "macs", "ops", *dict.fromkeys([*first.metrics, *second.metrics])]


def _quantity_value(side: ComparedSide, what: str) -> float | int | None:
    if what in ("macs", "ops"):
        return int(getattr(side, what))
    return side.metrics[what] if what in side.metrics else getattr(side.costs, what, None)


def _comparison_row(what: str, first: float | None, second: float | None) -> Facts:
    row: Facts = {"what": what.replace("_", " "), "first": first, "second": second}
    if first is None or second is None:
        return {**row, "change": None, "times": None}
    return {**row, "change": second - first, "times": round(second / first, 4) if first else None}
