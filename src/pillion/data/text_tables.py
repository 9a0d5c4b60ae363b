# SPDX-License-Identifier: Apache-2.0
"""Tables in text files: a row per sample, a column per number of the input, and one for the label."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pillion.data.reading_options import LABEL_NAMES, Reading
from pillion.data.sample import Array, InputSpec, Sample, normalize_channels
from pillion.errors import PillionError
from pillion.host_io.atomic_files import regular_file

SEPARATORS = ",;\t"
MOST_BYTES = 1 << 31
MOST_LINE = 1 << 24
"""Longest line that is read; a file without line ends would be one line."""


@dataclass(frozen=True)
class TextTable:
    """A text table: its separator, header and label column."""

    path: Path
    separator: str
    has_names: bool
    columns: int
    label: int | None

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yields the rows with their line numbers; empty lines are skipped."""
        for line, cells in _rows_of(self.path, self.separator):
            if line > 1 or not self.has_names:
                if len(cells) != self.columns:
                    raise _damaged_table_error(
                        self.path, line, f"{len(cells)} cells", f"{self.columns} cells in each line"
                    )
                yield line, cells


def open_table(path: Path, numbers: int | None, reading: Reading) -> TextTable:
    """Determines the table's layout from its first lines, and from the number of columns if that is known."""
    separator = _detect_separator(path)
    lines = [cells for _, cells in itertools.islice(_rows_of(path, separator), 2)]
    if not lines:
        raise _damaged_table_error(path, 1, "an empty file", "a line for each sample")
    cells = lines[0]
    has_names = _are_names(cells)
    row = lines[-1] if has_names and len(lines[-1]) == len(cells) else cells
    label = _label_column(path, cells if has_names else [], row, numbers, reading)
    value_columns = len(cells) - (label is not None)
    if numbers is not None and value_columns != numbers:
        named = (
            f", one of them the label `{cells[label] if has_names else label + 1}`"
            if label is not None
            else ""
        )
        raise PillionError(
            f"the data does not fit the model: {path}",
            rule=f"a row has {numbers:,} numbers, and at most one column more, for the label",
            here=f"{len(cells):,} columns{named}",
            help=f"--label-column names the label: a name of the first line ({', '.join(LABEL_NAMES[:4])} … are known), or a number from 1",
        )
    return TextTable(path, separator, has_names, len(cells), label)


def _are_names(cells: Sequence[str]) -> bool:
    """Whether the first line is a header; a single word may be a label."""
    words = [cell for cell in cells if not _is_number(cell)]
    return len(words) > 1 or any(word.lower() in LABEL_NAMES for word in words)


def _detect_separator(path: Path) -> str:
    regular_file(path, "table", MOST_BYTES)
    with path.open("rb") as file:
        line = file.readline(MOST_LINE).decode("utf-8", "replace")
    return max(SEPARATORS, key=line.count)


def read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields every non-empty line of a table with its number."""
    return _rows_of(path, _detect_separator(path))


def _rows_of(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yields every non-empty line with its number."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(_limit_line_length(file), delimiter=separator)
            for cells in reader:
                if cells:
                    yield reader.line_num, [cell.strip() for cell in cells]
    except (csv.Error, UnicodeDecodeError, OSError) as error:
        raise PillionError(
            f"the table {path} cannot be read",
            rule=f"lines of text in UTF-8, cells between {', '.join(map(repr, SEPARATORS))}",
            here=str(error),
            help="save it as CSV",
        ) from None


def _limit_line_length(file: Iterator[str]) -> Iterator[str]:
    read = getattr(file, "readline")  # noqa: B009  # a file's, with a limit
    while line := read(MOST_LINE):
        if len(line) >= MOST_LINE and not line.endswith("\n"):
            raise csv.Error(f"a line has more than {MOST_LINE:,} characters")
        yield line


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _label_column(
    path: Path, names: Sequence[str], cells: Sequence[str], numbers: int | None, reading: Reading
) -> int | None:
    """Returns the label column: as named, by a usual name, the only column of words, or the last if there is one
    more than the input needs."""
    requested, columns = reading.label_column, len(cells)
    if requested is not None:
        if requested in names:
            return list(names).index(requested)
        if requested.isascii() and requested.isdigit() and 1 <= int(requested) <= columns:
            return int(requested) - 1
        raise PillionError(
            f"{path} has no column {requested}",
            rule="--label-column is a name of the first line, or a number from 1",
            here=", ".join(names[:12]) if names else f"{columns} columns without names",
            help=f"--label-column {columns}",
        )
    known = [i for i, name in enumerate(names) if name.lower() in LABEL_NAMES]
    words = [i for i, cell in enumerate(cells) if cell and not _is_number(cell)]
    candidates = known if len(known) == 1 else words
    if len(candidates) == 1 and candidates != list(range(columns)):
        return candidates[0]
    return columns - 1 if numbers is not None and columns == numbers + 1 else None


def classes_of(table: TextTable) -> tuple[str, ...]:
    """Returns sorted class names if labels are words; none if they are numbers."""
    if table.label is None:
        return ()
    labels = {cells[table.label] for _, cells in table.rows()}
    return () if all(map(_is_number, labels)) else tuple(sorted(labels))


def samples_of_table(
    table: TextTable, wanted: InputSpec, classes: Sequence[str], reading: Reading
) -> Iterator[Sample]:
    """Reads the rows as samples of an input."""
    numbers = {name: number for number, name in enumerate(classes)}
    for line, cells in table.rows():
        place = f"line {line} of {table.path}"
        label = (
            _parse_label(cells.pop(table.label), numbers, table.path, line)
            if table.label is not None
            else None
        )
        row = np.array([_parse_number(cell, table.path, line) for cell in cells], np.float64)
        real = normalize_channels(row, reading).astype(np.float32)
        yield Sample((real.reshape(1, *wanted.of_one),), label, place)


def labels_of_table(path: Path, reading: Reading) -> list[Array]:
    """Reads a file with one column of labels."""
    table = open_table(path, None, Reading(label_column=reading.label_column or "1"))
    numbers = {name: number for number, name in enumerate(reading.classes or classes_of(table))}
    assert table.label is not None
    return [_parse_label(cells[table.label], numbers, path, line) for line, cells in table.rows()]


def _parse_number(cell: str, path: Path, line: int) -> float:
    try:
        number = float(cell)
    except ValueError:
        raise _damaged_table_error(
            path, line, f"`{cell[:40]}`" if cell else "an empty cell", "numbers"
        ) from None
    if not math.isfinite(number):
        raise _damaged_table_error(path, line, cell, "finite numbers")
    return number


def _parse_label(cell: str, numbers: dict[str, int], path: Path, line: int) -> Array:
    if numbers:
        if cell not in numbers:
            raise _damaged_table_error(
                path, line, f"the label `{cell[:40]}`", f"labels {', '.join(list(numbers)[:12])}"
            )
        return np.asarray(numbers[cell])
    number = _parse_number(cell, path, line)
    return np.asarray(int(number) if number.is_integer() else number)


def _damaged_table_error(path: Path, line: int, actual: str, rule: str) -> PillionError:
    return PillionError(
        f"the table {path} is not as it should be",
        rule=rule,
        here=f"{actual} in line {line}",
        help="look at that line; samples with missing values have to be left out",
    )
