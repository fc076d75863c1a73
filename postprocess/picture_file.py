"""The files that pictures are written to: of which kinds and sizes they can be."""

from matplotlib.backend_bases import FigureCanvasBase

from trouble import Trouble
from whole_file import write_whole

LEAST_DPI, MOST_DPI = 10, 1000  # beyond them there is nothing to see, or no memory


def dots_per_inch(text):
    """The value of --dpi."""
    if not text.isdecimal() or not LEAST_DPI <= int(text) <= MOST_DPI:
        raise Trouble(f"--dpi must be a whole number from {LEAST_DPI} to {MOST_DPI}, not {text}")
    return int(text)


def picture_at(path):
    """The path with the ending that says which kind of picture it is: one that can be drawn."""
    kinds = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() in kinds:
        return path
    if path.suffix:
        raise Trouble(f"-o {path}: no picture ends in {path.suffix}: choose {', '.join(kinds)}")
    return path.with_name(path.name + ".png")


def save(figure, path, dpi):
    kind = path.suffix[1:].lower()
    try:
        write_whole(path, lambda file: figure.savefig(file, dpi=dpi, format=kind))
    except OSError as error:
        raise Trouble(f"cannot write {path}: {error.strerror or error}") from error
