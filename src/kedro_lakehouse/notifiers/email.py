"""Mails over SMTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kedro_lakehouse.config.monitoring import EmailConfig, NotifierConfig

if TYPE_CHECKING:
    import smtplib
    from collections.abc import Callable, Mapping

    from kedro_lakehouse.notifiers.base import Message


class EmailNotifier:
    """Sends each message as one mail to all receivers."""

    config_model: ClassVar[type[NotifierConfig]] = EmailConfig

    def __init__(self, config: EmailConfig, credentials: Callable[[], Mapping[str, Any]]) -> None:
        """Keep both; no connection is opened."""
        self._config, self._credentials = config, credentials

    def send(self, message: Message) -> None:
        """Send a mail.

        Raises:
            OSError: The server cannot be reached, or refuses the mail (every error of SMTP is one).
        """
        from email.message import EmailMessage
        from email.utils import formatdate, make_msgid

        mail = EmailMessage()
        mail["From"], mail["To"] = self._config.from_, ", ".join(self._config.to)
        mail["Subject"], mail["Date"], mail["Message-ID"] = message.subject, formatdate(), make_msgid()
        mail.set_content(message.text)
        with self._connected() as server:
            if self._config.credentials is not None:
                held = self._credentials()
                server.login(str(held.get("username")), str(held.get("password")))
            server.send_message(mail)

    def _connected(self) -> smtplib.SMTP:
        """A connection that is encrypted as declared; certificates are always checked."""
        import smtplib
        import ssl

        config = self._config
        if config.security == "tls":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(config.host, config.port, timeout=config.timeout, context=context)
        server = smtplib.SMTP(config.host, config.port, timeout=config.timeout)
        if config.security == "starttls":
            try:
                server.starttls(context=ssl.create_default_context())
            except BaseException:
                server.close()
                raise
        return server
