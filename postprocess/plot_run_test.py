#!/usr/bin/env python3
"""plot_run.py and plot_deaths.py draw every sound run file and refuse all else: 0 if so, 77 if they
cannot run."""

import ast
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import h5py
    import matplotlib
    import numpy as np
except ImportError as missing:
    print(f"not run: a module is missing: {missing}")
    sys.exit(77)

matplotlib.use("Agg")
SCRIPT = Path(__file__).with_name("plot_run.py")
DEATHS = Path(__file__).with_name("plot_deaths.py")
DECK = """
[model]
layers = 2
width = 64
[data]
format = "bytes"
[train]
steps = 400
clip = 1.0
"""
PEER_COLUMNS = (
    "step",
    "peer",
    "stage",
    "compute_s",
    "idle_s",
    "communication_s",
    "recovery_s",
    "repeated",
    "queue",
    "bytes_sent",
    "bytes_received",
    "microbatches",
    "transfer_s",
)
WHOLE = ("step", "tokens", "term", "incarnation", "peer", "stage")


def write_peers(file, steps, peers, stages):
    """Peers that take turns in serving the stages; with fewer of them each serves several."""
    served = [(n % peers, n % stages) for n in range(max(peers, stages))]
    rows = []
    for step in range(steps + 1):
        for peer, stage in served:
            busy_s = 0.02 + 0.01 * ((3 * peer + step) % 5)
            moved = 1_000_000 * (1 + peer % 3)
            times = (busy_s, 0.1 - busy_s, 0.01, 0)
            rows.append((step, peer, stage, *times, 0, 0.5, moved, 2 * moved, 4, 0.02))
    for name, values in zip(PEER_COLUMNS, np.array(rows).T):
        timed = name.endswith("_s") or name == "queue"
        file[f"peers/{name}"] = values if timed else values.astype(int)


def write_goodput(path, peers):
    """Rows of two steps, of peers whose time goes by with each of the columns."""
    names = ("useful", "repeated", "reduction", "link", "repair", "checkpoint", "start", "idle")
    with h5py.File(path, "a") as file:
        file["goodput/step"] = np.repeat((1, 2), peers)
        file["goodput/peer"] = np.tile(np.arange(peers), 2)
        for i, name in enumerate(names):
            file[f"goodput/{name}_s"] = np.full(2 * peers, 1.0 + i)


def write_run(
    path, rows, deck=DECK, validation=True, events=True, break_loss=False, peers=1, stages=1
):
    """A run file with row 0 and `rows` steps, as the README describes it."""
    steps = np.arange(rows + 1)
    loss = 1.5 + 4 * np.exp(-steps / 50) + 0.05 * np.sin(steps * 7.0)
    skipped = np.isin(steps, (0, 100)).astype(np.uint8)
    if break_loss:
        loss[1:] = np.nan
    columns = {
        "step": steps,
        "loss": loss,
        "grad_norm": np.where(skipped, np.nan, 1 + np.exp(-steps / 20)),
        "clip": np.ones(rows + 1),
        "lr": 1e-3 * (1 - steps / (rows + 1)),
        "tokens": np.full(rows + 1, 4096),
        "time_s": 0.1 * (steps + 1),
        "state_hash": steps.astype(np.uint64),
        "skipped": skipped,
        "term": np.ones(rows + 1, int),
        "incarnation": np.zeros(rows + 1, int),
    }
    tested = steps[::50] if validation else steps[:0]
    kinds = ["commit", "resume"] if events else []
    text = h5py.string_dtype()
    with h5py.File(path, "w") as file:
        file.attrs["deck"] = deck
        file.attrs["complete"] = "1"
        file.attrs["verdict"] = "valid"
        for name in ("seed", "version", "build", "fingerprint", "hosts"):
            file.attrs[name] = ""
        for name, values in columns.items():
            file[f"steps/{name}"] = values
        file["validation/step"] = tested
        file["validation/loss"] = loss[tested]
        for name in ("time_s", "tokens_per_s", "fraction_of_ideal"):
            file[f"throughput/{name}"] = columns["time_s"][1:] if rows > 3 else np.zeros(0)
        file["events/kind"] = np.array(kinds, dtype=text)
        file["events/detail"] = np.array(["x"] * len(kinds), dtype=text)
        for name in ("time_s", "cost_s", "step", "peer", "stage"):
            file[f"events/{name}"] = np.full(len(kinds), 5, int if name in WHOLE else float)
        write_peers(file, rows, peers, stages)


