"""A table as a Word document: the four files of its archive, written by hand, so that nothing need be installed.

Source: ECMA-376, Office Open XML File Formats, part 1, 5th edition, 2016.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from xml.sax.saxutils import escape

_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_OFFICE = "http://schemas.openxmlformats.org"
_TYPES = (
    f'{_HEAD}<Types xmlns="{_OFFICE}/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
_LINKS = (
    f'{_HEAD}<Relationships xmlns="{_OFFICE}/package/2006/relationships"><Relationship Id="rId1" '
    f'Type="{_OFFICE}/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>'
)
_WRITTEN = (1980, 1, 1, 0, 0, 0)
"""When its files are said to be of: the same table is the same document."""
_RULE = '<w:{} w:val="single" w:sz="8" w:space="0" w:color="auto"/>'
NOT_KNOWN = "not known"
"""Printed where noise hides a row: the middle of all that there can be is no estimate."""
_SMALL = 18
"""The size of notes, in half points."""


_HIDDEN = "? where "
_WORD = re.compile(r"[a-z]+(?=[ ,:]|$)")


def sentence(note: str) -> str:
    """Return a note as a sentence of a paper; a term that it begins with stays as the table has it.

    >>> sentence("values below 70 count as 70"), sentence("bs(age)[2]: not known")
    ('Values below 70 count as 70.', 'bs(age)[2]: not known.')
    >>> sentence("? where noise hides a row")
    'Not known where noise hides a row.'
    """
    if note.startswith(_HIDDEN):
        note = f"{NOT_KNOWN} {note[len(_HIDDEN) - len('where ') :]}"
    return f"{note[:1].upper() if _WORD.match(note) else note[:1]}{note[1:]}."


def word_document(
    title: str, head: Sequence[str], body: Sequence[Sequence[str]], notes: Sequence[str], words: int
) -> bytes:
    """Return a document with one table, its title above it and its notes below; its first `words` columns are words."""
    rules = "".join(_RULE.format(side) for side in ("top", "bottom"))
    rows = [_row(head, words, heading=True), *(_row(line, words) for line in body)]
    inner = (
        _paragraph(title, bold=True)
        + f'<w:tbl><w:tblPr><w:tblW w:w="0" w:type="auto"/><w:tblBorders>{rules}</w:tblBorders></w:tblPr>'
        + f"<w:tblGrid>{'<w:gridCol/>' * len(head)}</w:tblGrid>{''.join(rows)}</w:tbl>"
        + "".join(_paragraph(sentence(note), size=_SMALL) for note in notes)
    )
    document = (
        f'{_HEAD}<w:document xmlns:w="{_OFFICE}/wordprocessingml/2006/main"><w:body>{inner}</w:body></w:document>'
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (
            ("[Content_Types].xml", _TYPES),
            ("_rels/.rels", _LINKS),
            ("word/document.xml", document),
        ):
            archive.writestr(zipfile.ZipInfo(name, _WRITTEN), text)
    return file.getvalue()


def _row(cells: Sequence[str], words: int, *, heading: bool = False) -> str:
    rule = f"<w:tcPr><w:tcBorders>{_RULE.format('bottom')}</w:tcBorders></w:tcPr>" if heading else ""
    texts = (_paragraph(cell, right=place >= words, bold=heading) for place, cell in enumerate(cells))
    repeated = "<w:trPr><w:tblHeader/></w:trPr>" if heading else ""
    return f"<w:tr>{repeated}{''.join(f'<w:tc>{rule}{text}</w:tc>' for text in texts)}</w:tr>"


def _paragraph(text: str, *, bold: bool = False, right: bool = False, size: int = 0) -> str:
    kept = "".join(c for c in text if c >= " " and c not in "\ufffe\uffff" and not "\ud800" <= c <= "\udfff")
    aligned = '<w:pPr><w:jc w:val="right"/></w:pPr>' if right else ""
    style = ("<w:b/>" if bold else "") + (f'<w:sz w:val="{size}"/>' if size else "")
    run = f"<w:rPr>{style}</w:rPr>" if style else ""
    return f'<w:p>{aligned}<w:r>{run}<w:t xml:space="preserve">{escape(kept)}</w:t></w:r></w:p>'
