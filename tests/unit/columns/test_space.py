"""The map of the column space: stable places, made once for a state of the index."""

import numpy as np
import pytest
from harness.columns_lake import describe

from kedro_lakehouse.column_search.space import SPACE, SpaceStore, plane_of
from kedro_lakehouse.column_search.store import SignatureChange, SignatureStore
from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = pytest.mark.unit


def test_near_vectors_lie_near_and_the_places_do_not_depend_on_chance():
    chance = np.random.default_rng(1)
    groups = [chance.normal(centre, 0.1, (20, 8)) for centre in (0.0, 3.0, 9.0)]
    vectors = np.concatenate(groups).astype(np.float32)
    places = plane_of(vectors)
    assert np.array_equal(places, plane_of(vectors))
    assert np.abs(places).max() == pytest.approx(1.0)
    middles = [places[begin : begin + 20].mean(axis=0) for begin in (0, 20, 40)]
    spread = max(np.linalg.norm(places[:20] - middles[0], axis=1))
    assert min(np.linalg.norm(middles[0] - other) for other in middles[1:]) > 3 * spread


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_columns_have_places_too(count):
    assert np.isfinite(plane_of(np.eye(4, dtype=np.float32)[:count])).all()


def test_a_map_is_made_anew_only_where_the_signatures_changed(tmp_path, signatures, embedder):
    uri = f"jdbc:sqlite:file:{tmp_path}/catalog.db"
    conf = {"type": "jdbc", "uri": uri, "warehouse": str(tmp_path)}
    catalog = MetadataCatalog({f"spark.sql.catalog.lake.{k}": v for k, v in conf.items()})
    store, space = SignatureStore(catalog, str(tmp_path / "leases")), SpaceStore(catalog)
    space.rebuild(store)
    assert space.read("hash") == {}
    store.apply(SignatureChange(signatures))
    space.rebuild(store)
    assert set(space.read("hash")) == {one.column_id for one in signatures}
    before = catalog.find(SPACE).metadata_location
    space.rebuild(store)
    assert catalog.find(SPACE).metadata_location == before
    store.apply(SignatureChange(describe(("s", "t"), {"n": [1, 2]}, embedder), {("geo.place.town", "hash")}))
    space.rebuild(store)
    assert "s.t.n" in space.read("hash")
    assert "geo.place.town" not in space.read("hash")
