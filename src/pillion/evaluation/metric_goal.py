# SPDX-License-Identifier: Apache-2.0
"""A metric of labelled samples that tensors of 16 bits have to keep: the bound, and how trials are judged."""

from __future__ import annotations

from typing import Any

from pillion.data.python_data import open_data
from pillion.data.reading_options import AS_IT_IS, Reading
from pillion.evaluation.evaluate import MetricName, evaluate
from pillion.evaluation.metrics import no_labels_error
from pillion.host_io.progress import show_progress
from pillion.ir.precision_choice import FloatRuns, MetricChange
from pillion.option_parsers import parse_drop
from pillion.program import Program

SAMPLES = 500
"""Samples that judge, unless the user says how many."""


class MetricGoal:
    """A bound of a metric, `compile(…, metric=MetricGoal(data, "0.5%"))`: on these labelled samples, the program is
    at most that much worse than float. They must not be the calibration samples. Data and metrics are as for
    `evaluate`."""

    def __init__(
        self,
        data: Any,
        max_drop: float | str,
        metric: MetricName | None = None,
        *,
        limit: int | None = None,
        reading: Reading = AS_IT_IS,
    ) -> None:
        self.most = parse_drop(max_drop)
        self.option = f"--max-drop {100 * self.most:g}%"
        self.source = open_data(data, reading)
        self.metric = metric
        self.limit = limit or SAMPLES
        self._in_float: tuple[str, float] | None = None

    def change(self, program: Program, floats: FloatRuns | None = None) -> MetricChange:
        """Runs a program on the samples; the float model the first time. The first number of the metric counts."""
        with show_progress(False):
            known = self._in_float
            found = evaluate(
                program, self.source, self.metric, limit=self.limit, float_model=None if known else floats
            )
        if not found.metrics:
            raise no_labels_error("--max-drop")
        if found.float_model is not None:
            self._in_float = known = next(iter(found.float_model.metrics.items()))
        assert known is not None
        name, in_float = known
        return MetricChange(name, in_float, found.metrics[name], self.most, found.samples)
