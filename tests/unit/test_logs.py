"""Lines that say what they are about, whichever thread writes them; the logs that are kept."""

import datetime as dt
import json
import logging
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from kedro.io import DataCatalog, MemoryDataset
from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.errors import LogNotFoundError, RunNotFoundError
from kedro_lakehouse.hooks import LakehouseHooks
from kedro_lakehouse.logs.context import RunContext, at_work_on, turn_to, working_on
from kedro_lakehouse.logs.kept import find_logs, kept_logs, read_lines
from kedro_lakehouse.logs.lines import JsonFormatter, without_secrets
from kedro_lakehouse.logs.scheduler import SchedulerRun, cloudwatch_query, fit
from kedro_lakehouse.monitoring.run_log import FORMAT, RunLog
from kedro_lakehouse.ops.failures import TablesFailedError
from kedro_lakehouse.ops.report import CommitReport
from kedro_lakehouse.runners import IsolatingThreadRunner

pytestmark = pytest.mark.unit

RUN = "manual__2022-07-12T00:22:36.111190+00:00"
PARAMETERS = {"dag_name": "data_pipeline", "task_id": "glue_task", "correlation_id": RUN}
AIRFLOW = {
    "AIRFLOW_CTX_DAG_ID": "other", "AIRFLOW_CTX_TASK_ID": "task", "AIRFLOW_CTX_DAG_RUN_ID": "scheduled__1",
}  # fmt: skip
CONTEXT = RunContext(run_id="r1", correlation_id=f"data_pipeline.glue_task {RUN}", pipeline="ingestion")


@pytest.fixture(autouse=True)
def no_scheduler(monkeypatch):
    for name in (*AIRFLOW, FORMAT):
        monkeypatch.delenv(name, raising=False)
    yield
    turn_to()


class FakeProject(SimpleNamespace):
    """What a run's log needs of a project."""

    def __init__(self, logs, run_id="r1"):
        places = {"logs": str(logs), "lakehouse": str(Path(logs).parent)}
        super().__init__(**places, log_folder=None, run_id=run_id, env="local", run=None)

    def unlabel(self):
        """There is no JVM here."""


def test_a_scheduled_run_has_one_id_and_names_made_of_it():
    run = SchedulerRun.of(PARAMETERS, AIRFLOW)
    assert run.correlation_id == f"data_pipeline.glue_task {RUN}"
    assert run.cluster_name == f"data_pipeline.glue_task-{RUN}"
    assert run.log_folder == f"logs/emr/data_pipeline/glue_task/{RUN}"
    arguments = run.step_arguments()
    assert arguments == [
        "--dag_name", "data_pipeline", "--task_id", "glue_task", "--correlation_id", RUN,
    ]  # fmt: skip
    given = dict(zip((a.removeprefix("--") for a in arguments[::2]), arguments[1::2], strict=True))
    assert SchedulerRun.of(given, {}) == run


@pytest.mark.parametrize(
    ("parameters", "environment", "expected"),
    [
        ({}, AIRFLOW, "other.task scheduled__1"),
        ({"task_id": "mine"}, AIRFLOW, "other.task scheduled__1"),
        ({"task_id": "mine"}, {}, None),
        ({}, {"AIRFLOW_CTX_DAG_ID": "other"}, None),
    ],
)
def test_the_id_is_taken_whole_from_one_place(parameters, environment, expected):
    run = SchedulerRun.of(parameters, environment)
    assert (run and run.correlation_id) == expected


def test_a_name_from_outside_forges_no_line():
    assert fit('a"\n{b} ${sys:x}') == "a___b____sys:x_"
    assert len(fit("x" * 900)) == 250


def test_the_query_for_cloudwatch_quotes_what_it_looks_for():
    assert '| filter @message like "a\\"b"' in cloudwatch_query('a"b')


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("password=hidden, user=me", "password=***, user=me"),
        ('{"aws_secret_access_key": "hi den", "x": 1}', '{"aws_secret_access_key": ***, "x": 1}'),
        ("jdbc:postgresql://me:hidden@host:5432/db", "jdbc:postgresql://***@host:5432/db"),
        ("as AKIAABCDEFGHIJKLMNOP", "as ***"),
        ("batch token 5: 3 keys", "batch token 5: 3 keys"),
    ],
)
def test_credentials_do_not_reach_a_line(text, left):
    assert without_secrets(text) == left


def record(message="m", error=None, **extra):
    made = logging.LogRecord("kedro_lakehouse.x", logging.INFO, __file__, 1, message, (), None)
    if error is not None:
        made.exc_info = (type(error), error, error.__traceback__)
    vars(made).update(extra)
    return made


