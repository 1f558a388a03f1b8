"""A project that tells what happens, through three runs: by mail and webhook, by metrics, by lineage."""

import contextlib
import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from harness.planned import as_planned
from harness.project import TemporaryProject, write_text
from harness.servers import http_server, smtp_server

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.ops.store import ALERTS

pytestmark = pytest.mark.e2e

TABLES = {
    # renamed and typed
    "crm.master": {
        "source": "crm", "keys": ["customer_id"], "order_by": ["audited_at"], "history": True,
        "rename": {"row_audit_ts": "audited_at", "mail": "email", "email_id": "email"},
        "types": {"customer_id": "bigint", "audited_at": "timestamp"},
    },
    # plain
    "crm.address": {
        "source": "crm", "keys": ["customer_id"], "order_by": ["row_audit_ts"], "max_invalid_fraction": 0.6,
    },
    # derived, with a view
    "crm.customer": {
        "derive": {
            "inputs": {"m": "crm.master", "a": "crm.address"},
            "sql": "select m.customer_id, upper(m.email) as email, max(city) as city from m left join a "
            "on m.customer_id = a.customer_id where m.name is not null group by m.customer_id, m.email",
        },
        "keys": ["customer_id"],
        "history": {"view": {"name": "dim_customer", "effective_from": "since"}},
    },
}  # fmt: skip
FIRST = {
    "master/1.csv": "customer_id,name,email_id,row_audit_ts\n1,Ada,a@x,2022-07-01 00:00:00\n"
    "CANARY,Bob,,2022-07-01 00:00:00\n",
    "address/1.csv": "customer_id,city,row_audit_ts\n1,Ulm,2022-07-01\n,Bonn,2022-07-02\n",
    "address/2.csv": "customer_id,city,row_audit_ts\n,Kiel,2022-07-03\n,Jena,2022-07-04\n",
}  # fmt: skip
CORRECTED = {"address/2.csv": "customer_id,city,row_audit_ts\n1,Kiel,2022-07-03\n,Jena,2022-07-04\n"}

