#!/usr/bin/env python3
"""A test of the code base: arrows between layers, homes of libraries, banned calls, house style,
dead files, crowded folders, names that are safe in unity builds, sources that a message reaches.

usage: tidy.py [--self-test]

Findings are printed as `file:line: rule: what is wrong` and end with status 1. Functions and files
that are very long only warn.
--self-test shows every rule something that it must find, and a clean tree in which nothing may be
found.
"""

import ast
import collections
import re
import sys
from pathlib import Path

import include_reach
import unity_names

# A layer may include itself and whatever stands in a group above its own.
LAYERS = (
    ("core",),
    ("config", "kernels"),
    ("hardware",),
    ("protocol", "io"),
    ("model", "data", "transport"),
    ("runtime",),
    ("simulation",),
    ("emulation",),
    ("torture", "report"),
    ("commands",),
    ("main",),
    ("regression",),
)
GENERATED_HEADERS = {"broken_rules.hpp", "swarmpi_build.hpp"}

# One library, one home: what is included, what its names look like, the folders that may know it.
HOMES = {
    "MPI": (
        r"mpi\.h|mpi-ext\.h",
        r"\bMPIX?_\w+",
        ("src/transport/mpi/", "regression/measure/spawn_limits.cpp"),
    ),
    "NCCL": (r"nccl\.h", r"\bnccl[A-Z]\w+", ("src/transport/",)),
    "Kokkos": (r"Kokkos_.*", r"\bKokkos::", ("kernels/native/",)),
    "oneDNN": (r"(oneapi/dnnl/|dnnl).*", r"\bdnnl::", ("kernels/native/",)),
    "CUDA": (r"(cuda|cublas).*", r"\b(cuda|cublas)[A-Z]\w+", ("kernels/cuda/", "src/transport/")),
    "HDF5": (r"(hdf5|H5\w+)\.h", r"\bH5[A-Z][A-Za-z]*_?[a-z_0-9]*\(", ("src/io/",)),
    "toml++": (r"toml\+\+/.*", r"\btoml::", ("src/config/",)),
    "CLI11": (r"CLI/.*", r"\bCLI::", ("src/commands/", "src/main.cpp")),
    "nlohmann/json": (r"nlohmann/.*", r"\bnlohmann::", ("src/commands/", "regression/")),
    "fmt": (r"fmt/.*", r"\bfmt::", ("src/", "regression/")),
    "xxHash": (r"xxhash\.h", r"\bXXH\d+_\w+", ("src/core/",)),
}

LIBM = (
    r"(?:exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|asin|acos|atan|atan2"
    r"|sinh|cosh|tanh|erf|erfc|cbrt|hypot)"
)
NOT_A_MEMBER = r"(?<![\w.>:])"

# What the protocol decides with, though it stands in core: it is bound by the same rules.
PROTOCOL = ("src/protocol/", "src/core/contiguous_partition.", "src/core/random.")

# Rule, folders, whether tests are bound too, pattern, reason.
BANNED = (
    (
        "pure",
        PROTOCOL,
        False,
        r"#include <(chrono|thread|mutex|shared_mutex|atomic|condition_variable|future|random"
        r"|fstream|iostream|filesystem|cstdio|ctime|unistd\.h|time\.h|stdio\.h|fcntl\.h)>"
        r"|std::(chrono|thread|mutex|atomic|filesystem|[io]?fstream|random_device|cout|cerr)\b"
        r"|\bfmt::print\b"
        r"|\b(clock_gettime|gettimeofday|getenv|fopen|usleep|nanosleep|mt19937)\b",
        "the protocol core has no clock, thread, file, environment or randomness of its own",
    ),
    (
        "libm",
        ("kernels/", "src/model/", *PROTOCOL),
        False,
        rf"(?:\bstd::|{NOT_A_MEMBER}){LIBM}[fl]?\s*\(",
        "libm's bits depend on the CPU: use kernels/portable_math.hpp",
    ),
    (
        "random",
        ("src/", "kernels/"),
        True,
        rf"(?:\bstd::|{NOT_A_MEMBER})s?rand\s*\(|\brandom_device\b",
        "randomness comes from core/rng.hpp, keyed and seeded",
    ),
    (
        "time",
        ("src/", "kernels/"),
        True,
        rf"(?:\bstd::|{NOT_A_MEMBER})time\s*\(",
        "time comes from core/clock.hpp",
    ),
    (
        "system",
        ("src/", "kernels/"),
        True,
        rf"(?:\bstd::|{NOT_A_MEMBER})(system|popen)\s*\(",
        "no shell commands",
    ),
    (
        "namespace",
        ("src/", "kernels/"),
        True,
        r"\busing\s+namespace\s+std\b",
        "names of std are written out",
    ),
)
# There the compiler brings the functions of the device, whatever the CPU.
DEVICE_CODE = "kernels/cuda/"
FAST_MATH = re.compile(
    r"-ffast-math|-Ofast|-funsafe-math|-fassociative-math|-freciprocal-math"
    r"|-ffp-contract=(fast|on)|fp_contract\s*\(?\s*on",
    re.IGNORECASE,
)

