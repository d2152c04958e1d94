"""Profile graphs: reading, building, refusing."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.theory.local import ProfileGraph

ROWS = {"a": {"x": 0.1, "y": 0.9}, "b": {"y": 0.5, "z": 0.5}, "c": {"x": 1.0}}


def test_missing_categories_have_probability_zero_and_sums_are_exact():
    graph = ProfileGraph(ROWS, [("a", "b")])
    assert graph.categories == ("x", "y", "z")
    assert graph.matrix.tolist() == [[0.1, 0.9, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]
    assert all(sum(row) == 1 for row in graph.exact)
    assert not graph.matrix.flags.writeable


def test_builders():
    assert ProfileGraph.complete(ROWS).edges == (("a", "b"), ("a", "c"), ("b", "c"))
    assert ProfileGraph.chain(ROWS).edges == (("a", "b"), ("b", "c"))
    roles = ProfileGraph.by_attribute(ROWS, {"a": "clerk", "b": "smith", "c": "clerk"})
    assert roles.edges == (("a", "c"),)
    assert sorted(map(len, roles.components)) == [1, 2]
    assert ProfileGraph(ROWS, [("a", "b"), ("b", "a")]).edges == (("a", "b"),)


def test_hops_and_parts():
    graph = ProfileGraph({i: [0.5, 0.5] for i in range(6)}, [(0, 1), (1, 2), (2, 3), (0, 3), (4, 5)])
    assert [graph.hops(0, i) for i in range(6)] == [0, 1, 2, 1, np.inf, np.inf]
    assert graph.components == ((0, 1, 2, 3), (4, 5))


def test_every_form_reads_back_the_same_graph():
    pd, nx = pytest.importorskip("pandas"), pytest.importorskip("networkx")
    graph = ProfileGraph(ROWS, [("a", "b"), ("c", "b")])
    thirds = ProfileGraph({"t": [Fraction(1, 3)] * 3, "u": [1, 0, 0]}, [("t", "u")])
    for one in (graph, thirds):
        assert ProfileGraph.from_dict(json.loads(json.dumps(one.to_dict()))) == one
    frame = pd.DataFrame(graph.matrix, index=list("abc"), columns=list("xyz"))
    assert np.allclose(ProfileGraph.from_frame(frame, graph.edges).matrix, graph.matrix)
    again = ProfileGraph.from_networkx(graph.to_networkx())
    assert again.names == graph.names and set(map(frozenset, again.edges)) == set(map(frozenset, graph.edges))
    assert np.allclose(again.matrix, graph.matrix)
    with pytest.raises(InvalidValue, match="no 'profile' attribute"):
        ProfileGraph.from_networkx(nx.path_graph(2))
    with pytest.raises(InvalidValue, match="each profile once"):
        ProfileGraph.from_frame(pd.DataFrame([[1.0], [1.0]], index=["a", "a"]), [])


def test_equality_and_hash_look_at_content():
    first, second = ProfileGraph(ROWS, [("a", "b")]), ProfileGraph(ROWS, [("b", "a")])
    assert first == second and hash(first) == hash(second)
    assert first != ProfileGraph(ROWS, []) and first != "graph"


@pytest.mark.parametrize(
    ("profiles", "edges", "message"),
    [
        ({}, [], "at least one name"),
        ([[0.5, 0.5]], [], "at least one name"),
        ({"a": []}, [], "at least one category"),
        ({"a": [0.5, 0.4]}, [], "'a' must sum to 1. Got 0.9"),
        ({"a": [1.5, -0.5]}, [], r"in \[0, 1\]. Got 1.5"),
        ({"a": [-1e-12, 1.0]}, [], "Got -1e-12"),
        ({"a": [float("nan"), 1.0]}, [], "no finite number. Got nan"),
        ({"a": [float("inf"), 1.0]}, [], "no finite number"),
        ({"a": ["many", 1.0]}, [], "no finite number. Got 'many'"),
        ({"a": [0.5, 0.5], "b": [1.0]}, [], "needs 2 probabilities"),
        ({"a": [1.0]}, [("a", "b")], "no known profile 'b'"),
        ({"a": [1.0]}, [("a", "a")], "two different profiles"),
        ({"a": [1.0], "b": [1.0]}, ["ab"], "pair of profile names"),
        ({"a": [1.0], "b": [1.0]}, [("a", "b", "a")], "pair of profile names"),
    ],
)
def test_bad_graphs_are_named(profiles, edges, message):
    with pytest.raises(InvalidValue, match=message):
        ProfileGraph(profiles, edges)


def test_bad_labels_are_named():
    with pytest.raises(InvalidValue, match="distinct"):
        ProfileGraph({"a": [0.5, 0.5]}, [], ["x", "x"])
    with pytest.raises(InvalidValue, match="category 'q'"):
        ProfileGraph({"a": {"q": 1.0}}, [], ["x", "y"])
    with pytest.raises(InvalidValue, match="no attribute for profile 'b'"):
        ProfileGraph.by_attribute(ROWS, {"a": 1, "c": 1})
    with pytest.raises(InvalidValue, match="no profile is called 'q'"):
        ProfileGraph(ROWS, []).index("q")
    with pytest.raises(InvalidValue, match='has "profiles"'):
        ProfileGraph.from_dict({"edges": []})
    with pytest.raises(InvalidValue, match="'complete' or 'chain'"):
        ProfileGraph.from_dict({"profiles": ROWS, "edges": "ring"})


def test_pictures_show_every_profile():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    graph = ProfileGraph(ROWS, [("a", "b"), ("a", "c")])
    ax = graph.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]
    assert sum(type(patch).__name__ == "Arc" for patch in ax.patches) == 2
    plt.close("all")
