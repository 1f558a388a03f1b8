"""Tables in files of every kind."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kedro_lakehouse.column_search.files import read_batches, table_files
from kedro_lakehouse.column_search.survey import file_tables, survey
from kedro_lakehouse.errors import UnreadableFileError

pytestmark = pytest.mark.unit

ROWS = [{"id": 1, "city": "Köln"}, {"id": 2, "city": None}]


def rows_of(path):
    return [row for batch in read_batches(path) for row in batch.to_pylist()]


def test_json_ndjson_and_parquet_hold_the_same_rows(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(ROWS), encoding="utf-8")
    (tmp_path / "b.ndjson").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "c.parquet")
    for path in table_files(tmp_path):
        assert rows_of(path) == ROWS, path.name


def test_csv_is_read_as_text_whatever_its_dialect(tmp_path):
    (tmp_path / "a.csv").write_text(
        '\ufeffid;city;city;\n1;"Bad; Ems";x;\n2;NA;;\nragged\n', encoding="utf-8"
    )
    with gzip.open(tmp_path / "b.tsv.gz", "wt", encoding="utf-8") as out:
        out.write("id\tcity\n007\tBonn\n")
    assert rows_of(tmp_path / "a.csv") == [
        {"id": "1", "city": "Bad; Ems", "city_3": "x", "column_4": None},
        {"id": "2", "city": None, "city_3": None, "column_4": None},
        {"id": "ragged", "city": None, "city_3": None, "column_4": None},
    ]
    assert rows_of(tmp_path / "b.tsv.gz") == [{"id": "007", "city": "Bonn"}]


def test_a_csv_without_rows_has_its_columns(tmp_path):
    (tmp_path / "a.csv").write_text("id,city\n", encoding="utf-8")
    assert [batch.schema.names for batch in read_batches(tmp_path / "a.csv")] == [["id", "city"]]


def test_an_empty_csv_has_no_columns(tmp_path):
    (tmp_path / "a.csv").touch()
    assert rows_of(tmp_path / "a.csv") == []


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.parquet", b"PAR1"), ("b.json", b"[{"), ("c.ndjson", b"{}}"), ("d.csv", b"a,b\n\xff\xfe,1\n")],
)
def test_a_damaged_file_is_named_without_its_values(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableFileError) as error:
        rows_of(tmp_path / name)
    assert name in str(error.value)


def test_a_path_that_is_no_table_is_refused(tmp_path):
    (tmp_path / "a.xlsx").touch()
    for path in (tmp_path / "a.xlsx", tmp_path / "gone.csv"):
        with pytest.raises(UnreadableFileError):
            table_files(path)


def test_files_have_names_of_their_own(tmp_path):
    for name in ("x/City List.csv", "x/deep/city-list.csv", "y/city list.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a\n1\n", encoding="utf-8")
    found = file_tables([str(tmp_path / "x"), str(tmp_path / "y"), str(tmp_path / "gone")])
    names = [table.table for table in found]
    assert names[:2] == ["city_list", "deep_city_list"]
    assert names[2].startswith("city_list_")
    assert len(set(names)) == 3


def test_only_what_changed_is_surveyed(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("x\n1\n", encoding="utf-8")
    tables = file_tables([str(tmp_path)])
    standing = [
        {"column_id": f"files.{t.table}.x", "model_id": "m", "location": t.location, "version": t.version}
        for t in tables
    ]
    assert survey(tables, standing, ["m"]).changed == []
    assert survey(tables, standing, ["m", "new"]).changed == tables
    (tmp_path / "b.csv").write_text("x\n1\n2\n", encoding="utf-8")
    (tmp_path / "a.csv").unlink()
    later = survey(file_tables([str(tmp_path)]), standing, ["m"])
    assert [table.table for table in later.changed] == ["b"]
    assert later.gone == {("files.a.x", "m")}
