"""The figures of the view's frames: a made-up cluster is drawn as it is, and the page compares with the smallest."""

from __future__ import annotations

from bench.view_runs.frames import Figures, dump, measure, page


def test_clusters_of_the_sizes_asked_for_are_read_and_drawn() -> None:
    kinds = [each["kind"] for each in dump(3, 2)["objects"]]
    assert (kinds.count("Node"), kinds.count("Pod")) == (3, 6)
    figures = measure(3, 2)
    assert (figures.nodes, figures.pods) == (3, 6)
    assert min(figures.first, figures.frame, figures.reading) > 0


def test_frames_are_compared_with_those_of_the_fewest_nodes() -> None:
    written = page([Figures(25, 500, 0.0004, 0.04, 0.003), Figures(500, 10_000, 0.0002, 0.05, 0.064)])
    assert written.endswith("| 25 | 500 | 0.4 | 40 | 1.0 | 3 |\n| 500 | 10,000 | 0.2 | 50 | 1.2 | 64 |\n")