def test_a_line_names_run_pipeline_table_and_batch():
    with working_on(node="shop.item.merge", table="shop.item"), working_on(batch=3):
        line = json.loads(JsonFormatter(CONTEXT).format(record()))
    time = dt.datetime.fromisoformat(line.pop("time"))
    assert abs(dt.datetime.now(dt.UTC) - time) < dt.timedelta(minutes=1)
    assert line == {
        "level": "INFO", "origin": "python", "logger": "kedro_lakehouse.x", "message": "m", "run_id": "r1",
        "correlation_id": CONTEXT.correlation_id, "pipeline": "ingestion", "node": "shop.item.merge",
        "table": "shop.item", "batch": 3,
    }  # fmt: skip
    assert at_work_on() == {"node": None, "table": None, "batch": None}


def test_a_line_tells_of_an_error_without_its_values():
    of_spark = type("NumberFormatException", (Exception,), {"__module__": "pyspark.errors"})

    def fail():
        raise RuntimeError from of_spark("[FAILED_EXECUTE_UDF] The value 'CANARY'")

    with pytest.raises(RuntimeError) as raised:
        fail()
    found = JsonFormatter(CONTEXT).format(record(error=raised.value))
    assert "CANARY" not in found
    assert json.loads(found)["error"] == "NumberFormatException: FAILED_EXECUTE_UDF"
    assert json.loads(found)["stack"][-1].startswith("test_logs.py:")


def test_a_record_that_names_its_table_is_believed():
    line = json.loads(JsonFormatter(CONTEXT).format(record(table="shop.item", batch=7)))
    assert (line["table"], line["batch"]) == ("shop.item", 7)


def lines_of(folder):
    return [json.loads(line) for f in sorted(folder.glob("*.jsonl")) for line in f.read_text().splitlines()]


@pytest.mark.parametrize("switch", ["json", "text"])
def test_console_carries_the_id_under_a_scheduler_and_logging_is_as_before_afterwards(
    tmp_path, monkeypatch, capsys, switch
):
    monkeypatch.setenv(FORMAT, switch)
    console = logging.StreamHandler()
    console.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [console])
    monkeypatch.setattr(root, "level", logging.INFO)
    with RunLog(FakeProject(tmp_path / "logs"), {"runtime_params": PARAMETERS, "pipeline_names": ["a", "b"]}):
        logging.getLogger("anybody").warning("two\nlines")
    logging.getLogger("anybody").warning("after")
    *told, last = [line for line in capsys.readouterr().err.splitlines() if "Run r1" not in line]
    assert last == "WARNING after"
    if switch == "json":
        assert json.loads(told[0])["message"] == "two\nlines"
        assert all(CONTEXT.correlation_id == json.loads(line)["correlation_id"] for line in told)
    else:
        id_ = CONTEXT.correlation_id
        assert told == [f"[{id_}] WARNING two", f"[{id_}] lines"]
    kept = lines_of(tmp_path / "logs")
    assert [line["message"] for line in kept] == ["Run r1: a+b, environment local", "two\nlines"]
    assert {(line["pipeline"], line["correlation_id"]) for line in kept} == {("a+b", CONTEXT.correlation_id)}


def test_a_full_log_says_so_and_takes_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr("kedro_lakehouse.monitoring.run_log._LARGEST", 400)
    with RunLog(FakeProject(tmp_path), {}):
        for n in range(10):
            logging.getLogger("anybody").error("line %s", n)
    messages = [line["message"] for line in lines_of(tmp_path)]
    assert messages[-1] == "The log is full: later lines are not kept."
    assert len(messages) < 6


def test_logs_of_the_last_runs_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("kedro_lakehouse.monitoring.run_log._KEPT_RUNS", 3)
    for n in range(5):
        with RunLog(FakeProject(tmp_path, f"r{n}"), {}):
            (tmp_path / f"r{n}.jvm.jsonl").write_text("", encoding="utf-8")
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == [f"r{n}.{kind}" for n in (2, 3, 4) for kind in ("jsonl", "jvm.jsonl")]


def keep(folder: Path, run_id: str, correlation_id: str, *times: str) -> None:
    def line(time, **more):
        return json.dumps({"time": time, "run_id": run_id, "correlation_id": correlation_id, **more}) + "\n"

    text = "".join(line(f"2026-01-01T00:00:{time}.000Z", origin="python", batch=None) for time in times)
    (folder / f"{run_id}.jsonl").write_text(text + '{"time": "cut o', encoding="utf-8")
    jvm = line("2026-01-01T00:00:02.500Z", origin="jvm", batch="3", table="")
    (folder / f"{run_id}.jvm.jsonl").write_text(jvm, encoding="utf-8")


