"""Draw the wings of the package and their rooms, as the import contract has them: ``python docs/draw_wings.py``.

Read are the layers in ``pyproject.toml``, the folders, and the first line that each wing says of itself.
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sottovoce"
PICTURE = ROOT / "docs" / "figures" / "wings.svg"

_WIDTH, _EDGE, _GAP, _ROW, _LINE = 820, 12, 8, 30, 16
_ROOMS = 500  # where the rooms of a wing begin
_CHARACTERS = 62  # of a sentence side by side


def layers() -> dict[str, list[list[str]]]:
    """Return of each wing, from the top down, its rooms: rows from the top down, of rooms that are beside each other.

    >>> from docs.draw_wings import layers
    >>> layers()["service"]
    [['curator'], ['answers'], ['ledger']]
    """
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    ordered = {
        contract["containers"][0]: [row.split(" | ") for row in contract["layers"]]
        for contract in contracts
        if contract["type"] == "layers"
    }
    wings = [name for row in ordered["sottovoce"] for name in row if (SOURCE / name).is_dir()]
    return {wing: _rooms(wing, ordered.get(f"sottovoce.{wing}")) for wing in wings}


def _rooms(wing: str, rows: list[list[str]] | None) -> list[list[str]]:
    folders = sorted(path.parent.name for path in SOURCE.glob(f"{wing}/*/__init__.py"))
    listed = [[room for room in row if room in folders] for row in rows or [folders]]
    return [row for row in listed if row]


def purpose(wing: str) -> str:
    """Return the first line that a wing says of itself."""
    tree = ast.parse((SOURCE / wing / "__init__.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").splitlines()[0]


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"/>'


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'


def _wing(wing: str, rows: list[list[str]], y: float) -> tuple[list[str], float]:
    """Return the marks of a wing that begins at y, and how high it is."""
    sentence = textwrap.wrap(purpose(wing), _CHARACTERS)
    height = max(30 + _LINE * len(sentence), len(rows) * (_ROW + 4) + 4) + 8
    marks = [_box(_EDGE, y, _WIDTH - 2 * _EDGE, height, "wing"), _text(_EDGE + 14, y + 24, f"{wing}/", "name")]
    marks += [_text(_EDGE + 14, y + 44 + _LINE * place, line, "says") for place, line in enumerate(sentence)]
    across = _WIDTH - 2 * _EDGE - _ROOMS - 4
    for place, row in enumerate(rows):
        each = (across - 4 * (len(row) - 1)) / len(row)
        for beside, room in enumerate(row):
            x, top = _ROOMS + beside * (each + 4), y + 6 + place * (_ROW + 4)
            marks += [_box(x, top, each, _ROW, "room"), _text(x + each / 2, top + 20, room, "called")]
    return marks, height


STYLE = """
text{font-family:system-ui,sans-serif;fill:#1c2733}
.name{font-size:17px;font-weight:600}.says{font-size:13px;fill:#445566}
.called{font-size:14px;text-anchor:middle}.law{font-size:13px;fill:#445566;text-anchor:middle}
.wing{fill:#eef4f9;stroke:#1f5f8b}.room{fill:#fff;stroke:#8fb3cc}.ground{fill:#fff}
"""


def picture() -> str:
    """Return the drawing as SVG."""
    marks: list[str] = []
    y = float(_EDGE)
    wings = layers()
    for wing, rows in wings.items():
        drawn, height = _wing(wing, rows, y)
        marks += drawn
        y += height + _GAP
    law = (
        "What stands above may import what stands below, never the reverse; what stands side by side, not one another."
    )
    marks.append(_text(_WIDTH / 2, y + 14, law, "law"))
    height = y + 28
    said = "The wings of the package from the top down: " + ", ".join(wings)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" width="{_WIDTH}" role="img">'
    ground = f'<rect class="ground" width="{_WIDTH}" height="{height:g}"/>'
    return "\n".join([head, f"<title>{said}</title>", f"<style>{STYLE}</style>", ground, *marks, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
