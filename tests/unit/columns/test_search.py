"""What a search finds, in which order, and what it says of it; with the test embedder."""

import numpy as np
import pytest
from harness.columns_lake import describe

import kedro_lakehouse.column_search.search as module
from kedro_lakehouse.column_search.results import ColumnFilter
from kedro_lakehouse.column_search.scorer import (
    FEATURES,
    WEIGHTS,
    best_pairs,
    one_to_one,
    score_column,
    unionability,
)
from kedro_lakehouse.errors import ColumnNotFoundError

pytestmark = pytest.mark.unit


def ids(hits):
    return [hit.column_id for hit in hits]


def test_weights_are_of_every_feature_and_sum_to_one():
    assert set(WEIGHTS) == set(FEATURES)
    assert sum(WEIGHTS.values()) == pytest.approx(1)


def test_the_exact_name_comes_first(search):
    assert ids(search.by_text("ZCODE", k=2))[0] == "geo.place.zcode"
    assert search.by_text("zcode")[0].why["exact name"] == 1


@pytest.mark.parametrize("mode", ["name", "content", "both", "hybrid"])
def test_every_mode_answers_with_k_hits_in_order(search, mode):
    hits = search.by_text("zip code", k=3, mode=mode)
    assert len(hits) == 3
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


def test_a_column_with_the_same_values_is_found_whatever_its_name(search):
    hit = search.like(search.column("geo.place.town"), k=1)[0]
    assert hit.column_id == "shop.customer.city"
    assert set(hit.shared) <= {"Berlin", "Bonn", "Bremen", "Hamburg", "Kiel", "Mainz"}
    assert hit.shared
    assert hit.why["containment"] > 0
    assert sum(hit.why.values()) == pytest.approx(hit.score, abs=1e-3)


def test_a_column_does_not_find_itself(search):
    assert "geo.place.town" not in ids(search.like(search.column("geo.place.town"), k=100))


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (ColumnFilter(namespaces=("geo",)), {"geo.place.town", "geo.place.zcode"}),
        (ColumnFilter(tables=("shop.purchase",)), {"shop.purchase.customer_id", "shop.purchase.amount"}),
        (ColumnFilter(kinds=("decimal",)), {"shop.purchase.amount"}),
        (ColumnFilter(tags=("master",), personal=False), {"shop.customer.id", "shop.customer.city"}),
        (ColumnFilter(personal=True), {"shop.customer.email"}),
        (ColumnFilter(namespaces=("none",)), set()),
    ],
)
def test_filters_let_only_what_they_say(search, where, found):
    assert set(ids(search.by_text("city", k=100, where=where))) == found


def test_private_values_are_never_told(search):
    hit = search.by_text("email", k=1)[0]
    assert (hit.column, hit.personal, hit.sample, hit.shared) == ("email", True, (), ())
    assert "@mail.org" not in repr(hit)


def test_joins_need_common_values_and_prefer_keys(search):
    joins = search.joinable(search.column("shop.purchase.customer_id"))
    assert joins[0].hit.column_id == "shop.customer.id"
    assert (joins[0].containment, joins[0].distinctness) == (1, 1)
    assert all(join.containment > 0 for join in joins)


def test_a_union_pairs_columns_one_to_one(search, embedder):
    asking = describe(
        ("q", "towns"), {"place": ["Bonn", "Kiel", "Essen"], "zip": ["10001", "10002", "20000"]}, embedder
    )
    best = search.unionable(asking)[0]
    assert (best.namespace, best.table) == ("geo", "place")
    assert {(own, hit.column) for own, hit in best.pairs} == {("place", "town"), ("zip", "zcode")}


def test_a_files_columns_find_their_like(search, embedder):
    asking = describe(("q", "towns"), {"place": ["Bonn", "Kiel", "Essen"], "code": [1, 2, 3]}, embedder)
    (name, hits), _ = search.by_columns(asking, k=2)
    assert name == "place"
    assert ids(hits)[0] == "geo.place.town"


def test_an_unknown_column_is_told_with_the_nearest(search):
    with pytest.raises(ColumnNotFoundError, match=r"Did you mean 'geo\.place\.town'"):
        search.column("geo.place.towns")
    with pytest.raises(ColumnNotFoundError):
        search.table("geo.nowhere")


def test_candidates_lead_to_the_same_best_hit_as_all_columns(search, monkeypatch):
    asking = [search.column(name) for name in ("geo.place.town", "shop.purchase.customer_id")]
    whole = [ids(search.like(one, k=1)) for one in asking]
    monkeypatch.setattr(module, "CANDIDATES", 3)
    assert [ids(search.like(one, k=1)) for one in asking] == whole


def test_features_lie_between_zero_and_one(search):
    rows = np.arange(len(search.corpus))
    for one in search.corpus.signatures:
        for feature in FEATURES:
            found = score_column(one, search.corpus, rows, {feature: 1.0}).total
            assert found.shape == rows.shape
            assert ((found >= 0) & (found <= 1 + 1e-6)).all(), feature


def test_a_column_is_most_like_itself(search):
    rows = np.arange(len(search.corpus))
    for place, one in enumerate(search.corpus.signatures):
        assert score_column(one, search.corpus, rows).top(1)[0] == place


def test_one_to_one_prefers_who_prefers_back():
    scores = np.array([[0.9, 0.8], [0.9, 0.1]])
    assert one_to_one(scores)[1, 0] > one_to_one(scores)[0, 0]
    assert best_pairs(scores) == [(0, 0), (1, 1)]
    assert unionability(np.eye(3))[0] == pytest.approx(1)
