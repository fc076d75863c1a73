"""Why a test may be skipped, and whether this machine could have run it after all.

Each reason that a test may give stands here, with a probe that looks again, and by other means than
the test did: a probe that repeats what the test has asked cannot find that it has asked wrongly. A
reason that stands nowhere, or whose probe finds what was missing, is a fault of the suite: see
what_did_not_run.py. A package that is not installed is no reason where the set-up could have
installed it.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from harness import machine_rights, slurm_cluster

DEADLINE_S = 60
COULD_HAVE_RUN = "this machine could have run it (docs/testing.md says what can be done)"
# GoogleTest's DISABLED_ tests as SUITE.TEST, instances as INSTANCE/SUITE; and why they are.
SWITCHED_OFF = {
    "CodecTest.HasTheReferencesBitsOfEveryNumber": (
        "takes minutes for each codec; by hand: build/kernels_native_test "
        "--gtest_also_run_disabled_tests --gtest_filter=*EveryNumber*"
    ),
    "CodecOnCuda.HasTheReferencesBitsOfEveryNumber": (
        "takes minutes for each codec, on a GPU; by hand: build/kernels_cuda_test "
        "--gtest_also_run_disabled_tests --gtest_filter=*EveryNumber*"
    ),
}


def can_install():
    """Whether jobscripts/setup.sh installs what the tests need here."""
    return (
        os.geteuid() == 0
        and shutil.which("apt-get") is not None
        and not os.path.exists("/run/systemd/system")
    )


def finds(*programs):
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    return all(shutil.which(program, path=path) for program in programs)


def cpu_has(*flags):
    """Whether the processor has one of these extensions."""
    try:
        found = re.search(r"^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return False
    return bool(found and set(flags) & set(found[1].split()))


def imports(module, *pythons):
    command = f"import {module}"
    for python in pythons or ("python3", "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [python, "-c", command], capture_output=True, timeout=DEADLINE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return True
    return False


def can_be_another_user():
    probe = ["setpriv", "--reuid=65534", "true"]
    try:
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def has_mpirun(build):
    """Whether the MPI that was built with has an mpirun beside its compiler, or PATH has one."""
    beside = Path(cached(build, "MPI_CXX_COMPILER")).parent
    return shutil.which("mpirun", path=f"{beside}:{os.environ['PATH']}") is not None


def reports_deaths(build):
    """Whether the program says that its MPI does: the tests go by the version of their mpirun."""
    try:
        done = subprocess.run(
            [Path(build) / "swarmpi", "info"],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "reports a lost rank" in done.stdout


def brings_ucx(build):
    """Whether UCX's library is among those of the MPI that was built with."""
    prefix = Path(cached(build, "MPI_CXX_COMPILER")).parent.parent
    return any(prefix.glob("lib*/**/libucp.so*")) if prefix != Path("/usr") else False


def has_gpu():
    return Path("/dev/nvidia0").exists()


def has_nvcc():
    return shutil.which("nvcc", path=os.environ["PATH"] + ":/usr/local/cuda/bin") is not None


def has_nccl():
    folders = ("/usr/include", "/usr/local/include", "/usr/local/cuda/include")
    return has_nvcc() and any(Path(folder, "nccl.h").exists() for folder in folders)


def multiplies_bf16():
    return cpu_has("avx512_bf16", "amx_bf16")


