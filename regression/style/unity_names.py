"""Names that are safe in a unity build, which compiles the sources of a folder as one unit.

There an anonymous namespace is shared by all sources of the unit. Within a folder its names are
therefore unique, aliases with equal text aside, and differ from the functions and types of headers:
another source could choose a further overload. Each test source has a namespace of its own.
"""

import re

ANONYMOUS = re.compile(r"^namespace \{$", re.MULTILINE)
ALIAS = re.compile(r"(?:using|namespace) (\w+) = .*;")
TYPE = re.compile(r"(?:struct|class|enum class|enum|union) (\w+)(?!.*;$)")
FUNCTION = re.compile(r"(?!using|namespace|return|#)[A-Za-z_][\w:<>,&*\s\[\]]*?\b([A-Za-z_]\w*)\(")
VARIABLE = re.compile(r"(?!using|namespace|return|#)[A-Za-z_].*?\b(\w+)(?:\[[^\]]*\])* ?(?:=|\{|;)")

EXTENDED = {"last_of"}  # an overload for each enum, which only a call with that enum can find


def anonymous_lines(code):
    """Yields (number, line) of the outermost lines in anonymous namespaces."""
    depth = 0
    for number, line in enumerate(code.split("\n"), 1):
        if depth == 1 and not line.startswith((" ", "}")):
            yield number, line
        if depth or ANONYMOUS.match(line):
            depth += line.count("{") - line.count("}")


def anonymous_names(code):
    """Yields (name, text, kind, line) of what a source declares in anonymous namespaces."""
    for number, line in anonymous_lines(code):
        for kind, pattern in (
            ("alias", ALIAS),
            ("type", TYPE),
            ("function", FUNCTION),
            ("variable", VARIABLE),
        ):
            match = pattern.match(line)
            if match:
                yield match.group(1), line, kind, number
                break


def names_in_headers(codes):
    """Free functions and types by name, each with its headers. Kernels have a namespace of their
    own."""
    found = {}
    for path, code in codes.items():
        if path.startswith("src/") and path.endswith(".hpp"):
            for line in code.split("\n"):
                match = FUNCTION.match(line) or TYPE.match(line)
                if match:
                    found.setdefault(match.group(1), []).append(path)
    return found


def check(codes, may_include, is_test, error):
    """All rules, over C++ without comments. Kernels are compiled source by source."""
    declared = names_in_headers({p: c for p, c in codes.items() if not is_test(p)})
    seen = {}
    for path, code in codes.items():
        if not path.endswith(".cpp"):
            continue
        if is_test(path):
            check_test(path, code, error)
            continue
        if not path.startswith("src/"):
            continue
        for match in re.finditer(r"^static ", code, re.MULTILINE):
            line = code.count("\n", 0, match.start()) + 1
            error(path, line, "unity", "static: use an anonymous namespace")
        for name, text, kind, line in anonymous_names(code):
            headers = declared.get(name, ()) if name not in EXTENDED else ()
            for header in [h for h in headers if may_include(path, h)][:1]:
                error(path, line, "unity", f"{name} is a name of {header} too: rename it")
            folder = path.rpartition("/")[0]
            other, other_text = seen.setdefault((folder, name), (path, text))
            if other != path and not (kind == "alias" and text == other_text):
                error(path, line, "unity", f"{name} is in an anonymous namespace of {other} too")


def check_test(path, code, error):
    stem = path.rpartition("/")[2].removesuffix(".cpp")
    if ANONYMOUS.search(code) and re.search(r"^TEST", code, re.MULTILINE):
        if not re.search(rf"^namespace [\w:]+::{stem} \{{$", code, re.MULTILINE):
            error(path, 1, "unity", f"a test source has a namespace of its own: {stem}")