LINE_COLUMNS = 100
FILE_LINES = 1000
FUNCTION_LINES = 60
FOLDER_FILES = 60
README_LINES, README_COLUMNS, DOCS_COLUMNS = 200, 120, 100
# Emulation decorates what is here, which must not know it, not even in a comment.
WITHOUT_EMULATION = ("src/transport/", "src/runtime/")
MARKS = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK")) + r")\b")
MACHINE_PATH = re.compile(r"(?<![\w.$}*/-])/(?:work|root|home)/")
CPP = (".cpp", ".hpp", ".cu", ".cuh")
TEXT = CPP + (".py", ".sh", ".cmake", ".txt", ".toml", ".json", ".md", ".yml", ".slurm")
RECORDS = "regression/records/"  # what was measured: nobody's prose
FOLDERS = (
    *("src", "kernels", "cmake", "inputs", "jobscripts", "postprocess", "regression", "docs"),
    *("packaging", ".ci"),
)


class Findings:
    def __init__(self):
        self.errors = []
        self.warnings = []

    def error(self, path, line, rule, message):
        self.errors.append((path, line, rule, message))

    def warn(self, path, line, rule, message):
        self.warnings.append((path, line, rule, message))


def read_tree(root):
    """All text files of the project, as a dictionary from path to content."""
    files = {}
    # In a second work tree of git .git is a file.
    paths = [path for path in root.iterdir() if path.is_file() and path.name != ".git"]
    for folder in FOLDERS:
        paths += [path for path in (root / folder).rglob("*") if path.is_file()]
    for path in sorted(paths):
        name = path.relative_to(root).as_posix()
        if "__pycache__" in name or path.suffix not in TEXT + ("",):
            continue
        if name.startswith(RECORDS):
            continue
        try:
            files[name] = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue
    return files


def is_test(path):
    return re.search(r"_test\.|/test_[^/]*$", path) is not None


def code_only(text):
    """C++ without comments and what is in literals, but for #include; lines stay where they are."""
    pattern = re.compile(
        r'^[ \t]*#include[^\n]*|//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"'
        r'|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'',
        re.DOTALL | re.MULTILINE,
    )

    def blank(match):
        found = match.group()
        if found.lstrip().startswith("#include"):
            return found.split("//")[0].rstrip()
        quote = '""' if found[0] in 'R"' else ""
        return quote + "\n" * found.count("\n")

    return pattern.sub(blank, text)


def layer_of(path):
    parts = path.split("/")
    if path == "src/main.cpp":
        return "main"
    return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]


def rank_of(layer):
    for rank, group in enumerate(LAYERS):
        if layer in group:
            return rank
    return None


def may_include(path, header):
    layer, target = layer_of(path), layer_of(header)
    return target == layer or rank_of(target) < rank_of(layer)


