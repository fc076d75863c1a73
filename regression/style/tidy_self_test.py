"""Shows tidy.py what each rule must find, and what none may find. Run as `tidy.py --self-test`."""

import include_reach
import tidy

CLEAN = {
    "CMakeLists.txt": "swarmpi_layer(core src/core)\nswarmpi_layer(protocol src/protocol)\n"
    "swarmpi_layer(native kernels/native)\n"
    "add_executable(swarmpi src/main.cpp)\n",
    "src/core/ids.hpp": "#pragma once\nint id();\n",
    "src/core/ids.cpp": '#include "core/ids.hpp"\nint id() { return 1; }\n',
    # Words in comments and strings, members, and names that only contain a banned one are fine.
    "src/protocol/peer.cpp": '#include "core/ids.hpp"  // brings id()\n'
    "// std::exp( and MPI_Send( and getenv belong elsewhere\n"
    'const char* text = "std::thread, MPI_Init( and time(0)";\n'
    "double f(C c) { return c.time() + portable_exp(1) + std::sqrt(2.0); }\n",
    "kernels/native/parallel.cpp": "#include <Kokkos_Core.hpp>\nvoid f() { Kokkos::fence(); }\n",
    "src/main.cpp": "#include <CLI/CLI.hpp>\nint main() { CLI::App app; }\n",
    # Names of two folders, of a class, of a function's body, and equal aliases do not meet.
    "src/core/helpers.cpp": "namespace {\nint helper() { return 1; }\n"
    "constexpr int kHelper = 1;\nstruct Helper {\n  int id(int i);\n};\nusing Alias = int;\n}\n",
    "src/core/equal_alias.cpp": "namespace {\nusing Alias = int;\n}\n",
    "src/protocol/helpers.cpp": "namespace {\nint helper() {\n  int kHelper = 1;\n"
    "  return kHelper;\n}\n}\n",
    "src/core/id_test.cpp": "namespace swarmpi::id_test {\nnamespace {\nTEST(A, B) {}\n}\n}\n",
    # A layer has the sources of folders below its own.
    "src/core/text/words.cpp": "int words;\n",
    "regression/run.sh": "exec check.py\n",
    "jobscripts/check.py": "print('run.sh')\n",
    # A Python module is alive when another imports it, or CMake runs it.
    "regression/harness/record.py": "figures = {}\n",
    "regression/tests/death_test.py": "from harness.record import figures\n",
    "regression/CMakeLists.txt": "module_test(death_test)\n"
    "add_executable(link harness/link.cpp)\n",
    "regression/harness/link.cpp": "int main() {}\n",
    "README.md": "# Short\n\n" + "x" * 120 + "\n",
    "docs/method.md": "| " + "x" * 120 + " |\n\n```\n" + "x" * 120 + "\n```\n\n"
    "See https://example.org/" + "x" * 120 + "\n",
}

MARK = "TO" + "DO"
MACHINE = "/" + "root" + "/x"