def write_simulated(path, rows, **more):
    """As a simulation leaves it: nothing has learned. Step 0 is a row of /throughput too."""
    write_run(path, rows, validation=False, events=False, **more)
    with h5py.File(path, "a") as file:
        file.attrs["verdict"] = "simulated"
        for name in ("loss", "grad_norm"):
            file[f"steps/{name}"][:] = np.nan
        for name in ("time_s", "tokens_per_s", "fraction_of_ideal"):
            del file[f"throughput/{name}"]
        file["throughput/time_s"] = file["steps/time_s"][:]
        file["throughput/tokens_per_s"] = np.where(file["steps/step"][:] > 0, 100.0, 9000.0)
        file["throughput/fraction_of_ideal"] = np.where(file["steps/step"][:] > 0, 0.5, 3.0)


def write_events(path, rows):
    """Other events: (time_s, kind, peer) each."""
    columns = dict(zip(("time_s", "kind", "peer"), zip(*rows)))
    columns["step"] = np.full(len(rows), 5)
    with h5py.File(path, "a") as file:
        for name, values in columns.items():
            del file[f"events/{name}"]
            kind = h5py.string_dtype() if name == "kind" else None
            file[f"events/{name}"] = np.array(values, dtype=kind)


def plot(*arguments, script=SCRIPT):
    command = [sys.executable, "-W", "error", str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def expect_picture(run, picture):
    done = plot(run, "-o", picture, "--dpi", "60")
    assert done.returncode == 0, f"{run.name}: {done.stderr}"
    start = picture.read_bytes()[:24]
    assert start[:8] == b"\x89PNG\r\n\x1a\n", f"{picture.name} is no PNG"
    width, height = struct.unpack(">II", start[16:24])
    assert width > 400 and height > 300, f"{picture.name}: {width} x {height}"
    return height


def expect_refusal(run, picture, reason, *options, script=SCRIPT):
    done = plot(run, "-o", picture, *options, script=script)
    assert done.returncode == 2, f"{run.name}: status {done.returncode}: {done.stderr}"
    assert reason in done.stderr, f"{run.name}: {done.stderr!r} does not say {reason!r}"
    assert len(done.stderr.splitlines()) == 1, f"{run.name}: {done.stderr}"


def test_drawn(folder):
    write_run(folder / "whole.h5", 400)
    write_run(folder / "one.h5", 1, validation=False, events=False)
    write_run(folder / "nan.h5", 150, break_loss=True)
    write_run(folder / "tokens.h5", 60, deck='[data]\nformat = "tokens_u16"\n', validation=False)
    write_run(folder / "no_deck.h5", 8, deck="")
    for name in ("whole", "one", "nan", "tokens", "no_deck"):
        expect_picture(folder / f"{name}.h5", folder / f"{name}.png")
    assert plot(folder / "one.h5", "--dpi", "60").returncode == 0
    assert (folder / "one.png").exists(), "by default the picture is beside the run file"


def test_several_peers(folder):
    alone = expect_picture(folder / "whole.h5", folder / "alone.png")
    for peers, stages in ((2, 4), (4, 3), (16, 4), (64, 16), (200, 8)):
        run = folder / f"{peers}_on_{stages}.h5"
        write_run(run, 12, peers=peers, stages=stages)
        height = expect_picture(run, run.with_suffix(".png"))
        assert height > alone, f"{run.name} has no panels of its peers"


def test_goodput(folder):
    """The shares of each peer's life, where the run file tells them; of very many peers as well."""
    sys.path.insert(0, str(SCRIPT.parent))
    import peer_panels

    for peers in (4, 200):
        run = folder / f"goodput_{peers}.h5"
        write_run(run, 12, peers=peers, stages=2)
        without = expect_picture(run, run.with_suffix(".png"))
        write_goodput(run, peers)
        assert expect_picture(run, run.with_suffix(".png")) > without, "there is a panel more"
        with h5py.File(run) as file:
            goodput = peer_panels.Goodput(file)
        assert len(goodput) == peers and list(goodput.seconds["repeated"]) == [4.0] * peers
        assert np.allclose(goodput.share(*peer_panels.GOODPUT), 1)
        assert np.isclose(goodput.share("useful", "reduction"), 4 / 36)


def test_of_the_first_version(folder):
    write_run(folder / "first.h5", 8)
    with h5py.File(folder / "first.h5", "a") as file:
        del file["peers/microbatches"]
    expect_picture(folder / "first.h5", folder / "first.png")


def test_bars(folder):
    """The sums behind the bars, told by a peer of two stages and one of a single stage."""
    sys.path.insert(0, str(SCRIPT.parent))
    import peer_panels

    write_run(folder / "bars.h5", 9, peers=2, stages=3)
    with h5py.File(folder / "bars.h5") as file:
        peers = peer_panels.Peers(file["peers"])
    assert list(peers.names) == [0, 1] and list(peers.stages) == [0, 1, 2]
    assert list(peers.totals("microbatches")) == [80, 40]
    assert list(peers.totals("bytes_sent")) == [20e6, 20e6]
    assert list(peers.totals("microbatches", peers.table["stage"] == 2)) == [40, 0]


def test_deaths(folder):
    run, other, picture = folder / "deaths.h5", folder / "whole.h5", folder / "deaths.png"
    write_run(run, 400, peers=6, stages=3)
    write_events(
        run,
        [(0, "leader", 0), (3, "kill", 0), (3.1, "kill", 4), (3.1, "leader", 1), (3.2, "kill", 4)]
        + [(20, "leave", 2), (25, "join", 6), (26, "repair", 1)],
    )
    for arguments in ([run], [run, "--over", other], [other, "--over", run]):
        done = plot(*arguments, "-o", picture, "--dpi", "60", script=DEATHS)
        assert done.returncode == 0, done.stderr
        assert picture.read_bytes()[:4] == b"\x89PNG"
    sys.path.insert(0, str(DEATHS.parent))
    import plot_deaths

    events = plot_deaths.Events(run)
    assert list(events.times_of("kill")) == [3, 3.1], "two leaders may tell of one death"
    assert list(events.new_leaders()) == [3.1]
    assert list(events.peers_of(1, [1, 2])) == [2, 2]
    done = plot(folder / "missing.h5", "-o", picture, script=DEATHS)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr


def test_comparison(folder):
    """Of several runs: what differs in their decks tells them apart, else their paths do."""
    runs = [folder / name / "RUN.h5" for name in ("slow", "fast", "wide")]
    decks = (DECK, DECK + "lr = 0.003\n", DECK.replace("64", "128") + "lr = 0.01\nseed = 2\n")
    for run, deck in zip(runs, decks):
        run.parent.mkdir()
        write_run(run, 120, deck + f'[output]\nrun = "{run}"\n', validation=run != runs[1])
    with h5py.File(runs[2], "a") as file:
        file.attrs["complete"] = "0"
    picture = folder / "comparison.png"
    for files in (runs, runs[:2], runs[:1] * 9):
        done = plot(*files, "-o", picture, "--dpi", "60")
        assert done.returncode == 0, done.stderr
        assert picture.read_bytes()[:4] == b"\x89PNG"
    done = plot(*runs[:2], folder / "missing.h5", "-o", picture)
    assert done.returncode == 2 and "missing.h5" in done.stderr, done.stderr
    sys.path.insert(0, str(SCRIPT.parent))
    import comparison
    from run_file import Run

    opened = [Run(run) for run in runs]
    assert comparison.labels(opened[:2], runs[:2]) == ["train.lr = not set", "train.lr = 0.003"]
    assert comparison.labels(opened, runs) == ["slow", "fast", "wide"], "three keys differ"
    assert comparison.difference_lines(opened) == [
        "model.width: 64 | 64 | 128",
        "train.lr: not set | 0.003 | 0.01",
        "train.seed: not set | not set | 2",
    ]
    assert not comparison.difference_lines(opened[:1] * 2)
    assert comparison.title_of(opened[:2]) == "2 runs that differ in train.lr"
    assert comparison.title_of(opened) == "3 runs"
    assert comparison.result(opened[0]) == f"held out {opened[0].validation['loss'][-1]:.3f}"
    assert comparison.result(opened[2]).endswith("step 120, not complete")
    ends = comparison.short_names([Path("/a/x/1.h5"), Path("/b/x/1.h5"), Path("/b/x/2.h5")])
    assert ends == ["a/x/1.h5", "b/x/1.h5", "b/x/2.h5"]


def test_a_run_that_diverges_hides_no_other(folder):
    import comparison
    from run_file import Run

    paths = [folder / name / "RUN.h5" for name in ("sound", "spiky", "wild", "broken")]
    for path in paths:
        path.parent.mkdir()
        write_run(path, 400, validation=path != paths[1])
    for path, changed in (
        (paths[1], {100: 1e9}),
        (paths[2], {60: 9.0, 61: 3.0} | dict.fromkeys(range(62, 200), 1e18)),
        (paths[3], {60: 40.0}),
    ):
        with h5py.File(path, "a") as file:
            for step, loss in changed.items():
                file["steps/loss"][step] = loss
            if path != paths[1]:
                file["steps/loss"][max(changed) + 1 :] = np.nan
    with h5py.File(paths[2], "a") as file:
        file["validation/loss"][2:] = 1e18
    figure = comparison.draw_comparison([Run(path) for path in paths], paths, None)
    by_step, by_time = figure.axes[:2]
    for axes in (by_step, by_time):
        low, high = axes.get_ylim()
        assert 1 < low < 1.5 and 6 < high < 8, (low, high)
    ends = [text.get_text().partition(": ")[2] for text in by_step.get_legend().get_texts()]
    assert ends[0].startswith("held out 1.") and ends[1].startswith("loss 1."), ends
    assert ends[2:] == ["diverged at step 62", "diverged at step 60"], ends
    assert plot(*paths, "-o", folder / "diverged.png").returncode == 0


def titles_of(figure):
    return [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]


def test_a_simulated_run_has_no_panels_of_what_was_learned(folder):
    import comparison
    import plot_deaths
    import plot_run
    from run_file import Run

    paths = [folder / name / "RUN.h5" for name in ("simulated", "longer")]
    for i, path in enumerate(paths):
        path.parent.mkdir()
        write_simulated(path, 20 + i, peers=4, stages=2)
    run = Run(paths[0])
    assert plot_run.result(run) == "2 layers of 64   ·   step 20 of 400   ·   simulated"
    figure = plot_run.draw_run(run, "simulated")
    titles = titles_of(figure)
    assert titles[0].startswith("Learning rate") and titles[1] == "Tokens per second", titles
    assert "Loss" not in titles and "Gradient norm" not in titles, titles
    assert_inside(figure, "simulated")
    figure = plot_deaths.draw(run, plot_deaths.Events(paths[0]), run, "simulated")
    assert titles_of(figure) == ["Peers of each stage", "Tokens per second"]
    opened = [Run(path) for path in paths]
    figure = comparison.draw_comparison(opened, paths, None)
    assert titles_of(figure) == ["Tokens per second (median)"]
    written = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert written == ["simulated", "longer"], written
    assert_inside(figure, "simulated")
    assert comparison.result(run) == "no loss"
    beside = comparison.draw_comparison([run, Run(folder / "whole.h5")], paths, None)
    assert titles_of(beside)[0].startswith("Training loss")


def test_step_0_is_no_part_of_the_throughput(folder):
    """Also of a file that does not name the steps of /throughput."""
    import plot_run
    from run_file import Run

    for rows in (1, 20):
        path = folder / f"step_0_{rows}.h5"
        write_simulated(path, rows, peers=2)
        run = Run(path)
        drawn = plot_run.draw_run(run, "step 0")
        for title, value in (("Tokens per second", 100), ("Throughput (% of ideal)", 50)):
            (axes,) = (axes for axes in drawn.axes if axes.get_title(loc="left") == title)
            assert len(axes.lines[0].get_ydata()) == rows, title
            if rows > 1:
                assert set(axes.lines[0].get_ydata()) == {value}, title


def test_equal_runs_look_equal_whatever_their_length(folder):
    """But for the end of the shorter one, which does not know how it goes on."""
    import comparison
    import curves
    from run_file import Run

    paths = [folder / f"{rows}_steps" / "RUN.h5" for rows in (400, 1000, 1)]
    for path, rows in zip(paths, (400, 1000, 1)):
        path.parent.mkdir()
        write_run(path, rows, validation=False)
    figure = comparison.draw_comparison([Run(path) for path in paths], paths, None)
    for axes in figure.axes[:2]:
        short, long, single = (
            line for line in axes.lines if not line.get_label().startswith("_child")
        )
        same = 400 - 2 * 1000 // 100
        assert np.array_equal(short.get_ydata()[:same], long.get_ydata()[:same])
        assert not np.array_equal(long.get_ydata(), Run(paths[1]).rows["loss"]), "it is smoothed"
        assert single.get_marker() == "o", "a single value is a dot"


def test_the_legend_hides_no_single_step(folder):
    import plot_run
    from run_file import Run

    path = folder / "clipped.h5"
    write_run(path, 1, DECK.replace("clip = 1.0", "clip = 0.1"), validation=False, events=False)
    with h5py.File(path, "a") as file:
        file["steps/grad_norm"][1] = 1.6
    figure = plot_run.draw_run(Run(path), "clipped")
    figure.canvas.draw()
    axes = figure.axes[1]
    x, y = axes.transData.transform(axes.lines[0].get_xydata()[0])
    assert not axes.get_legend().get_window_extent().padded(3).contains(x, y)


def texts_of(figure):
    """All that is written in a picture: titles, labels, legends, but not the numbers at axes."""
    from matplotlib.axis import Tick
    from matplotlib.text import Text

    numbers = {text for tick in figure.findobj(Tick) for text in tick.findobj(Text)}
    texts = set(figure.findobj(Text)) - numbers
    return [text for text in texts if text.get_visible() and text.get_text()]


def assert_inside(figure, what):
    """Whether all texts are within the picture, and each legend within its panel."""
    figure.canvas.draw()
    whole = figure.bbox.padded(1.0)
    for text in texts_of(figure):
        box = text.get_window_extent()
        inside = whole.containsx(box.x0) and whole.containsx(box.x1) and whole.containsy(box.y1)
        assert inside and whole.containsy(box.y0), f"{what}: {text.get_text()!r} is outside"
    for axes in figure.axes:
        if axes.get_legend() is not None:
            box, panel = axes.get_legend().get_window_extent(), axes.bbox.padded(8.0)
            inside = panel.x0 <= box.x0 and box.x1 <= panel.x1 and box.y0 >= panel.y0
            assert inside and box.y1 <= panel.y1, f"{what}: the legend of {axes.get_title()}"


DEVICES = """
[swarm]
method = "gpipe"
stages = 2
[devices.old]
gflops = 0.5
[devices.new]
gflops = 2
[[peers]]
peers = [1]
device = "old"
[[peers]]
peers = [0, 2, 3]
device = "new"
"""


def slow_run(folder, deaths=()):
    """Four peers of two stages, of which peer 1 takes four times as long; some of them die."""
    folder.mkdir()
    run = folder / "RUN.h5"
    write_run(run, 60, DECK + DEVICES, peers=4, stages=2)
    with h5py.File(run, "a") as file:
        file["peers/useful_s"] = np.where(file["peers/peer"][:] == 1, 0.08, 0.02)
    if deaths:
        write_events(run, [(1.0 + peer, "kill", peer) for peer in deaths])
    return run


def test_what_is_written(folder):
    """The picture says what the run is, who is slow and who died, in its bounds."""
    sys.path.insert(0, str(SCRIPT.parent))
    import plot_run
    from run_file import Run, title_of

    run = slow_run(folder / "a_run", deaths=(2, 2, 3))
    opened = Run(run)
    title = title_of(opened, run)
    assert title == "a_run: GPipe, 2 stages, 4 peers", title
    assert opened.devices() == [
        ("old", "0.5 GFLOP/s", [1]),
        ("new", "2 GFLOP/s", [0, 2, 3]),
    ]
    assert np.allclose(opened.peers.speeds(), [1, 0.25, 1, 1])
    whole_s = 61 * (0.1 + 0.01)  # of each peer
    assert np.allclose(opened.peers.utilisation(), 61 * np.array([2, 8, 2, 2]) / 100 / whole_s)
    figure = plot_run.draw_run(opened, title)
    written = [text.get_text() for text in texts_of(figure)]
    slowest = "slowest: peer 1 (device old), at 25 % of the speed of the fastest in its stage"
    for text in (
        title,
        slowest,
        "old, 0.5 GFLOP/s",
        "Traffic (MiB)",
        "Utilisation (% of its time)",
    ):
        assert text in written, text
    assert any("2 deaths" in text for text in written)
    assert_inside(figure, "slow")
    assert_inside(plot_run.draw_run(opened, "a word " * 30), "a long title")
    plain = folder / "whole.h5"
    assert title_of(Run(plain), plain) == "whole: 1 peer"
    assert not plot_run.slowest(Run(folder / "16_on_4.h5")), "all are about equally fast"
    for name in ("whole", "one", "nan", "4_on_3", "200_on_8"):
        assert_inside(plot_run.draw_run(Run(folder / f"{name}.h5"), name), name)


def test_comparisons_are_inside(folder):
    import comparison
    from run_file import Run

    paths = [folder / f"a_run_with_a_rather_long_name_{i}" / "RUN.h5" for i in range(9)]
    for i, path in enumerate(paths):
        path.parent.mkdir()
        more = "".join(f"key_{n} = {n * i}\n" for n in range(12))
        write_run(path, 30, DECK + more + DEVICES.replace("0.5", f"{1 + i}e-1"))
    for count in (2, 5, 9):
        runs = [Run(path) for path in paths[:count]]
        assert_inside(comparison.draw_comparison(runs, paths[:count], None), f"{count} runs")


def test_low_values_are_not_cut_off():
    """A single low loss is within the axes, a spike need not be."""
    import matplotlib.pyplot as plt
    from curves import limit_y

    _, axes = plt.subplots()
    limit_y(axes, np.array([2.0, 3.0]), np.array([1.0, 9.0, np.nan]))
    assert axes.get_ylim()[0] < 1 and axes.get_ylim()[1] < 9
    plt.close("all")


def test_traffic_is_in_the_units_of_the_summary():
    import peer_panels

    for most, unit in ((0, "B"), (1023, "B"), (1024, "KiB"), (5e6, "MiB"), (2.0**60, "TiB")):
        assert peer_panels.byte_unit(most)[0] == unit, most


def test_deaths_are_told_only_where_some_died(folder):
    import plot_deaths
    from run_file import Run

    for name, deaths, words in (("calm", (), "this run"), ("stormy", (1,), "with deaths")):
        run = slow_run(folder / name, deaths)
        opened = Run(run)
        figure = plot_deaths.draw(opened, plot_deaths.Events(run), opened, "a word " * 30)
        written = [text.get_text() for text in texts_of(figure)]
        assert words in written, written
        assert ("the other run" if deaths else "nobody killed") in written


def test_refused(folder):
    picture = folder / "refused.png"
    whole = (folder / "whole.h5").read_bytes()
    (folder / "cut.h5").write_bytes(whole[: len(whole) // 2])
    (folder / "text.h5").write_text("step,loss\n")
    with h5py.File(folder / "foreign.h5", "w") as file:
        file["weights"] = np.zeros(3)
    with h5py.File(folder / "no_loss.h5", "w") as file, h5py.File(folder / "whole.h5") as source:
        for name in source:
            source.copy(name, file)
        file.attrs.update(source.attrs)
        del file["steps/loss"]
    write_run(folder / "empty.h5", 0)
    expect_refusal(folder / "missing.h5", picture, "cannot read")
    expect_refusal(folder / "cut.h5", picture, "cannot read")
    expect_refusal(folder / "text.h5", picture, "cannot read")
    expect_refusal(folder / "foreign.h5", picture, "not a run file")
    expect_refusal(folder / "no_loss.h5", picture, "not a run file")
    expect_refusal(folder / "empty.h5", picture, "no step to draw")
    expect_refusal(folder / "one.h5", folder / "nowhere" / "one.png", "cannot write")
    expect_refusal(folder, picture, "is a folder: name the run file in it")
    later = folder / "later.h5"
    later.write_bytes(whole)
    with h5py.File(later, "a") as file:
        file.attrs["format"] = "swarmpi run 9"
    version = "later.h5 (`swarmpi run 9`) is in version 9 of its format"
    for script in (SCRIPT, DEATHS):
        expect_refusal(later, picture, version, script=script)
        for dpi in ("0", "100000"):
            reason = f"--dpi must be a whole number from 10 to 1000, not {dpi}"
            expect_refusal(folder / "one.h5", picture, reason, "--dpi", dpi, script=script)
        ending = "no picture ends in .xyz: choose"
        expect_refusal(folder / "one.h5", folder / "one.xyz", ending, script=script)
    with h5py.File(later, "a") as file:
        file.attrs["format"] = "swarmpi stage 1"
    expect_refusal(later, picture, "not a run file of SwarMPI: its format is `swarmpi stage 1`")
    assert not picture.exists()


def test_a_picture_without_an_ending_is_a_png(folder):
    done = plot(folder / "one.h5", "-o", folder / "ending")
    assert done.stdout == f"{folder / 'ending.png'}\n", done.stdout + done.stderr
    assert (folder / "ending.png").read_bytes()[:4] == b"\x89PNG"


def with_python_3_9(script):
    """As if the interpreter were that; the modules that come with it are those of this one."""
    older = (
        "import runpy, sys; sys.version_info = (3, 9, 2); sys.argv = sys.argv[1:]; "
        "sys.path.insert(0, sys.argv[1]); runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", older, str(script), str(script.parent)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_an_older_python_is_refused_in_one_line():
    """Scripts of all kinds; what they import first can be read by the oldest."""
    ast.parse(SCRIPT.with_name("python_version.py").read_text(), feature_version=(3, 4))
    for name in ("plot_run", "hf_export", "hf_import", "tokenize_text"):
        script = SCRIPT.with_name(f"{name}.py")
        done = with_python_3_9(script)
        said = f"{name}.py: needs Python 3.11 or newer, this is 3.9\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", said), done


def main():
    with tempfile.TemporaryDirectory() as name:
        test_drawn(Path(name))
        test_several_peers(Path(name))
        test_goodput(Path(name))
        test_of_the_first_version(Path(name))
        test_bars(Path(name))
        test_deaths(Path(name))
        test_comparison(Path(name))
        test_what_is_written(Path(name))
        test_comparisons_are_inside(Path(name))
        test_low_values_are_not_cut_off()
        test_traffic_is_in_the_units_of_the_summary()
        test_deaths_are_told_only_where_some_died(Path(name))
        test_a_simulated_run_has_no_panels_of_what_was_learned(Path(name))
        test_step_0_is_no_part_of_the_throughput(Path(name))
        test_equal_runs_look_equal_whatever_their_length(Path(name))
        test_the_legend_hides_no_single_step(Path(name))
        test_a_run_that_diverges_hides_no_other(Path(name))
        test_refused(Path(name))
        test_a_picture_without_an_ending_is_a_png(Path(name))
        test_an_older_python_is_refused_in_one_line()
    print("plot_run.py, plot_deaths.py: all good")


if __name__ == "__main__":
    main()