# Pairs of the whole reason, as a regular expression, and its probe: called with the match and the
# build folder, it returns whether this machine could have run the test.
REASONS = [
    (r"there is no mpirun", lambda _, build: has_mpirun(build)),
    (
        r"this MPI (?:reports no deaths|does not report lost ranks)"
        r"|there is no MPI that reports deaths",
        lambda _, build: reports_deaths(build),
    ),
    (r"this MPI has no UCX", lambda _, build: brings_ucx(build)),
    (r"this MPI reports deaths", lambda _, build: not reports_deaths(build)),
    (
        r"(?:small disks|disks that can be frozen|emulated hosts|a test cluster) needs? root",
        lambda _, build: os.geteuid() == 0,
    ),
    (
        r"not installed: (?P<programs>\S.*)",
        lambda match, build: can_install() or finds(*match["programs"].split()),
    ),
    (r"this machine allows no hosts: .*", lambda _, build: machine_rights.hosts()),
    (r"there is no /dev/net/tun", lambda _, build: machine_rights.tun()),
    (
        r"this machine does not let us mount anything",
        lambda _, build: machine_rights.mounts(),
    ),
    (
        r"this machine does not let us freeze a file system",
        lambda _, build: machine_rights.loops(),
    ),
    (
        r"without tracking by cgroups Slurm ends the daemons of other nodes itself",
        lambda _, build: machine_rights.freezer(slurm_cluster.FREEZER),
    ),
    (r"root cannot become another user here", lambda _, build: can_be_another_user()),
    (
        r"no products of bf16 here|no bf16"
        r"|this machine multiplies no bf16: factors stay in fp32",
        lambda _, build: multiplies_bf16() and cached(build, "SWARMPI_ARCH") == "native",
    ),
    (
        r"no tiles here",
        lambda _, build: cpu_has("amx_bf16") and cached(build, "SWARMPI_ARCH") == "native",
    ),
    # PyPI's PyTorch for this processor brings 3 GB of kernels for GPUs, Debian's 170 packages: the
    # set-up installs neither. It is used where it is.
    (
        r"PyTorch is not installed: No module named '(?P<module>[\w.]+)'",
        lambda _, build: imports("numpy, torch"),
    ),
    (
        r"a module is missing: No module named '(?:h5py|matplotlib|numpy)[\w.]*'|there is no h5py",
        lambda _, build: True,  # the set-up's virtual environment has them
    ),
    # For files of others, and for others who read ours: the set-up installs them where it reaches
    # PyPI.
    (
        r"a module is missing: No module named 'tokenizers'",
        lambda _, build: imports("tokenizers"),
    ),
    (
        r"there is no xarray with h5netcdf and pandas",
        lambda _, build: imports("xarray, h5netcdf, pandas"),
    ),
    (
        r"a sanitizer takes memory of its own",
        lambda _, build: "-fsanitize" not in cached(build, "CMAKE_CXX_FLAGS"),
    ),
    (
        r"there is no clang-format 14",
        lambda _, build: finds("clang-format-14") or (can_install() and offers("clang-format-14")),
    ),
    (r"needs a GPU: .*", lambda _, build: has_gpu()),
    (r"needs a GPU and NCCL: .*", lambda _, build: has_gpu()),
    (r"this program was built without CUDA: .*", lambda _, build: has_nvcc()),
    (r"this program was built without NCCL", lambda _, build: has_nccl()),
    *((re.escape(why), lambda _, build: False) for why in SWITCHED_OFF.values()),
]


def cached(build, name):
    """The value in CMake's cache; "" if there is none."""
    try:
        text = (Path(build) / "CMakeCache.txt").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(rf"^{re.escape(name)}:\w+=(.*)$", text, re.MULTILINE)
    return found[1] if found else ""


def offers(package):
    """Whether Debian's package manager could install it."""
    done = subprocess.run(
        ["apt-cache", "policy", package], capture_output=True, text=True, check=False
    )
    return re.search(r"Candidate: \d", done.stdout) is not None


def why_switched_off(test):
    """The reason of a DISABLED_ test; one that nobody knows if it has none.

    CTest knows a test with parameters as INSTANCE/SUITE.TEST/VALUE, one with types as
    SUITE/TYPE.TEST.
    """
    suites, _, rest = test.partition(".")
    names = [f"{suite}.{rest.partition('/')[0]}" for suite in suites.split("/")]
    whys = [SWITCHED_OFF[name] for name in (suites, *names) if name in SWITCHED_OFF]
    return whys[0] if whys else "it is switched off in its source"


def fault_of(reason, build, reasons=None):
    """What is wrong with a test that was skipped for this reason; "" where it could not run."""
    for pattern, could_run in REASONS if reasons is None else reasons:
        match = re.fullmatch(pattern, reason)
        if match:
            return COULD_HAVE_RUN if could_run(match, build) else ""
    return "no reason that regression/harness/skip_reasons.py knows"