# Rule, path, content: each is added to the clean tree by itself.
MUST_FIND = (
    ("arrows", "src/core/a.cpp", '#include "protocol/view.hpp"\n'),
    ("arrows", "src/protocol/a.cpp", '#include "io/files.hpp"\n'),
    ("arrows", "src/core/a.cpp", '#include "ids.hpp"\n'),
    ("arrows", "src/elsewhere/a.cpp", "int a;\n"),
    ("arrows", "kernels/native/a.cpp", '#include "config/config.hpp"\n'),
    ("arrows", "kernels/reference/a.cpp", '#include "kernels/native/parallel.hpp"\n'),
    ("home", "src/protocol/a.cpp", "#include <mpi.h>\n"),
    ("home", "src/commands/a.cpp", "int a = MPI_Init(nullptr, nullptr);\n"),
    ("home", "src/core/a.cpp", "#include <Kokkos_Core.hpp>\n"),
    ("home", "kernels/reference/a.cpp", "#include <oneapi/dnnl/dnnl.hpp>\n"),
    ("home", "src/model/a.cpp", "#include <cuda_runtime.h>\n"),
    ("home", "src/commands/a.cpp", "#include <hdf5.h>\n"),
    ("home", "src/commands/a.cpp", "auto f = H5Fopen(name, 0, 0);\n"),
    ("home", "src/commands/a.cpp", "#include <toml++/toml.h>\n"),
    ("home", "src/core/a.cpp", "#include <CLI/CLI.hpp>\n"),
    ("home", "src/io/a.cpp", "#include <xxhash.h>\n"),
    ("home", "src/report/a.cpp", "#include <nlohmann/json.hpp>\n"),
    ("home", "kernels/a.cpp", "#include <fmt/core.h>\n"),
    ("pure", "src/protocol/a.cpp", "#include <chrono>\n"),
    ("pure", "src/protocol/a.cpp", "auto t = std::chrono::steady_clock::now();\n"),
    ("pure", "src/protocol/a.cpp", "std::thread t;\n"),
    ("pure", "src/protocol/a.cpp", 'auto e = std::getenv("HOME");\n'),
    ("pure", "src/protocol/a.cpp", "#include <fstream>\n"),
    ("libm", "kernels/native/a.cpp", "double a = std::exp(1.0);\n"),
    ("libm", "kernels/native/a.cpp", "float a = tanhf(1.0f);\n"),
    ("libm", "src/model/a.cpp", "double a = pow(2, 3);\n"),
    ("random", "src/core/a.cpp", "int a = std::rand();\n"),
    ("random", "src/core/a_test.cpp", "void f() { srand(1); }\n"),
    ("time", "src/core/a.cpp", "auto t = time(nullptr);\n"),
    ("system", "src/core/a.cpp", 'int a = std::system("ls");\n'),
    ("namespace", "src/core/a.cpp", "using namespace std;\n"),
    ("emulation", "src/transport/mpi/a.cpp", "// Where peers are emulated.\n"),
    ("emulation", "src/runtime/a.cpp", "EmulatedTransport* transport;\n"),
    ("fast-math", "cmake/flags.cmake", "add_compile_options(-ffast" + "-math)\n"),
    ("fast-math", "CMakePresets.json", '"CMAKE_CXX_FLAGS": "-O' + 'fast"\n'),
    ("pragma", "src/core/a.hpp", "int a;\n"),
    ("tab", "src/core/a.cpp", "\tint a;\n"),
    ("space", "src/core/a.cpp", "int a; \n"),
    ("space", "src/core/a.cpp", "int a;\r\n"),
    ("columns", "src/core/a.cpp", "// " + "x" * 98 + "\n"),
    ("newline", "src/core/a.cpp", "int a;"),
    ("newline", "src/core/a.cpp", "int a;\n\n"),
    ("mark", "src/core/a.cpp", f"// {MARK}: later\n"),
    ("unity", "src/core/a.cpp", "namespace {\nint helper() { return 2; }\n}\n"),
    ("unity", "src/core/a.cpp", "namespace {\nconstexpr int kHelper = 2;\n}\n"),
    ("unity", "src/core/a.cpp", "namespace {\nstruct Helper {\n};\n}\n"),
    ("unity", "src/core/a.cpp", "namespace {\nusing Alias = double;\n}\n"),
    ("unity", "src/protocol/a.cpp", "namespace {\nint id(int i) { return i; }\n}\n"),
    ("unity", "src/core/a.cpp", "static int f() { return 1; }\n"),
    ("unity", "src/core/a_test.cpp", "namespace swarmpi {\nnamespace {\nTEST(A, B) {}\n}\n}\n"),
    ("path", "inputs/a.toml", f'paths = ["{MACHINE}"]\n'),
    ("syntax", "jobscripts/check.py", "def f(:\n"),
    ("dead", "src/core/a.hpp", "#pragma once\n"),
    ("dead", "postprocess/plot_nothing.py", "print(1)\n"),
    ("dead", "src/data/a.cpp", "int a;\n"),
    ("dead", "regression/harness/a.cpp", "int a;\n"),
    ("dead", "regression/harness/words.py", "a = 1\n"),  # a word of many texts, imported by none
    ("long", "README.md", "x\n" * 201),
    ("columns", "README.md", "x" * 121 + "\n"),
    ("columns", "docs/a.md", "x" * 101 + "\n"),
    ("columns", "docs/a.md", "```\nx\n```\n" + "x" * 101 + "\n"),
)