def check_includes(path, lines, findings):
    layer = layer_of(path)
    if rank_of(layer) is None:
        findings.error(path, 1, "arrows", f"folder {layer} is in no layer: name it in LAYERS")
        return
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#include\s+([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        bracket, name = match.groups()
        if bracket == '"':
            target = name.split("/")[0] if "/" in name else None
            if name in GENERATED_HEADERS:
                continue
            if target is None or rank_of(target) is None:
                findings.error(path, number, "arrows", f'"{name}": write "layer/file.hpp"')
            elif target != layer and rank_of(target) >= rank_of(layer):
                findings.error(path, number, "arrows", f"{layer} may not include {name}")
            elif path.startswith("kernels/reference/") and name.startswith("kernels/native/"):
                findings.error(path, number, "arrows", f"the reference may not include {name}")
        for library, (header, _, homes) in HOMES.items():
            if re.fullmatch(header, name) and not path.startswith(homes):
                findings.error(path, number, "home", f"{library} lives in {' and '.join(homes)}")


def check_names(path, lines, findings):
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("#include"):
            continue
        for library, (_, names, homes) in HOMES.items():
            if re.search(names, line) and not path.startswith(homes):
                findings.error(path, number, "home", f"{library} lives in {' and '.join(homes)}")


def check_banned(path, lines, findings):
    for rule, folders, tests_too, pattern, reason in BANNED:
        if not path.startswith(folders) or (is_test(path) and not tests_too):
            continue
        if rule == "libm" and path.startswith(DEVICE_CODE):
            continue
        for number, line in enumerate(lines, 1):
            match = re.search(pattern, line)
            if match:
                findings.error(path, number, rule, f"{match.group().strip()}: {reason}")


def check_style(path, text, findings):
    lines = text.split("\n")
    if text and not text.endswith("\n"):
        findings.error(path, len(lines), "newline", "the file does not end with one")
    if text.endswith("\n\n"):
        findings.error(path, len(lines), "newline", "blank lines at the end")
    if path.endswith((".hpp", ".cuh")) and not text.startswith("#pragma once\n"):
        findings.error(path, 1, "pragma", "a header starts with #pragma once")
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            findings.error(path, number, "tab", "indent with spaces")
        if line != line.rstrip():
            findings.error(path, number, "space", "blanks at the end of the line")
        if len(line) > LINE_COLUMNS and not path.endswith(".md") and "://" not in line:
            findings.error(path, number, "columns", f"{len(line)} columns, at most {LINE_COLUMNS}")
        if path.startswith(WITHOUT_EMULATION) and "emulat" in line.lower():
            findings.error(path, number, "emulation", "it decorates this, and lives elsewhere")
        if MARKS.search(line):
            findings.error(path, number, "mark", "do it, or make it an issue")
        if MACHINE_PATH.search(line):
            findings.error(path, number, "path", "a path of one machine")
        if FAST_MATH.search(line) and path != "regression/style/tidy.py":
            findings.error(path, number, "fast-math", "it changes the bits of the whole process")


def check_markdown(path, text, findings):
    """README.md is short and narrow; docs/ are narrow but for what cannot be broken."""
    lines = text.split("\n")
    if path == "README.md" and text.count("\n") > README_LINES:
        count = text.count("\n")
        findings.error(path, count, "long", f"{count} lines, at most {README_LINES}")
    in_code = False
    for number, line in enumerate(lines, 1):
        fence = line.lstrip().startswith("```")
        in_code ^= fence
        limit = README_COLUMNS
        if path != "README.md":
            limit = DOCS_COLUMNS
            if in_code or fence or line.lstrip().startswith("|"):
                continue
        if len(line) > limit and "://" not in line:
            findings.error(path, number, "columns", f"{len(line)} columns, at most {limit}")


def check_crowds(files, findings):
    counts = collections.Counter(path.rpartition("/")[0] for path in files)
    for folder, count in counts.items():
        if count > FOLDER_FILES:
            message = f"{count} files, at most {FOLDER_FILES}: make folders of them"
            findings.error(folder, 1, "crowded", message)


def imported_modules(files):
    """Pairs of a Python file and the last part of a module's name that it imports."""
    for path, text in files.items():
        if not path.endswith(".py"):
            continue
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [name.name for name in node.names]
                names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
                for name in names:
                    yield path, name.rpartition(".")[2]