# By hand: each stored column, the column that it is made of, and how.
COLUMNS = {
    "crm.master_changes": {
        "customer_id < master.customer_id TRANSFORMATION", "name < master.name IDENTITY",
        "email < master.email_id IDENTITY", "audited_at < master.row_audit_ts TRANSFORMATION",
        "_order < master.row_audit_ts TRANSFORMATION", "_time < master.row_audit_ts TRANSFORMATION",
    },
    "crm.master": {
        "customer_id < crm.master_changes.customer_id IDENTITY", "name < crm.master_changes.name IDENTITY",
        "email < crm.master_changes.email IDENTITY", "audited_at < crm.master_changes.audited_at IDENTITY",
        "_order < crm.master_changes._order IDENTITY",
        "* < crm.master_changes.customer_id GROUP_BY", "* < crm.master_changes._order SORT",
        "* < crm.master_changes._op FILTER",
    },
    "crm.master_history": {
        "customer_id < crm.master_changes.customer_id IDENTITY", "name < crm.master_changes.name IDENTITY",
        "email < crm.master_changes.email IDENTITY", "audited_at < crm.master_changes.audited_at IDENTITY",
        "_order_from < crm.master_changes._order IDENTITY", "_order_to < crm.master_changes._order IDENTITY",
        "_order_last < crm.master_changes._order IDENTITY",
        "effective_from < crm.master_changes._time IDENTITY",
        "effective_to < crm.master_changes._time TRANSFORMATION",
        "is_current < crm.master_changes._op TRANSFORMATION",
        "* < crm.master_changes.customer_id GROUP_BY", "* < crm.master_changes._order SORT",
        "* < crm.master_changes._op FILTER",
    },
    "crm.address_changes": {
        "customer_id < address.customer_id IDENTITY", "city < address.city IDENTITY",
        "row_audit_ts < address.row_audit_ts IDENTITY", "_order < address.row_audit_ts IDENTITY",
        "_time < address.row_audit_ts IDENTITY",
    },
    "crm.address": {
        "customer_id < crm.address_changes.customer_id IDENTITY", "city < crm.address_changes.city IDENTITY",
        "row_audit_ts < crm.address_changes.row_audit_ts IDENTITY",
        "_order < crm.address_changes._order IDENTITY",
        "* < crm.address_changes.customer_id GROUP_BY", "* < crm.address_changes._order SORT",
        "* < crm.address_changes._op FILTER",
    },
    "crm.customer_changes": {
        "customer_id < crm.master.customer_id IDENTITY", "email < crm.master.email TRANSFORMATION",
        "city < crm.address.city AGGREGATION",
        "* < crm.master.customer_id JOIN", "* < crm.address.customer_id JOIN", "* < crm.master.name FILTER",
        "* < crm.master.customer_id GROUP_BY", "* < crm.master.email GROUP_BY",
    },
    "crm.dim_customer": {
        "customer_id < crm.customer_history.customer_id IDENTITY",
        "email < crm.customer_history.email IDENTITY", "city < crm.customer_history.city IDENTITY",
        "since < crm.customer_history.effective_from IDENTITY",
        "effective_to < crm.customer_history.effective_to TRANSFORMATION",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What was told of a run in which a table fails, of the one that mends it, and of one without news."""
    root = tmp_path_factory.mktemp("told")
    source = {"type": "changes", "path": str(root / "project/landing"), "pattern": "*.csv"}
    project = TemporaryProject.make(
        root / "project", {"crm": source | {"file_format": "csv", "max_files": 1}}, TABLES
    )
    files = {"metrics": root / "lake.prom", "lineage": root / "lineage.jsonl"}
    found = {"project": project, "metrics": [], "alerts": []}
    with smtp_server() as box, http_server() as hook:
        mail = {"type": "email", "host": box.host, "port": box.port, "security": "none"}
        project.write(
            "monitoring",
            {
                "notifiers": {
                    "team": mail | {"from": "lake@example.com", "to": ["data@example.com"]},
                    "chat": {"type": "webhook", "url": hook.url},
                },
                "metrics": {"path": str(files["metrics"])},
                "lineage": {"file": str(files["lineage"])},
            },
        )
        for landed in (FIRST, CORRECTED, {}):
            for name, text in landed.items():
                write_text(project.landing / name, text)
            # Which records are invalid, with which the first run fails, no plan knows.
            with contextlib.nullcontext() if landed is FIRST else as_planned(project):
                project.attempt()
            found["metrics"].append((files["metrics"].stat().st_mtime_ns, files["metrics"].read_text()))
            found["alerts"].append(project.ops(ALERTS))
    events = [json.loads(line) for line in files["lineage"].read_text().splitlines()]
    return found | {"mails": box.mails, "posts": hook.bodies, "events": events}


def commands_of(mail, headline):
    """The commands that a mail gives below one of its headlines."""
    text = "\n".join(mail.get_content().splitlines())
    block = text.split(f"\n{headline}", 1)[1].split("\n\n", 1)[0]
    return [line.strip() for line in block.splitlines() if line.startswith("    ")]


def test_a_mail_leads_to_the_raw_record_in_three_commands(told, monkeypatch):
    failed, mended = told["mails"]
    monkeypatch.chdir(told["project"].path)
    run_id = told["posts"][0]["run_id"]
    assert f"Run {run_id}, environment local." in failed.get_content()
    for headline, raw in (
        ("crm.master has quarantined events [QUARANTINED]", "CANARY"),
        ("crm.address failing [TOO_MANY_INVALID]", "Bonn"),
    ):
        commands = commands_of(failed, headline)
        assert len(commands) == 3
        shown = []
        for command in commands:
            kedro, group, *words = shlex.split(command)
            assert (kedro, group) == ("kedro", "lakehouse")
            done = CliRunner().invoke(lakehouse, words)
            assert done.exit_code == 0, done.output
            shown.append(done.output)
        assert run_id in shown[0]
        assert "TOO_MANY_INVALID" in shown[0]
        assert raw not in shown[0] + shown[1]
        assert raw in shown[2]
    assert "CANARY" not in failed.get_content()
    assert "crm.address recovered" in mended.get_content()


def test_each_crossing_is_told_once_to_each_notifier(told):
    assert [[(a["kind"], a["subject"], a["state"]) for a in post["alerts"]] for post in told["posts"]] == [
        [
            ("failure", "crm.address", "raised"),
            ("quarantine", "crm.address", "raised"),
            ("quarantine", "crm.master", "raised"),
        ],
        [("failure", "crm.address", "cleared")],
    ]
    assert len(told["mails"]) == 2


def test_a_run_without_news_writes_no_alert_and_no_metric(told):
    assert [len(rows) for rows in told["alerts"]] == [6, 8, 8]
    assert told["metrics"][1] == told["metrics"][2]


def test_metrics_tell_the_tables_and_the_failed_run(told):
    first, second = told["metrics"][0][1], told["metrics"][1][1]
    assert 'kedro_lakehouse_run_success{env="local"} 0' in first
    assert 'kedro_lakehouse_run_success{env="local"} 1' in second
    assert 'kedro_lakehouse_table_rows{env="local",table="crm.master",role="current"} 1' in first
    assert 'kedro_lakehouse_table_quarantined_rows{env="local",table="crm.address"} 2' in second
    assert 'kedro_lakehouse_table_bookmark_batch{env="local",table="crm.address",role="changes"} 2' in second


def column_lineage(events, landing):
    """What the events' facets say, with each dataset by its short name."""
    names = {}
    for event in events:
        for dataset in event["inputs"] + event["outputs"]:
            for link in dataset["facets"].get("symlinks", {}).get("identifiers", []):
                names[dataset["namespace"], dataset["name"]] = link["name"]

    def short(dataset):
        place = dataset["namespace"], dataset["name"]
        return names.get(place) or Path(place[1].removeprefix(f"{landing}/")).name

    found = {}
    for event in events:
        for dataset in event["outputs"]:
            facet = dataset["facets"].get("columnLineage")
            if facet is None or event["eventType"] != "COMPLETE":
                continue
            made_of = {name: fields["inputFields"] for name, fields in facet["fields"].items()}
            for name, inputs in (made_of | {"*": facet["dataset"]}).items():
                for one in inputs:
                    how = one["transformations"][0]["subtype"]
                    found.setdefault(short(dataset), set()).add(f"{name} < {short(one)}.{one['field']} {how}")
    return found


def test_columns_come_from_where_a_person_says_they_come(told):
    found = column_lineage(told["events"], told["project"].landing)
    assert {name: found.get(name) for name in COLUMNS} == COLUMNS


def test_every_run_of_a_job_has_its_start_and_its_end(told):
    states = {}
    for event in told["events"]:
        states.setdefault(event["run"]["runId"], []).append(event["eventType"])
    assert {tuple(of_run) for of_run in states.values()} == {("START", "COMPLETE"), ("START", "FAIL")}
    failed = [e["job"]["name"] for e in told["events"] if e["eventType"] == "FAIL"]
    assert failed == [
        "__default__.crm.address.ingest.changes", "__default__.crm.address.ingest", "__default__",
    ]  # fmt: skip


def test_the_rows_that_a_commit_wrote_are_told(told):
    rows = {}
    for event in told["events"]:
        for dataset in event["outputs"] if event["eventType"] == "COMPLETE" else ():
            statistics = dataset.get("outputFacets", {}).get("outputStatistics")
            if statistics:
                rows.setdefault(event["job"]["name"].removeprefix("__default__."), []).append(
                    statistics["rowCount"]
                )
    assert rows["crm.master.ingest.changes"] == [1]
    assert rows["crm.master.ingest.quarantine"] == [1]
    assert rows["crm.address.ingest.changes"] == [1, 1]
    assert rows["crm.customer.merge.current"] == [1]
    assert rows["crm.customer.keep_history.history"] == [1]
