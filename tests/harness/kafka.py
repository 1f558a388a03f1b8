"""Real servers for the tests of streams: a Kafka broker and Kafka Connect, on ports of their own."""

from __future__ import annotations

import os
import subprocess
import time
import zipfile
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from harness.processes import PATIENCE, Server, free_port, wait_for
from harness.server_jars import server_jars
from kedro_lakehouse.session.java import java_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

KAFKA: Final = "org.apache.kafka:kafka_2.13:4.3.1,org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"
_LOGGING: Final = (
    "Configuration: {Appenders: {Console: {name: C}}, "
    "Loggers: {Root: {level: WARN, AppenderRef: {ref: C}}}}\n"
)


class _JavaServer(Server):
    """A server of Java programs."""

    def _java(self, packages: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a Java program of these packages, which logs into ``server.log``."""
        (self.folder / "log4j2.yaml").write_text(_LOGGING, encoding="utf-8")
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.yaml'}"
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", logging]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [java_command() or "java", *options, "-cp", os.pathsep.join(server_jars(packages)), *words],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip


class Broker(_JavaServer):
    """One Kafka broker in KRaft mode, with its data in a folder; it can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        """Write its configuration, and make its empty data folder."""
        self.folder, self.port, controller = folder, free_port(), free_port()
        folder.mkdir(parents=True)
        self._config = folder / "server.properties"
        self._config.write_text(
            f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder / "data"}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
auto.create.topics.enable=false
log.cleaner.backoff.ms=200
log.retention.check.interval.ms=500
message.max.bytes=12000000
replica.fetch.max.bytes=12000000
group.initial.rebalance.delay.ms=0
""",
            encoding="utf-8",
        )
        identity = "AAAAAAAAQQuAAAAAAAAAAQ"
        self._java(KAFKA, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._config)).wait()
        self.start()

    def start(self) -> None:
        """Start it on its data."""
        self._process = self._java(KAFKA, "kafka.Kafka", str(self._config))
        wait_for(self.port, self._process, self.log)

    @property
    def address(self) -> str:
        """Its address for clients."""
        return f"127.0.0.1:{self.port}"

    @cached_property
    def admin(self) -> AdminClient:
        """A client that makes and changes topics."""
        return AdminClient({"bootstrap.servers": self.address})

    def make_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Make a topic; keys of its configuration have underscores in place of dots."""
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        made = self.admin.create_topics([NewTopic(name, partitions, 1, config=dotted)])
        made[name].result(30)

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions."""
        self.admin.create_partitions([NewPartitions(name, total)])[name].result(30)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records."""
        self.admin.delete_topics([name])[name].result(30)
        time.sleep(0.5)  # the name is free a moment later

    def ends(self, name: str) -> dict[int, int]:
        """The next offset of each partition of a topic; empty while there is no such topic."""
        described = self.admin.list_topics(timeout=10).topics
        partitions = described[name].partitions if name in described else {}
        wanted = {TopicPartition(name, number): OffsetSpec.latest() for number in partitions}
        found = self.admin.list_offsets(wanted) if wanted else {}
        return {place.partition: answer.result(10).offset for place, answer in found.items()}

    def wait_for_records(self, name: str, total: int, *, or_more: bool = False) -> None:
        """Wait until a topic has so many records; after a crash a connector may send some again."""
        end, found = time.monotonic() + PATIENCE, -1
        while found < total:
            assert time.monotonic() < end, f"{name} has {found} records, not {total}"
            with suppress(KafkaException):  # a partition that was just made has no leader for a moment
                found = sum(self.ends(name).values())
            time.sleep(0.1)
        assert found == total or or_more

    def send(self, topic: str, messages: Iterable[Mapping[str, Any]], **settings: Any) -> None:
        """Send messages of ``value``, ``key`` and ``partition``, and wait until the broker has all."""
        producer = Producer({"bootstrap.servers": self.address, "message.max.bytes": 12_000_000} | settings)
        failed = []
        for message in messages:
            producer.produce(
                topic, on_delivery=lambda error, _: failed.append(error) if error else None, **message
            )
            producer.poll(0)
        producer.flush(30)
        assert not failed, failed[0]


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """A broker that runs while the block does."""
    broker = Broker(folder)
    try:
        yield broker
    finally:
        broker.stop()


CONNECT: Final = (
    "org.apache.kafka:connect-runtime:4.3.1,org.apache.kafka:connect-json:4.3.1,"
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"
)


AVRO: Final = (
    "io.apicurio:apicurio-registry-utils-converter:2.6.13.Final,"
    "com.fasterxml.jackson.core:jackson-core:2.21.2"
)
"""Converters of Avro, for registries with Apicurio's interface."""
_CONVERTER: Final = "META-INF/services/org.apache.kafka.connect.storage.Converter"


class Captured(Protocol):
    """A database whose changes a connector of Debezium captures."""

    connector_packages: ClassVar[str]

    def connector(self) -> Mapping[str, str]:
        """The properties of its connector: the class, the server's address, how its log is read."""
        ...


class Connect(_JavaServer):
    """A Kafka Connect worker with a connector of Debezium for each of some databases; it can be killed."""

    def __init__(
        self, folder: Path, broker: Broker, *databases: Captured, avro: bool = False, **connector: str
    ) -> None:
        """Write its configuration, and start it; what connectors share is given with underscores for dots.

        ``value_converter_schemas_enable="true"`` puts its schema into every message. ``avro``: the converters
        of Avro are there too.
        """
        self.folder, self.port = folder, free_port()
        folder.mkdir(parents=True)
        converter = "org.apache.kafka.connect.json.JsonConverter"
        self._write("worker", {
            "bootstrap.servers": broker.address,
            "plugin.path": str(folder / "plugins"),
            "plugin.discovery": "service_load",
            "key.converter": converter, "key.converter.schemas.enable": "false",
            "value.converter": converter,
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "500",
            "listeners": f"HTTP://127.0.0.1:{self.port}",
            "topic.creation.enable": "true",
            # ${env:NAME} in a connector's properties is a variable of this process's environment.
            "config.providers": "env",
            "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        })  # fmt: skip
        shared = {
            "value.converter": converter, "value.converter.schemas.enable": "false",
            "tasks.max": "1", "skipped.operations": "none", "poll.interval.ms": "100",
            "topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1",
            # Only connectors of databases whose log lacks the tables' columns read these two.
            "schema.history.internal.kafka.bootstrap.servers": broker.address,
            "schema.history.internal.kafka.topic": f"schemas-of-{self.port}",
        }  # fmt: skip
        own = {key.replace("_", "."): value for key, value in connector.items()}
        self._configured = ["worker"]
        if avro:
            self._plug_in("avro", AVRO)
            # Without a list of its classes the worker looks through all of them, which takes half a minute.
            with zipfile.ZipFile(folder / "plugins/avro/listed.jar", "w") as jar:
                jar.writestr(_CONVERTER, "io.apicurio.registry.utils.converter.AvroConverter\n")
        for database in databases:
            properties = shared | dict(database.connector()) | own
            # Each connector sees its own version of what Debezium's connectors have in common.
            self._plug_in(properties["name"], database.connector_packages)
            self._write(properties["name"], properties)
            self._configured.append(properties["name"])
        self.start()

    def _plug_in(self, name: str, packages: str) -> None:
        """Link the jars of packages into a folder of their own, without those that the worker has."""
        plugin = self.folder / "plugins" / name
        plugin.mkdir(parents=True)
        for jar in server_jars(packages, excludes="org.apache.kafka:*,org.slf4j:*"):
            (plugin / Path(jar).name).symlink_to(jar)

    def _write(self, name: str, properties: Mapping[str, str]) -> None:
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        (self.folder / f"{name}.properties").write_text(text, encoding="utf-8")

    def start(self) -> None:
        """Start the worker."""
        files = [str(self.folder / f"{name}.properties") for name in self._configured]
        self._process = self._java(CONNECT, "org.apache.kafka.connect.cli.ConnectStandalone", *files)
        wait_for(self.port, self._process, self.log)