def check_dead(files, findings):
    include = re.compile(r'#include\s+"([^"]+)"')
    included = {name for text in files.values() for name in include.findall(text)}
    cmake = " ".join(files[path] for path in files if path.endswith(("CMakeLists.txt", ".cmake")))
    # A layer's sources are those of its folder and of all folders below.
    layers = re.findall(r"swarmpi_layer\(\s*\w+\s+([\w/-]+)", cmake)
    built = tuple(folder + "/" for folder in layers)
    importers = {}
    for path, module in imported_modules(files):
        importers.setdefault(module, set()).add(path)
    for path in files:
        base = path.rpartition("/")[2]
        if path.endswith((".hpp", ".cuh")) and path.removeprefix("src/") not in included:
            findings.error(path, 1, "dead", "nobody includes it")
        if path.endswith((".py", ".sh")) and not is_mentioned(path, files, cmake, importers):
            findings.error(path, 1, "dead", "nobody mentions it")
        if path.endswith(".cpp") and not path.startswith(built):
            if not re.search(rf"(?<!\w){re.escape(base)}", cmake):
                findings.error(path, 1, "dead", "no CMakeLists.txt builds it or its folder")


def is_mentioned(path, files, cmake, importers):
    """A script by its file name; a Python module also by an import, or by a test in CMake."""
    base = path.rpartition("/")[2]
    word = re.compile(rf"\b{re.escape(base)}")
    if any(word.search(text) for other, text in files.items() if other != path):
        return True
    if not base.endswith(".py"):
        return False
    module = base.removesuffix(".py")
    return bool(importers.get(module, set()) - {path} or re.search(rf"\b{module}\b", cmake))


def cpp_functions(code):
    """Yields (first line, lines) of function bodies outside of functions, roughly."""
    stack = []
    since = 0
    for match in re.finditer(r"[{};]", code):
        head = code[since : match.start()]
        since = match.end()
        if match.group() == "{":
            inside = any(kind == "function" for kind, _ in stack)
            scope = re.search(r"\b(namespace|class|struct|enum|union|extern)\b[^()]*$", head)
            is_function = not inside and not scope and ")" in head
            first = code.count("\n", 0, match.start()) + 1
            stack.append(("function" if is_function else "scope", first))
        elif match.group() == "}" and stack:
            kind, first = stack.pop()
            if kind == "function":
                yield first, code.count("\n", 0, match.start()) + 2 - first


def python_functions(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.lineno, node.end_lineno + 1 - node.lineno


def check_sizes(path, text, functions, findings):
    lines = text.count("\n")
    if lines > FILE_LINES:
        findings.warn(path, 1, "size", f"a file of {lines} lines")
    for first, length in functions:
        if length > FUNCTION_LINES:
            findings.warn(path, first, "size", f"a function of {length} lines")


def check(files):
    """All rules over a tree given as a dictionary from path to content."""
    findings = Findings()
    codes = {}
    for path, text in files.items():
        check_style(path, text, findings)
        functions = ()
        if path.endswith(CPP):
            code = codes[path] = code_only(text)
            lines = code.split("\n")
            functions = cpp_functions(code)
            check_includes(path, lines, findings)
            check_names(path, lines, findings)
            check_banned(path, lines, findings)
        elif path.endswith(".py"):
            try:
                functions = python_functions(ast.parse(text))
            except SyntaxError as error:
                findings.error(path, error.lineno or 1, "syntax", str(error.msg))
        elif path == "README.md" or re.fullmatch(r"docs/.*\.md", path):
            check_markdown(path, text, findings)
        if path.endswith(CPP + (".py", ".sh")):
            check_sizes(path, text, functions, findings)
    unity_names.check(codes, may_include, is_test, findings.error)
    include_reach.check(codes, findings.error)
    check_dead(files, findings)
    check_crowds(files, findings)
    return findings


def show(findings):
    for kind, found in (("warning: ", findings.warnings), ("", findings.errors)):
        for path, line, rule, message in sorted(found):
            print(f"{path}:{line}: {kind}{rule}: {message}")


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        import tidy_self_test

        return tidy_self_test.run()
    if arguments:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    files = read_tree(Path(__file__).resolve().parents[2])
    findings = check(files)
    show(findings)
    print(
        f"tidy: {len(files)} files, {len(findings.errors)} errors, "
        f"{len(findings.warnings)} warnings"
    )
    return 1 if findings.errors else 0


if __name__ == "__main__":
    sys.exit(main())
