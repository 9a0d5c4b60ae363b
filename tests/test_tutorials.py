# SPDX-License-Identifier: Apache-2.0
"""Tutorials are what happens: each page is followed in an empty folder, and prints what it shows."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from nightly import runs_all

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import tutorials  # noqa: E402  # its folder is put on the path first

PAGES = [page for page in sorted(tutorials.PAGES.glob("*.md")) if page.name != "index.md"]
GUIDES = [ROOT / "docs" / "guide" / f"{name}.md" for name in ("getting-started", "neutron")]
"""The guides that are followed as tutorials are."""
TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm", "cmake")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """An empty folder to follow a page in, and one for the commands."""
    for name in ("work", "bin"):
        (tmp_path / name).mkdir()
    return tmp_path / "work", tmp_path / "bin"


def follow(text: str, folders: tuple[Path, Path]) -> int:
    page = folders[1].parent / "page.md"
    page.write_text(text, "utf-8")
    return tutorials.check(page, *folders)


@pytest.mark.turns(20)
@pytest.mark.slow
@pytest.mark.qemu
@pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"needs {', '.join(TOOLS)}")
@pytest.mark.parametrize("page", [*GUIDES, *PAGES] if runs_all() else GUIDES, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_shows(page: Path, folders: tuple[Path, Path]) -> None:
    assert tutorials.check(page, *folders) >= 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_has_its_files_in_the_examples(page: Path) -> None:
    shown = {block.title: block.text for block in tutorials.blocks(page.read_text("utf-8")) if block.is_file}
    folder = ROOT / "examples" / page.stem
    kept = {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.is_file()}
    assert shown == kept, "make docs"


def test_each_tutorial_is_listed() -> None:
    index = (tutorials.PAGES / "index.md").read_text("utf-8")
    examples = (ROOT / "examples" / "README.md").read_text("utf-8")
    assert [page.name for page in PAGES if f"({page.name})" not in index] == []
    assert [page.stem for page in PAGES if f"`{page.stem}/`" not in examples] == []


PAGE = """
```python title="net.py"
print("net", 3)
```

```sh
echo first
python net.py
```

```text title="output"
…
net 3
```

```python
n = 1_234_567
```

```python
print(f"{n:,} bytes of x_12")
```

```text title="output (± 5 %)"
1,234,000 bytes of x_12
```
"""


def test_right_pages_pass(folders: tuple[Path, Path]) -> None:
    assert follow(PAGE, folders) == 2


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("net 3\n```", "net 4\n```"),
        ("net 3\n```", "net 3\nmore\n```"),
        ("…\nnet 3", "net 3"),
        ("1,234,000", "1,134,000"),
        ("x_12\n", "x_13\n"),
        ("± 5 %", "± 0 %"),
        ('title="output"\n…\nnet 3', 'title="output"\n'),
    ],
)
def test_wrong_pages_are_found(right: str, wrong: str, folders: tuple[Path, Path]) -> None:
    assert right in PAGE
    with pytest.raises(tutorials.TutorialError, match="the page shows"):
        follow(PAGE.replace(right, wrong), folders)


@pytest.mark.parametrize(
    "block", ["sh\nfalse\n", "sh\nfalse | cat\n", "python\n1 / 0\n", "python\nexit(3)\n"]
)
def test_a_block_that_fails(block: str, folders: tuple[Path, Path]) -> None:
    with pytest.raises(tutorials.TutorialError, match="line 1: the block ends with exit code"):
        follow(f"```{block}```\n", folders)


def test_python_has_no_names_of_the_tests_and_an_empty_folder(folders: tuple[Path, Path]) -> None:
    block = "```python\nimport os\nprint(sorted(os.listdir()), __name__)\n```\n\n"
    assert follow(block + '```text title="output"\n[] __main__\n```\n', folders) == 1


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a … z", "a b c z", True),
        ("a … z", "a z", True),
        ("a … z", "a b", False),
        ("12 of 3", "12 of 3", True),
        ("12 of 3", "13 of 3", False),
    ],
)
def test_lines_without_a_tolerance(shown: str, printed: str, same: bool) -> None:
    assert tutorials.same_line(shown, printed, 0.0) is same


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("98.7% right", "98.6%  right", True),
        ("100.0 right", "104.9 right", True),
        ("100.0 right", "105.2 right", False),
        ("7", "8", True),
        ("7", "9", False),
        ("-4.5", "4.5", False),
        ("1,000,000 instructions", "1,040,000 instructions", True),
        ("relu_1 5", "relu_2 5", False),
        ("5 … 9", "5 words 9", True),
        ("5 … 9", "5 words 30", False),
    ],
)
def test_lines_with_a_tolerance(shown: str, printed: str, same: bool) -> None:
    assert tutorials.same_line(shown, printed, 0.05) is same
