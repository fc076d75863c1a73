#!/usr/bin/env python3
"""paper.py: what must hold of experiments A and B, small forms of C and D, and what it makes of run
files whose figures are known: 0 if so, 77 if it cannot run. The program is $SWARMPI."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import h5py  # noqa: F401
    import matplotlib
    import numpy as np
except ImportError as missing:
    print(f"not run: a module is missing: {missing}")
    sys.exit(77)

matplotlib.use("Agg")
SCRIPT = Path(__file__).with_name("paper.py")
CASES = SCRIPT.parents[1] / "regression" / "cases"
sys.path.insert(0, str(SCRIPT.parent))

import paper_latency
import paper_methods
import paper_pools
import paper_square_cube
from paper_runs import Simulated, Study
from paper_tables import Report, markdown

SMALL = {"model.width": 256, "model.heads": 4, "model.context": 32}


def test_times_of_a_known_run():
    """Compute alone: neither the codec's passes nor the overhead of the deck's device."""
    run = Simulated(CASES / "simulated_latency" / "reference.h5")
    width, context, layers = 64, 32, 2
    forward = 2 * (12 * width * width + context * width) * layers * context
    speed = 0.02e12 * 0.5 * width / (width + 40)
    assert np.isclose(run.microbatch_s("gpu", 0), 4 * forward / speed, rtol=1e-9)
    coded_bytes = 5 * context * width  # of one cut, each way
    both = run.beside_compute_s()[run.table["stage"] == 0]
    assert np.allclose(both, 2 * (1e-4 + coded_bytes / 0.5e9)), both
    assert 0 < run.utilisation() < 0.05 and 0 < run.utilisation_of_whole() < run.utilisation()
    block = context * width + 4  # bytes of a boundary: 8 bits a value, and a scale
    assert run.boundary_bytes(0) == run.boundary_bytes(1) == block, run.boundary_bytes(0)


def test_latency(study):
    """At least 18 of 20 cells within 10 % of what is reported, and all within 12 %."""
    errors = paper_latency.errors_of(paper_latency.fit(study))
    assert len(errors) == 20 and max(errors) <= 12, errors
    assert sum(error <= 10 for error in errors) >= 18, errors


def test_overlap(study):
    """A window of 8 a pipeline at 200 ms, 8 bit, delayed updates, the reduction included."""
    run = paper_latency.overlapped(study, "ours", 8)
    assert run.utilisation() >= 0.92 and run.utilisation_of_whole() >= 0.92, run.utilisation()
    assert run.reduction_s() > 10 and run.suspected == 0, "a GB of sums takes its time"
    assert paper_latency.bound(run) == 1


def test_square_cube(study):
    ends = (768, 12288)
    runs = [paper_square_cube.at_width(study, width, "fp16") for width in ends]
    compute = paper_square_cube.slope(ends, [paper_square_cube.flops(run) for run in runs])
    sent = paper_square_cube.slope(ends, [run.boundary_bytes(1) for run in runs])
    assert 1.9 <= compute <= 2.0 and abs(sent - 1) < 0.005, (compute, sent)
    widths = np.array([1.0, 2, 4])
    assert paper_square_cube.crossing(widths * 1e3, widths**2, 3 * widths) == "3,000"
    assert paper_square_cube.crossing(widths, widths**2, 8 * widths) == "8 (extrapolated)"


def test_methods(study):
    settings = SMALL | {"train.microbatches": 32}
    run = study.run("methods", "c_methods", settings | {"swarm.method": "gpipe", "swarm.window": 0})
    plain, whole, reduction_s = paper_methods.rates(run)
    assert plain > whole > 0 and reduction_s > 0, (plain, whole, reduction_s)
    assert np.isclose(1 / whole - 1 / plain, reduction_s / (32 * 4))


def test_pools(study):
    run = study.run("pools", "d_pools", SMALL | {"train.microbatches": 320})
    best = paper_pools.best_of(run)
    assert 0 < run.sequences_in_step() / run.last_step_s() < best
    alike = np.array([1.0, 1, 1, 1])
    assert paper_pools.filled(0 * alike, alike, 11) == 2
    assert paper_pools.filled(alike * [4, 0, 1, 0], alike, 5) == 2
    assert paper_pools.line_over_compute(run).startswith("a100 ")


def test_a_page_and_its_tables(folder):
    report = Report(folder, "X", "A title")
    report.table("t", "What it is", ["a", "b"], [["x", 1.23456]])
    report.write()
    assert "| x | 1.23 |" in (folder / "X.md").read_text()
    assert (folder / "X_t.csv").read_text() == "a,b\nx,1.23456\n"
    assert markdown(["a"], [[1]]) == "| a |\n|---|\n| 1 |\n"


def test_refused(folder):
    """Without the program, and with one that fails: status 2 and one line."""
    for program, reason in (("", "there is no swarmpi"), ("false", "ended with 1")):
        environment = os.environ | {"SWARMPI": program, "PATH": "/bin:/usr/bin"}
        command = [sys.executable, str(SCRIPT), "B", "--out", str(folder / "none")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        assert done.returncode == 2 and reason in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr


def main():
    if not os.environ.get("SWARMPI"):
        sys.exit("set SWARMPI to the program")
    with tempfile.TemporaryDirectory() as name:
        study = Study(Path(name))
        test_times_of_a_known_run()
        test_latency(study)
        test_overlap(study)
        test_square_cube(study)
        test_methods(study)
        test_pools(study)
        test_a_page_and_its_tables(Path(name))
        test_refused(Path(name))
    print("paper.py: all good")


if __name__ == "__main__":
    main()
