# SPDX-License-Identifier: Apache-2.0
"""Python files of the user, executed because the user named them: `file.py:function`."""

from __future__ import annotations

import difflib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pillion.errors import PillionError
from pillion.host_io.atomic_files import regular_file

PACKAGE = str(Path(__file__).parents[1])
MOST_NAMES = 12
"""Most names listed in an error."""


@dataclass(frozen=True)
class UserFile:
    """A Python file of the user, executed as its own module."""

    path: Path
    module: ModuleType


def split_spec(spec: str) -> tuple[Path, str]:
    """Splits `file.py:name`; the name is empty if the text has another form."""
    file, _, name = spec.rpartition(":")
    return (Path(file), name) if file.endswith(".py") else (Path(spec), "")


def open_file(path: Path) -> UserFile:
    """Executes a file as its own module, able to import files next to it."""
    regular_file(path, ".py")
    name = "pillion_model_" + re.sub(r"\W", "_", path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with importing_from_folder_of(path):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise user_code_failed(f"{path}", error) from error
    return UserFile(path, module)


@contextmanager
def importing_from_folder_of(path: Path) -> Iterator[None]:
    """Makes files in this file's folder importable, as when Python runs it."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def defined_names(file: ModuleType) -> list[str]:
    """Returns the classes and functions that a file defines."""
    return [n for n, v in vars(file).items() if getattr(v, "__module__", "") == file.__name__ and callable(v)]


def function_of(spec: str, rule: str) -> Callable[..., Any]:
    """Executes the file and returns the function that `file.py:function` names. `rule` is the function's contract,
    for errors."""
    return file_and_function(spec, rule)[1]


def file_and_function(
    spec: str, rule: str, example: str = "file.py:function"
) -> tuple[UserFile, Callable[..., Any]]:
    """Executes the file of `file.py:function`, and returns it with the function."""
    path, name = split_spec(spec)
    if not name:
        raise PillionError(
            f"{spec} does not name a function",
            rule=rule,
            here="a file without a function" if spec.rstrip(":").endswith(".py") else spec,
            help=example,
        )
    file = open_file(path)
    found = getattr(file.module, name, None)
    if callable(found):
        return file, found
    own = defined_names(file.module)
    close = difflib.get_close_matches(name, own, n=1) or own[:1]
    listed = f"it has {', '.join(own[:MOST_NAMES])}" if own else "it defines no functions"
    raise PillionError(
        f"{path} has no function {name}",
        rule=rule,
        here=listed if found is None else f"{name} is a {type(found).__name__}",
        help=f"{path}:{close[0]}" if close else f"def {name}(…): … in {path.name}",
    )


FACTORY = "the file can be imported, and the factory called without arguments"
"""The rule for files with models."""


def run_user_code(function: Callable[..., Any], place: str, *arguments: Any, rule: str = FACTORY) -> Any:
    """Calls a user's function. Its exceptions become errors that name the user's line."""
    try:
        return function(*arguments)
    except PillionError:
        raise
    except (Exception, SystemExit) as error:
        raise user_code_failed(place, error, rule) from error


def user_code_failed(place: str, error: BaseException, rule: str = FACTORY) -> PillionError:
    """Returns the error for an exception in a user's file or function."""
    words = str(error).splitlines()[0] if str(error) else "no message"
    return PillionError(
        f"{place} raised {type(error).__name__}",
        rule=rule,
        here=f"{words}  ({_failing_line(error) or place})",
        help="python -i FILE shows the whole story; a function without arguments can give what a class needs",
    )


def _failing_line(error: BaseException) -> str:
    """Returns the failing line: of a syntax error, or the innermost line outside this package."""
    if isinstance(error, SyntaxError):
        return f"{Path(error.filename).name}:{error.lineno}" if error.filename else ""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((PACKAGE, "<"))
    ]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
