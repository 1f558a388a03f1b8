"""monitoring.yml is exact, and holds no secret."""

import datetime as dt

import pytest

from kedro_lakehouse.config.monitoring import (
    EmailConfig,
    NotifierConfig,
    SnsConfig,
    WebhookConfig,
    load_monitoring,
)
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.plugins import NOTIFIERS, list_plugins, load_plugin

pytestmark = pytest.mark.unit

MODELS = {"email": EmailConfig, "webhook": WebhookConfig, "sns": SnsConfig}
EMAIL = {"type": "email", "host": "mail.example.com", "from": "lake@example.com", "to": ["a@example.com"]}
TOPIC = "arn:aws:sns:eu-west-1:123456789012:alerts"


def load(raw):
    return load_monitoring(raw, ["shop.item"], MODELS)


def notifier(raw):
    return load({"notifiers": {"team": raw}}).notifiers["team"]


def test_a_whole_file_loads():
    found = load(
        {
            "stale_after": {"default": "25h", "shop.item": "2 hours"},
            "notifiers": {
                "team": EMAIL,
                "chat": {"type": "webhook", "credentials": "chat", "kinds": ["failure"]},
                "topic": {"type": "sns", "topic": TOPIC},
            },
            "metrics": {"path": "/metrics/lake.prom"},
            "lineage": {"url": "http://localhost:5000"},
        }
    )
    assert found.stale_after == {"default": dt.timedelta(hours=25), "shop.item": dt.timedelta(hours=2)}
    assert found.notifiers["team"].security == "starttls"
    assert found.notifiers["chat"].kinds == ("failure",)
    assert found.lineage.endpoint == "api/v1/lineage"


def test_what_is_set_to_null_counts_as_not_written():
    found = load({"notifiers": {"team": None}, "metrics": None, "lineage": None, "stale_after": None})
    assert (found.notifiers, found.metrics, found.lineage, found.stale_after) == ({}, None, None, {})


@pytest.mark.parametrize(
    ("raw", "key", "words"),
    [
        ({"notifier": {}}, "notifier", "Did you mean 'notifiers'?"),
        ({"notifiers": {"t": {"type": "mail"}}}, "notifiers.t.type", "Did you mean 'email'?"),
        ({"notifiers": {"t": {"host": "h"}}}, "notifiers.t.type", "missing"),
        ({"notifiers": {"t": EMAIL | {"hosts": "h"}}}, "notifiers.t.hosts", "Did you mean 'host'?"),
        ({"notifiers": {"t": EMAIL | {"kinds": ["fail"]}}}, "notifiers.t.kinds[0]", "not allowed"),
        (
            {"notifiers": {"t": EMAIL | {"security": "none", "credentials": "c"}}},
            "notifiers.t.security",
            "unencrypted",
        ),
        ({"notifiers": {"t": {"type": "webhook"}}}, "notifiers.t.url", "missing"),
        ({"notifiers": {"t": {"type": "webhook", "url": "file:///etc/passwd"}}}, "notifiers.t.url", "http"),
        ({"notifiers": {"t": {"type": "sns", "topic": "alerts"}}}, "notifiers.t.topic", "ARN"),
        ({"stale_after": {"shop.itm": "2h"}}, "stale_after.shop.itm", "Did you mean 'shop.item'?"),
        ({"stale_after": {"default": "soon"}}, "stale_after.default", "duration"),
        ({"metrics": {"path": "/metrics/lake.txt"}}, "metrics.path", "prom"),
        ({"lineage": {"file": "f", "url": "http://h"}}, "lineage.file", "exactly one"),
        ({"lineage": {}}, "lineage.file", "exactly one"),
    ],
)
def test_what_is_wrong_is_refused_by_its_key(raw, key, words):
    with pytest.raises(ConfigurationError) as caught:
        load(raw)
    assert (caught.value.file, caught.value.key) == ("monitoring.yml", key)
    assert words in str(caught.value)


def test_a_password_in_an_address_is_refused_and_not_repeated():
    with pytest.raises(ConfigurationError) as caught:
        notifier({"type": "webhook", "url": "https://me:CANARY@example.com/x"})
    assert "CANARY" not in str(caught.value)
    assert "credentials" in str(caught.value)


def test_the_built_in_notifiers_are_plug_ins():
    assert set(list_plugins(NOTIFIERS)) >= {"email", "webhook", "sns"}
    for name in ("email", "webhook", "sns"):
        assert issubclass(load_plugin(NOTIFIERS, name).config_model, NotifierConfig)
