"""Notifiers against real servers on this machine: what arrives, and that no secret is told on failure."""

import datetime as dt
import ipaddress
import json
import logging
import ssl
import sys

import boto3
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from harness.servers import http_server, smtp_server
from moto.server import ThreadedMotoServer

from kedro_lakehouse.config.monitoring import EmailConfig, SnsConfig, WebhookConfig
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.notifiers.base import Alert, AlertState, Message, Notifier
from kedro_lakehouse.notifiers.email import EmailNotifier
from kedro_lakehouse.notifiers.sns import SnsNotifier
from kedro_lakehouse.notifiers.webhook import WebhookNotifier

pytestmark = pytest.mark.contract

STATE = AlertState(
    kind="failure", subject="shop.item", raised=True, code="SNAPSHOT_EMPTY", message="Is empty."
)
MESSAGE = Message(run_id="r1", env="local", alerts=[Alert(state=STATE, commands=["kedro lakehouse runs"])])
KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}


def email(box, **more):
    raw = {"type": "email", "host": box.host, "port": box.port, "security": "none", "timeout": 5}
    return EmailConfig.model_validate(
        raw | {"from": "lake@example.com", "to": ["a@example.com", "b@example.com"]} | more
    )


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    """A server's TLS context whose certificate this process trusts."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(host, critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path / "server.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return context


@pytest.mark.parametrize("notifier", [EmailNotifier, WebhookNotifier, SnsNotifier])
def test_built_ins_keep_the_protocol(notifier):
    assert isinstance(notifier(None, dict), Notifier)


def test_a_mail_arrives_at_all_receivers():
    with smtp_server() as box:
        EmailNotifier(email(box), dict).send(MESSAGE)
    (mail,) = box.mails
    assert mail["To"] == "a@example.com, b@example.com"
    assert mail["Subject"] == "[lakehouse local] shop.item failing [SNAPSHOT_EMPTY]"
    assert mail.get_content().splitlines() == MESSAGE.text.splitlines()


def test_a_password_goes_over_an_encrypted_connection_only(certificate):
    held = {"username": "lake", "password": "CANARY"}
    with smtp_server(password=("lake", "CANARY"), tls=certificate) as box:
        EmailNotifier(email(box, security="starttls", credentials="smtp"), lambda: held).send(MESSAGE)
        wrong = EmailNotifier(
            email(box, security="starttls", credentials="smtp"), lambda: held | {"password": "x"}
        )
        with pytest.raises(OSError, match="535"):
            wrong.send(MESSAGE)
    assert len(box.mails) == 1


def test_a_server_of_unknown_identity_gets_no_mail(certificate, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    with smtp_server(tls=certificate) as box, pytest.raises(ssl.SSLCertVerificationError):
        EmailNotifier(email(box, security="starttls"), dict).send(MESSAGE)
    assert box.mails == []


def test_a_webhook_gets_the_message_as_json():
    with http_server() as posts:
        config = WebhookConfig(type="webhook", url=f"{posts.url}/hook")
        WebhookNotifier(config, dict).send(MESSAGE)
    assert posts.paths == ["/hook"]
    assert posts.bodies == [MESSAGE.as_json()]
    assert "Authorization" not in posts.headers[0]


def test_a_webhooks_address_and_token_may_be_secret():
    with http_server() as posts:
        config = WebhookConfig(type="webhook", credentials="chat")
        WebhookNotifier(config, lambda: {"url": f"{posts.url}/CANARY", "token": "T"}).send(MESSAGE)
    assert (posts.paths, posts.headers[0]["Authorization"]) == (["/CANARY"], "Bearer T")


def test_a_webhooks_secret_address_is_checked_as_well():
    notifier = WebhookNotifier(
        WebhookConfig(type="webhook", credentials="c"), lambda: {"url": "file:///etc/passwd"}
    )
    with pytest.raises(ValueError, match="not one of http"):
        notifier.send(MESSAGE)


def test_a_webhook_that_answers_with_an_error_was_not_told():
    with http_server() as posts:
        posts.status = 503
        with pytest.raises(OSError, match="503"):
            WebhookNotifier(WebhookConfig(type="webhook", url=posts.url), dict).send(MESSAGE)


def test_a_webhooks_token_goes_to_no_other_server():
    with http_server() as posts, http_server() as other:
        posts.status, posts.location = 302, f"{other.url}/stolen"
        config = WebhookConfig(type="webhook", url=posts.url, credentials="chat")
        with pytest.raises(OSError, match="302"):
            WebhookNotifier(config, lambda: {"token": "CANARY"}).send(MESSAGE)
    assert other.paths == []


def test_sns_without_its_client_is_told_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(UnsupportedError, match=r"kedro-lakehouse\[aws\]"):
        SnsNotifier(SnsConfig(type="sns", topic="arn:aws:sns:eu-west-1:123456789012:a"), dict).send(MESSAGE)


def test_a_topics_subscribers_get_the_message(monkeypatch):
    for variable in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(variable, raising=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}".replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - the server's own words
    try:
        sns, sqs = (boto3.client(s, "eu-west-1", endpoint_url=url, **KEYS) for s in ("sns", "sqs"))
        topic = sns.create_topic(Name="alerts")["TopicArn"]
        queue = sqs.create_queue(QueueName="seen")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
        config = SnsConfig(type="sns", topic=topic, endpoint=url, credentials="aws")
        SnsNotifier(config, lambda: KEYS).send(MESSAGE)
        (got,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    finally:
        server.stop()
    body = json.loads(got["Body"])
    assert (body["Subject"], body["Message"]) == (MESSAGE.subject, MESSAGE.text)
