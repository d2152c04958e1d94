"""Turn what numpydoc writes in its own way into Markdown, so that the API pages show it.

Formulas (``.. math::`` and ``:math:``) become ``$$…$$`` and ``$…$``; examples that stand in the text without a heading
of their own become code blocks. Read by mkdocstrings; see mkdocs.yml.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_DISPLAY = re.compile(r"^([ ]*)\.\. math::[ ]*(.*(?:\n\1[ ]+\S.*)*)", re.M)
_INLINE = re.compile(r":math:`([^`]*)`")
_EXAMPLE = re.compile(r"(?:^[ ]*>>> .*(?:\n(?![ ]*$).*)*\n?)+", re.M)
_HEADED = re.compile(r"^[ ]*Examples\n[ ]*-{3,}", re.M)


def as_markdown(text: str) -> str:
    """Return a docstring with formulas and bare examples in Markdown."""
    text = _DISPLAY.sub(lambda found: f"{found[1]}$$\n{found[1]}{found[2].strip()}\n{found[1]}$$", text)
    text = _INLINE.sub(r"$\1$", text)
    headed = _HEADED.search(text)
    before, after = (text[: headed.start()], text[headed.start() :]) if headed else (text, "")
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", before) + after


class Markdown(griffe.Extension):
    """Rewrite each docstring as it is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
