"""Tables of paper.py: markdown for people, CSV for programs."""

from picture_file import save
from whole_file import write_csv, write_text


def text_of(cell):
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(text_of, row)) + " |" for row in rows]) + "\n"


class Report:
    """What is found of one experiment: a page with its tables, each of them as CSV as well."""

    def __init__(self, folder, name, title):
        self.folder, self.name = folder, name
        self.parts = [f"# {title}\n"]

    def text(self, words):
        self.parts.append(words + "\n")

    def table(self, name, title, header, rows):
        self.parts.append(f"## {title}\n\n{markdown(header, rows)}")
        write_csv(self.folder / f"{self.name}_{name}.csv", header, rows)

    def picture(self, figure):
        save(figure, self.folder / f"{self.name}.png", dpi=110)

    def write(self):
        path = self.folder / f"{self.name}.md"
        write_text(path, "\n".join(self.parts))
        print("\n".join(self.parts) + f"\n{path}")


def percent(share):
    return f"{100 * share:.1f}"


def beside(found, reported):
    """What was found, what is reported, and by how much the first is more."""
    return f"{found:.3g} / {reported:g} ({100 * (found / reported - 1):+.1f} %)"
