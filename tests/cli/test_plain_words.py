"""Words and plain numbers are taken as Typer itself would take them, without what it loads for that."""

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.exceptions import TyperException

from sottovoce.faces.cli.plain_words import take_plainly


def _told(plainly: bool, *words: str) -> Any:
    """Return what a command is told by such words, or the error."""
    app = typer.Typer()
    told: list[Any] = []

    @app.command()
    def tell(
        word: str,
        more: Annotated[list[str] | None, typer.Argument()] = None,
        n: int | None = None,
        width: float = 1.0,
        digit: Annotated[int, typer.Option(min=0, max=9)] = 0,
        doubled: Annotated[int, typer.Option(parser=lambda text: 2 * int(text))] = 0,
        halved: Annotated[float | None, typer.Option(callback=lambda value: value and value / 2)] = None,
        path: Path | None = None,
        there: Annotated[Path | None, typer.Option(exists=True)] = None,
        flag: bool = False,
    ) -> None:
        told.extend((word, more, n, width, digit, doubled, halved, path, there, flag))

    command = typer.main.get_command(app)
    try:
        (take_plainly(command) if plainly else command)(list(words), standalone_mode=False)
    except TyperException as wrong:
        return type(wrong), wrong.format_message()
    return told


@pytest.mark.parametrize(
    "words",
    [
        "",
        "a",
        "7",
        "a b c",
        *(f"a --n {n}" for n in ("12", "007", "-3", "+3", "1.0", "1_0", "٣", "²", "x", "9" * 40, "1e3", "'12 '")),
        *(f"a --width {w}" for w in ("12", "1.5", ".5", "5.", ".", "1.2.3", "1e-3", "-2", "nan", "inf", "x", "٣.٥")),
        *(f"a --digit {d}" for d in ("9", "10", "-1")),
        *(f"a --doubled {d}" for d in ("4", "x")),
        *(f"a --halved {h}" for h in ("3", "3e0", "x")),
        *(f"a --path {p}" for p in (".", "-", "nowhere/at all", "/", "~", "", "a\0b", "\ud800", "\udcff")),
        *(f"a --there {p}" for p in (".", "nowhere")),
        "a --flag",
        "a --nothing",
    ],
)
def test_words_are_taken_as_typer_takes_them(words: str) -> None:
    split = [word.strip("'") for word in words.split(" ")] if words else []
    assert repr(_told(True, *split)) == repr(_told(False, *split))  # nan is not itself