@pytest.mark.parametrize(
    ("wanted", "runs"),
    [
        ("manual__1", ["r1", "r2"]), ("dag.one manual__1", ["r1"]), ("dag.one", ["r1", "r3"]),
        ("r2", ["r2"]), ("r4", ["r4"]), (None, ["r4"]),
    ],
)  # fmt: skip
def test_an_id_means_a_run_a_scheduled_run_or_a_task(tmp_path, wanted, runs):
    ids = {"r1": "dag.one manual__1", "r2": "dag.two manual__1", "r3": "dag.one manual__2", "r4": "r4"}
    for run_id, correlation_id in ids.items():
        keep(tmp_path, run_id, correlation_id, "01")
    assert [log.run_id for log in find_logs(str(tmp_path), wanted)] == runs


def test_the_beginning_of_a_runs_name_is_enough_if_only_one_begins_so(tmp_path):
    for run_id in ("20261121T01_a", "20261122T01_b", "20261122T02_c"):
        keep(tmp_path, run_id, run_id, "01")
    assert [log.run_id for log in find_logs(str(tmp_path), "20261121")] == ["20261121T01_a"]
    with pytest.raises(RunNotFoundError, match="begins with 20261122; there are: 20261122T02_c, 20261122T01"):
        find_logs(str(tmp_path), "20261122")
    with pytest.raises(LogNotFoundError):
        find_logs(str(tmp_path), "2027")


def test_lines_of_python_and_the_jvm_come_by_time(tmp_path):
    keep(tmp_path, "r1", "dag.one manual__1", "01", "03")
    keep(tmp_path, "r2", "dag.two manual__1", "02", "04")
    lines = read_lines(kept_logs(str(tmp_path)))
    assert [line["time"][17:21] for line in lines] == ["01.0", "02.0", "02.5", "02.5", "03.0", "04.0"]
    assert (lines[2]["batch"], lines[2]["table"]) == (3, None)


def test_a_log_that_is_not_kept_is_an_error(tmp_path):
    with pytest.raises(LogNotFoundError, match="the last run"):
        find_logs(str(tmp_path / "nowhere"), None)


def test_lines_of_tables_side_by_side_name_their_own(tmp_path):
    tables, meet = [f"shop.t{n}" for n in range(4)], threading.Barrier(4, timeout=10)

    def work(name: str) -> str:
        log = logging.getLogger("kedro_lakehouse.test")
        for n in range(20):
            meet.wait()
            with working_on(batch=n):
                log.info("%s %s", name, n)
        if name == "shop.t3":
            raise ValueError(name)
        return name

    nodes = [Node(work, f"{t}.in", f"{t}.out", name="work", namespace=t) for t in tables]
    outputs = {f"{t}.out": MemoryDataset() for t in tables}
    catalog = DataCatalog({f"{t}.in": MemoryDataset(t) for t in tables} | outputs)
    hooks = LakehouseHooks()
    hooks._log = RunLog(FakeProject(tmp_path), {}).open()

    class Manager:
        """Kedro's hooks, of which one matters here."""

        hook = SimpleNamespace(
            before_dataset_loaded=lambda dataset_name, node: hooks.before_dataset_loaded(node),
            **dict.fromkeys(
                (
                    "after_dataset_loaded", "before_node_run", "after_node_run", "on_node_error",
                    "before_dataset_saved", "after_dataset_saved",
                ),
                lambda **_: None,
            ),
        )  # fmt: skip

    with pytest.raises(TablesFailedError):
        IsolatingThreadRunner(max_workers=4)._run(Pipeline(nodes), catalog, Manager())
    hooks._close_log()
    told = [line for line in lines_of(tmp_path) if line["logger"] == "kedro_lakehouse.test"]
    assert len(told) == 80
    assert all(line["message"] == f"{line['table']} {line['batch']}" for line in told)
    (failed,) = [line for line in lines_of(tmp_path) if line["logger"] == "kedro_lakehouse.runners"]
    assert (failed["table"], failed["node"]) == ("shop.t3", "shop.t3.work")


def test_a_bookmark_of_an_earlier_version_has_no_id():
    text = json.dumps(
        {
            "table": "a.b", "stage": "current", "batch": 1, "batches": 1, "content_hash": "x", "run_id": "r",
            "committed_at": "2026-01-01T00:00:00.000+00:00",
        }
    )  # fmt: skip
    report = CommitReport.from_property(text)
    assert report.correlation_id is None
    assert report.row(1)["correlation_id"] is None
