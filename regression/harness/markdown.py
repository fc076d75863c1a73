"""Tables as they stand in the documentation."""


def cell(text):
    """Text that may stand in a cell."""
    return str(text).replace("|", "\\|")


def table(heads, rows):
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, *rows)]
    lines.insert(1, "|" + "---|" * len(heads))
    return "\n".join(lines) + "\n"