LONG_CPP = "int f() {\n" + "  g();\n" * 61 + "}\n"
LONG_PYTHON = "def f():\n" + "    g()\n" * 61
MUST_WARN = (
    ("src/core/a.cpp", LONG_CPP),
    (
        "src/core/a.cpp",
        "namespace a {\nclass B {\n  int f(\n      int x) const {\n"
        + "  g();\n" * 61
        + "  }\n};\n}\n",
    ),
    ("src/core/a.cpp", "int a;\n" * 1001),
    ("jobscripts/check.py", LONG_PYTHON),
)
MUST_NOT_WARN = (
    ("src/core/a.cpp", "namespace a {\n" + "int f() { return 1; }\n" * 100 + "}\n"),
    ("src/core/a.cpp", "struct A {\n" + "  int a = 0;\n" * 100 + "};\n"),
    ("src/core/a.cpp", "int a;\n" * 1000),
)


def crowd(count):
    """The clean tree with as many files in one folder, which has them in no other test."""
    return {**CLEAN, **{f"inputs/{number}.toml": "a = 1\n" for number in range(count)}}


def reach(count):
    """The clean tree with a message that so many sources include, each through a second header."""
    seal = include_reach.FOLDER + "seal.hpp"
    message = "#pragma once\nstruct Seal {\n  int step;\n};\nSWARMPI_FIELDS(Seal, step);\n"
    second = '#pragma once\n#include "protocol/messages/seal.hpp"\n'
    source = '#include "protocol/second.hpp"\n'
    sources = {f"src/protocol/source_{number}.cpp": source for number in range(count)}
    return {**CLEAN, seal: message, "src/protocol/second.hpp": second, **sources}


def run():
    failures = []
    clean = tidy.check(CLEAN)
    failures += [f"clean tree: {found}" for found in clean.errors + clean.warnings]
    for rule, path, text in MUST_FIND:
        found = tidy.check({**CLEAN, path: text}).errors
        if not any(where == path and name == rule for where, _, name, _ in found):
            failures.append(f"{rule} not found in {path}: {text!r}")
    for path, text in MUST_WARN:
        if not tidy.check({**CLEAN, path: text}).warnings:
            failures.append(f"no warning for {path} of {text.count(chr(10))} lines")
    for path, text in MUST_NOT_WARN:
        if tidy.check({**CLEAN, path: text}).warnings:
            failures.append(f"a warning for {path}: {text[:60]!r}")
    for count, wanted in ((tidy.FOLDER_FILES, False), (tidy.FOLDER_FILES + 1, True)):
        found = any(rule == "crowded" for _, _, rule, _ in tidy.check(crowd(count)).errors)
        if found != wanted:
            failures.append(f"{count} files in a folder: crowded is {found}")
    for count, wanted in ((include_reach.LIMIT, False), (include_reach.LIMIT + 1, True)):
        found = any(rule == "reach" for _, _, rule, _ in tidy.check(reach(count)).errors)
        if found != wanted:
            failures.append(f"{count} sources include a message: reach is {found}")
    unproven = {rule for rule, *_ in tidy.BANNED} - {rule for rule, *_ in MUST_FIND}
    failures += [f"no example for the rule {rule}" for rule in unproven]
    print("\n".join(failures) or f"tidy: {len(MUST_FIND)} examples found, clean tree passed")
    return 1 if failures else 0
